"""What did an apply do, and where did it leave each connector? Values for whoever draws them.

Texts in here hold no secret: they were covered where they came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from connect_reconciler.plan.actions import Action
from connect_specs.diagnostics import Diagnostic, ExitCode


class Outcome(StrEnum):
    """What became of an action. `unknown`: it may have taken place, or may still."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


class Health(StrEnum):
    """What was seen of a connector that was changed. `later`: no tasks run on this cluster now;
    `falls-behind`: a sink runs and its lag grows; `unknown`: the cluster was gone before it could
    be seen; `not-awaited`: the user ended it."""

    NOT_ASKED = "not-asked"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    LATER = "later"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    FALLS_BEHIND = "falls-behind"
    UNKNOWN = "unknown"
    NOT_AWAITED = "not-awaited"


LATER = "runs when a runtime starts"
UNWELL = (Health.FAILED, Health.TIMED_OUT, Health.FALLS_BEHIND, Health.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """One action of the plan and what became of it; `detail` says why, if it was not done."""

    action: Action
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorReport:
    """One connector's actions in order.

    `left` says in which state it is now where not all of them were done. `health_detail` is the
    last line of a failed task's trace, or what was still missing.
    """

    name: str
    results: tuple[ActionResult, ...]
    left: str = ""
    health: Health = Health.NOT_ASKED
    health_detail: str = ""

    @property
    def not_begun(self) -> bool:
        """Whether nothing at all was done to it."""
        return {result.outcome for result in self.results} == {Outcome.SKIPPED}

    @property
    def ok(self) -> bool:
        """Whether everything was done and nothing is known to be wrong."""
        done = all(result.outcome is Outcome.DONE for result in self.results)
        return done and self.health not in UNWELL


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """An apply from its first action on. `ended_by` says what ended it before its time, `seconds`
    how long it took. `told_to_stop`: the user asked it to end, also if nothing was left to do."""

    apply_id: str
    connectors: tuple[ConnectorReport, ...]
    interrupted: bool = False
    ended_by: tuple[Diagnostic, ...] = ()
    exit_code: ExitCode = ExitCode.OK
    seconds: float = 0.0
    told_to_stop: bool = False

    @property
    def ok(self) -> bool:
        """Whether everything was done and nothing is known to be wrong."""
        return all(report.ok for report in self.connectors)

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many actions had each outcome."""
        results = [result for report in self.connectors for result in report.results]
        return {each: sum(r.outcome is each for r in results) for each in Outcome}


def exit_code(
    connectors: Sequence[ConnectorReport], *, interrupted: bool, ended: ExitCode | None
) -> ExitCode:
    """The exit code that follows: what ended the apply counts more than what failed in it."""
    if interrupted:
        return ExitCode.INTERRUPTED
    if ended is not None:
        return ended
    return ExitCode.OK if all(report.ok for report in connectors) else ExitCode.FAILED
