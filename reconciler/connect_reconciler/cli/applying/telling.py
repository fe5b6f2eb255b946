"""What an apply tells while it is at it, on stderr: a line for each thing done or waited for.

On a terminal what is under way stands below them and is replaced. Several connectors are under way
at a time, so every line names its connector.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from connect_reconciler.apply.progress import (
    Began,
    ConnectorDone,
    Event,
    Finished,
    Performed,
    Progress,
    Started,
    Waiting,
)
from connect_reconciler.apply.report import Outcome
from connect_reconciler.cli.output import colour, progress
from connect_reconciler.plan.action_words import verb

# So many connectors are named in the line below; the others are counted.
_NAMED = 4


@contextmanager
def telling() -> Iterator[Progress]:
    """The callback that tells."""
    if not sys.stderr.isatty():
        yield Teller(progress)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not colour(sys.stderr), highlight=False)
    with console.status("applying") as below:
        yield Teller(
            lambda text: console.print(text, markup=False, soft_wrap=True),
            lambda text: below.update(escape(text)),
        )


class Teller:
    """Called from the threads of an apply. `line` adds a line, `below` replaces the last one;
    without the latter, what is waited for gets lines of its own."""

    def __init__(
        self, line: Callable[[str], None], below: Callable[[str], None] | None = None
    ) -> None:
        self._line = line
        self._below = below
        self._lock = threading.Lock()
        self._under_way: dict[str, str] = {}
        self._actions = self._ended = 0

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tell(event)
            if self._below is not None:
                self._below(self._now())

    def _tell(self, event: Event) -> None:
        match event:
            case Began(actions=actions):
                self._actions = actions
            case Started(action=action):
                self._under_way[action.connector] = action.connector
            case Finished(result=each):
                self._ended += 1
                self._under_way.pop(each.action.connector, None)
                if each.outcome is Outcome.SKIPPED:
                    return  # may be very many; the report counts them
                detail = f": {each.detail}" if each.detail else ""
                what = f"{verb(each.action)} {each.outcome.value}{detail}"
                self._line(f"  {each.action.connector}: {what}")
            case Waiting(connector=connector, what=what):
                self._under_way[connector] = f"{connector} (until {what})"
                if self._below is None:
                    self._line(f"  {connector}: waiting until {what}")
            case Performed() | ConnectorDone():
                pass
            case _:
                assert_never(event)

    def _now(self) -> str:
        text = f"{self._ended} of {self._actions} actions"
        names = list(self._under_way.values())
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            text += f", under way: {', '.join(names[:_NAMED])}{more}"
        return text
