"""The user of an apply: their choices, and the questions and messages to them.

`cli.terminal` is the user at a terminal.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan
    from connect_reconciler.apply.report import ApplyReport, Progress


@dataclass(frozen=True, slots=True)
class Choices:
    """`health_timeout`, `healthy_for`, `settle` and `lock_timeout` are in seconds. `healthy_for`
    None: as long as the evidence of their health requires. `require_running`: an apply with no
    runtime up fails."""

    parallelism: int = 8
    fail_fast: bool = False
    health_timeout: float = 60.0
    healthy_for: float | None = None
    settle: float = 10.0
    lock_timeout: float = 0.0
    require_running: bool = False


class StopRequest(Protocol):
    """Set once the user wants the apply to end."""

    def is_set(self) -> bool: ...
    def wait(self, timeout_s: float) -> bool:
        """Returns True if the user wants that by then."""
        ...


class User(Protocol):
    """Sees a plan, agrees to it, watches it being applied, and may stop it."""

    @property
    def can_be_asked(self) -> bool:
        """Returns True if a question would be answered by now, and has not been answered
        beforehand."""
        ...

    def ensure_agreement(self) -> None:
        """Raises Invalid where the user neither agreed beforehand nor can be asked."""
        ...

    def agrees(self, plan: Plan) -> bool:
        """Returns True if the plan may be applied."""
        ...

    def show(self, plan: Plan) -> None: ...
    def say(self, text: str) -> None:
        """Shows a progress message."""
        ...

    def waits(self, problem: str, limit_s: float) -> None:
        """Shows that another apply has the lease, and is waited for up to this limit."""
        ...

    def report(self, report: ApplyReport, *, rollback_follows: bool) -> None: ...

    def stopping(self) -> AbstractContextManager[StopRequest]:
        """Opens a context in which Ctrl-C asks the apply to end, and does not end the process."""
        ...

    def at_once(self) -> AbstractContextManager[None]:
        """Opens a context in which Ctrl-C ends whatever waits, also within `stopping`."""
        ...

    def progress(self) -> AbstractContextManager[Progress]: ...
    def may_change(self) -> None:
        """Marks that the cluster may have been changed from here on."""
        ...
