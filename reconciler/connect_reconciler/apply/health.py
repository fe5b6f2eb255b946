"""Is a connector as it is to be: does it run, is it paused or stopped? Judged from one look, pure.

A verdict counts when it has stood for a while; a failure that is new counts at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import assert_never

from connect_reconciler.apply.lag import Standings, growth
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.states import TargetState

# The number of the connector itself among its tasks
CONNECTOR = -1
NO_TASKS = "it has no tasks"
_MAY_HAVE_NONE = "if it is to have none, its spec says so with health: {allow_zero_tasks: true}"


class Verdict(Enum):
    """What a look says about a connector. `OLD_FAILURE`: it failed before the change, and nobody
    has said anything since."""

    WELL = auto()
    FAILED = auto()
    OLD_FAILURE = auto()
    UNSETTLED = auto()


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and in words what is wrong or missing."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a connector is to be after an apply. `zero_tasks`: it may run without a task."""

    target: TargetState = TargetState.RUNNING
    zero_tasks: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a connector at one time. `tasks` is how many it has; `made`: from the config
    that it has now. `late` holds the numbers of tasks, or CONNECTOR, whose status is from before
    the change; `anew` those of them that are certain to say something yet."""

    status: ConnectorStatus | None
    tasks: int
    made: bool = True
    late: frozenset[int] = field(default_factory=frozenset)
    anew: frozenset[int] = field(default_factory=frozenset)


def judge(look: Look, wanted: Wanted) -> Judged:
    """Whether the connector and its tasks are as wanted; one failure is enough to fail it."""
    status = look.status
    if status is None:
        return Judged(Verdict.UNSETTLED, "it has no status yet")
    parts = dict(_parts(look, status, wanted.target))
    counting = {number: part for number, part in parts.items() if number not in look.anew}
    failed = [(number, part) for number, part in counting.items() if part.state is State.FAILED]
    for number, part in sorted(failed, key=lambda each: each[0] in look.late):
        old = number in look.late
        what = f"{_who(number)} failed{' before' if old else ''}: {last_line(part.trace)}"
        return Judged(Verdict.OLD_FAILURE if old else Verdict.FAILED, what)
    for number, part in parts.items():
        state = part.state.value
        if number in look.late:
            what = f"{_who(number)} has said nothing since the change; it was {state} before"
            return Judged(Verdict.UNSETTLED, what)
        if state != wanted.target.value.upper():
            return Judged(Verdict.UNSETTLED, f"{_who(number)} is {state}")
    if wanted.target is TargetState.RUNNING:
        return _tasks(look, status, wanted)
    if wanted.target is TargetState.STOPPED and status.tasks:
        number, part = min(status.tasks.items())
        return Judged(Verdict.UNSETTLED, f"{_who(number)} is {part.state.value}")
    return Judged(Verdict.WELL)


def _parts(
    look: Look, status: ConnectorStatus, target: TargetState
) -> Iterator[tuple[int, InstanceStatus]]:
    """What has a say: tasks of an older config do not, nor those that there are to be no more."""
    yield CONNECTOR, status.connector
    if target is not TargetState.STOPPED and (look.made or target is TargetState.PAUSED):
        tasks = sorted(status.tasks.items())
        yield from ((number, part) for number, part in tasks if number < look.tasks)


def _tasks(look: Look, status: ConnectorStatus, wanted: Wanted) -> Judged:
    """Of a connector that runs, with all tasks that have a status."""
    if not look.made:
        return Judged(Verdict.UNSETTLED, "its tasks are not made from its new config yet")
    silent = [number for number in range(look.tasks) if number not in status.tasks]
    if silent:
        return Judged(Verdict.UNSETTLED, f"task {silent[0]} has no status yet")
    if look.tasks:
        return Judged(Verdict.WELL)
    if wanted.zero_tasks:
        return Judged(Verdict.WELL, NO_TASKS)
    return Judged(Verdict.UNSETTLED, f"{NO_TASKS}; {_MAY_HAVE_NONE}")


def _who(number: int) -> str:
    return "the connector" if number == CONNECTOR else f"task {number}"


def still_running(status: ConnectorStatus | None) -> str:
    """What is left of a connector that was asked to stop; empty when it has."""
    if status is None:
        return "it has no status yet"
    if status.connector.state is State.STOPPED:
        return tasks_left(status)
    return anything_left(status)


def tasks_left(status: ConnectorStatus | None) -> str:
    """The same for one that is to be deleted: a connector that never came up says no STOPPED."""
    if status is None or not status.tasks:
        return ""
    number, part = min(status.tasks.items())
    return f"{_who(number)} is {part.state.value}"


def anything_left(status: ConnectorStatus | None) -> str:
    """What is left of one that was deleted."""
    if status is None:
        return ""
    return tasks_left(status) or f"{_who(CONNECTOR)} is {status.connector.state.value}"


@dataclass(frozen=True, slots=True)
class Periods:
    """In seconds. `well_s`: how long what is well must be so. `settle_s`: how long after its last
    change a connector is judged, `old_failure_s` one that failed before it."""

    well_s: float
    settle_s: float
    old_failure_s: float


@dataclass(frozen=True, slots=True)
class Watch:
    """One connector that is waited for. `changed` is when it was changed last; `since` when the
    newest verdict was first seen, `first` how far a sink was then, once that was read. `grew` says
    that it fell further behind since."""

    wanted: Wanted = Wanted()
    changed: float = 0.0
    judged: Judged = Judged(Verdict.UNSETTLED)
    since: float = 0.0
    first: Standings | None = None
    grew: str = ""

    def now_judged(self, judged: Judged, now: float) -> Watch:
        """After one more look; a new verdict begins to stand."""
        if judged == self.judged:
            return self
        return Watch(self.wanted, self.changed, judged, now)


def watch(state: Watch, judged: Judged, now: float, periods: Periods) -> tuple[Watch, bool]:
    """The watch after one more look, and whether its verdict is final."""
    state, ago = state.now_judged(judged, now), now - state.changed
    match judged.verdict:
        case Verdict.UNSETTLED:
            return state, False
        case Verdict.FAILED:
            return state, True
        case Verdict.OLD_FAILURE:
            return state, ago >= periods.old_failure_s
        case Verdict.WELL:
            return state, now - state.since >= periods.well_s and ago >= periods.settle_s
        case _:
            assert_never(judged.verdict)


def watch_lag(state: Watch, now: Standings, *, final: bool) -> tuple[Watch, bool]:
    """The same for a sink that runs, once its standings were read again. One whose lag has grown is
    looked at until it has not: after a pause there is much to catch up with."""
    if state.first is None:
        return replace(state, first=now), False
    if not final:
        return state, False
    grew = growth(state.first, now)
    return replace(state, grew=grew), not grew


def failures(status: ConnectorStatus | None) -> Mapping[int, InstanceStatus]:
    """What has failed, by number."""
    if status is None:
        return {}
    parts = [(CONNECTOR, status.connector), *status.tasks.items()]
    return {number: part for number, part in parts if part.state is State.FAILED}


def last_line(trace: str | None) -> str:
    """The line of a Python traceback that names the error; of a Java one, the innermost cause."""
    lines = [line.strip() for line in (trace or "").splitlines() if line.strip()]
    if not lines:
        return "there is no trace"
    if lines[0].startswith("Traceback "):
        return lines[-1]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0]
