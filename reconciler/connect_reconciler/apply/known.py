"""What is known of an apply that is ended at once, while its threads are in the middle of things.

Nobody waits for them: what they were at may have taken place, or may still.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import groupby

from connect_reconciler.apply.progress import Event, Finished, Progress, Started
from connect_reconciler.apply.report import ActionResult, ConnectorReport, Outcome
from connect_reconciler.plan.actions import Action
from connect_reconciler.plan.plan import Plan

_IN_FLIGHT = "interrupted while it was under way"
_NOT_BEGUN = "interrupted"


class Known:
    """Passes events on, and keeps what they say of each action. Called from many threads."""

    def __init__(self, plan: Plan, tell: Progress) -> None:
        self._plan = plan
        self._tell = tell
        self._lock = threading.Lock()
        self._ended = False
        self._begun: set[int] = set()
        self._results: dict[int, ActionResult] = {}

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self._ended:
                return
            if isinstance(event, Started):
                self._begun.add(event.number)
            elif isinstance(event, Finished):
                self._results[event.number] = event.result
        self._tell(event)

    def end(self) -> tuple[ConnectorReport, ...]:
        """The reports as of now; nothing is told after it."""
        with self._lock:
            self._ended = True
        return tuple(self._reports())

    def _reports(self) -> Iterator[ConnectorReport]:
        numbered = enumerate(self._plan.actions, 1)
        for name, group in groupby(numbered, key=lambda each: each[1].connector):
            results = tuple(self._result(number, action) for number, action in group)
            outcomes = {each.outcome for each in results}
            left = "" if outcomes == {Outcome.DONE} else "its state was not read"
            if outcomes == {Outcome.SKIPPED}:
                left = "as it was"
            yield ConnectorReport(name, results, left)

    def _result(self, number: int, action: Action) -> ActionResult:
        if number in self._results:
            return self._results[number]
        if number in self._begun:
            return ActionResult(action, Outcome.UNKNOWN, _IN_FLIGHT)
        return ActionResult(action, Outcome.SKIPPED, _NOT_BEGUN)
