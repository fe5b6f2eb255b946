"""The report of an apply, and the events while it runs.

The callback for events is called after the fact, on the thread that changes the connector: once it
gets `Started`, the journal holds the action, so a process that is killed on an event leaves known
records. Texts are redacted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias

from connect_reconciler.actions import Action
from connect_reconciler.actions.plan import Plan
from connect_specs.diagnostics import Diagnostic, ExitCode

_IN_PROGRESS = "interrupted while it was under way"
_NOT_BEGUN = "interrupted"


class Outcome(StrEnum):
    """The outcome of an action. `unknown`: it may have taken place, or may still."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


class Health(StrEnum):
    """The health of a connector that was changed. `later`: no tasks run on this cluster now;
    `falls-behind`: a sink runs and its lag grows; `deleted`: it was deleted during the apply;
    `unknown`: the health could not be read; `not-awaited`: the user interrupted the health
    check."""

    NOT_ASKED = "not-asked"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    LATER = "later"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    FALLS_BEHIND = "falls-behind"
    DELETED = "deleted"
    UNKNOWN = "unknown"
    NOT_AWAITED = "not-awaited"


LATER = "not running: no runtime is up"
UNHEALTHY = (
    Health.FAILED,
    Health.TIMED_OUT,
    Health.FALLS_BEHIND,
    Health.DELETED,
    Health.UNKNOWN,
)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """One action of the plan and its outcome; `detail` says why it was not done."""

    action: Action
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorReport:
    """One connector's actions in order.

    `left` is the state of the connector where not all of them were done. `health_detail` is the
    last line of a failed task's trace, or what was still missing.
    """

    name: str
    results: tuple[ActionResult, ...]
    left: str = ""
    health: Health = Health.NOT_ASKED
    health_detail: str = ""

    @property
    def not_begun(self) -> bool:
        """Returns True if none of its actions was started."""
        return {result.outcome for result in self.results} == {Outcome.SKIPPED}

    @property
    def ok(self) -> bool:
        """Returns True if everything was done and nothing is known to be unhealthy."""
        done = all(result.outcome is Outcome.DONE for result in self.results)
        return done and self.health not in UNHEALTHY


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """An apply from its first action on. `ended_by` holds the error that ended it early, `seconds`
    how long it took. `told_to_stop`: the user pressed Ctrl-C, even if nothing was left to do.
    `runtime_up`: something runs the connectors."""

    apply_id: str
    connectors: tuple[ConnectorReport, ...]
    interrupted: bool = False
    ended_by: tuple[Diagnostic, ...] = ()
    exit_code: ExitCode = ExitCode.OK
    seconds: float = 0.0
    told_to_stop: bool = False
    runtime_up: bool = True

    @property
    def ok(self) -> bool:
        """Returns True if everything was done and nothing is known to be unhealthy."""
        return all(report.ok for report in self.connectors)

    @property
    def all_done(self) -> bool:
        """Returns True if all actions were done, whatever the connectors' health."""
        results = (result for report in self.connectors for result in report.results)
        return not self.interrupted and all(r.outcome is Outcome.DONE for r in results)

    @property
    def counts(self) -> dict[Outcome, int]:
        """Returns the number of actions by outcome."""
        results = [result for report in self.connectors for result in report.results]
        return {outcome: sum(r.outcome is outcome for r in results) for outcome in Outcome}


def exit_code(
    connectors: Sequence[ConnectorReport], *, interrupted: bool, cause: ExitCode | None
) -> ExitCode:
    """Returns the exit code: the error that ended the apply counts more than failed connectors."""
    if interrupted:
        return ExitCode.INTERRUPTED
    if cause is not None:
        return cause
    return ExitCode.OK if all(report.ok for report in connectors) else ExitCode.FAILED


# --- events ---


@dataclass(frozen=True, slots=True)
class Began:
    """All preconditions hold, and the journal is open."""

    apply_id: str
    actions: int


@dataclass(frozen=True, slots=True)
class Started:
    """The journal holds that this action begins. `number` counts from 1."""

    number: int
    action: Action


@dataclass(frozen=True, slots=True)
class Performed:
    """The cluster has done it; the journal does not hold that yet."""

    number: int
    action: Action


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of an action; the journal holds it if it was done."""

    number: int
    result: ActionResult


@dataclass(frozen=True, slots=True)
class Waiting:
    """The apply waits for a connector until `what` is so."""

    connector: str
    what: str


@dataclass(frozen=True, slots=True)
class ConnectorDone:
    """The final report of one connector."""

    report: ConnectorReport


Event: TypeAlias = Began | Started | Performed | Finished | Waiting | ConnectorDone
Progress: TypeAlias = Callable[[Event], None]


class ResultRecorder:
    """Passes events on, and records the results of actions. Called from many threads.

    For an apply that is ended at once, while its threads are in the middle of actions: nobody waits
    for them, and what they were doing may have taken place, or may still.
    """

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
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
        self._progress(event)

    def end(self) -> tuple[ConnectorReport, ...]:
        """Returns the reports as of now; no event is passed on after it."""
        with self._lock:
            self._ended = True
        return tuple(self._reports())

    def _reports(self) -> Iterator[ConnectorReport]:
        numbered = enumerate(self._plan.actions, 1)
        for name, group in groupby(numbered, key=lambda pair: pair[1].group):
            results = tuple(self._result(number, action) for number, action in group)
            outcomes = {result.outcome for result in results}
            state = "" if outcomes == {Outcome.DONE} else "its state was not read"
            if outcomes == {Outcome.SKIPPED}:
                state = "as it was"
            yield ConnectorReport(name, results, state)

    def _result(self, number: int, action: Action) -> ActionResult:
        if number in self._results:
            return self._results[number]
        if number in self._begun:
            return ActionResult(action, Outcome.UNKNOWN, _IN_PROGRESS)
        return ActionResult(action, Outcome.SKIPPED, _NOT_BEGUN)
