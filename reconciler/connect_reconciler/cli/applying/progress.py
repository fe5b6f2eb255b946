"""Progress of an apply on stderr: a line for each action done and each wait.

On a terminal, a last line shows what is in progress and is replaced. Several connectors are in
progress at a time, so every line names its connector.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from connect_reconciler.apply.report import (
    Began,
    ConnectorDone,
    Event,
    Finished,
    Outcome,
    Performed,
    Progress,
    Started,
    Waiting,
)
from connect_reconciler.cli.output import colour, progress
from connect_reconciler.model.actions import verb

# How many connectors the last line names; the others are counted
_NAMED = 4


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """The callback that shows progress."""
    if not sys.stderr.isatty():
        yield ProgressLines(progress)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not colour(sys.stderr), highlight=False)
    with console.status("applying") as below:
        yield ProgressLines(
            lambda text: console.print(text, markup=False, soft_wrap=True),
            lambda text: below.update(escape(text)),
        )


class ProgressLines:
    """Shows events from the threads of an apply. `line` adds a line, `below` replaces the last one;
    without `below`, waits get lines of their own."""

    def __init__(
        self, line: Callable[[str], None], below: Callable[[str], None] | None = None
    ) -> None:
        self._line = line
        self._below = below
        self._lock = threading.Lock()
        self._in_progress: dict[str, str] = {}
        self._actions = self._ended = 0

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._show(event)
            if self._below is not None:
                self._below(self._now())

    def _show(self, event: Event) -> None:
        match event:
            case Began(actions=actions):
                self._actions = actions
            case Started(action=action):
                self._in_progress[action.connector] = action.connector
            case Finished(result=each):
                self._ended += 1
                self._in_progress.pop(each.action.connector, None)
                if each.outcome is Outcome.SKIPPED:
                    return  # may be very many; the report counts them
                detail = f": {each.detail}" if each.detail else ""
                what = f"{verb(each.action)} {each.outcome.value}{detail}"
                self._line(f"  {each.action.connector}: {what}")
            case Waiting(connector=connector, what=what):
                self._in_progress[connector] = f"{connector} (until {what})"
                if self._below is None:
                    self._line(f"  {connector}: waiting until {what}")
            case Performed() | ConnectorDone():
                pass
            case _:
                assert_never(event)

    def _now(self) -> str:
        text = f"{self._ended} of {self._actions} actions"
        names = list(self._in_progress.values())
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            text += f", in progress: {', '.join(names[:_NAMED])}{more}"
        return text
