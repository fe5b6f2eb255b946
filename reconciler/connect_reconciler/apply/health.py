"""Judges whether a connector is healthy: running, paused or stopped, as planned. Pure.

A verdict is final when it has stayed the same for a while; a new failure is final at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeAlias, assert_never

from connect_reconciler.backend.observe.plugin_facts import cause_in
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.states import TargetState

# The number of the connector itself among its tasks
CONNECTOR = -1
NO_TASKS = "it has no tasks"
NO_STATUS = "it has no status yet"
_MAY_HAVE_NONE = "if it is to have none, its spec says so with health: {allow_zero_tasks: true}"


def no_status(unread: str | None) -> str:
    """What is said of a connector without a status; `unread`: why some could not be read."""
    return NO_STATUS if unread is None else f"no status can be read: {unread}"


class Verdict(Enum):
    """What one observation says about a connector. `OLD_FAILURE`: it failed before the change, and
    has not reported since. `UNSETTLED`: it is not as planned yet."""

    HEALTHY = auto()
    FAILED = auto()
    OLD_FAILURE = auto()
    UNSETTLED = auto()


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and a text on what is wrong or missing. `unsure`: a later status may contradict
    it."""

    verdict: Verdict
    detail: str = ""
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """The planned state of a connector. `zero_tasks`: it may run without a task."""

    target: TargetState = TargetState.RUNNING
    zero_tasks: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """A connector's status at one time. `tasks` is the number of its tasks, and `tasks_current`
    says that they were created from its current config. `outdated` holds the numbers of tasks, or
    CONNECTOR, whose status is from before the change; `restarting` those of them that are certain
    to report again. `unsure` holds tasks whose status may be of their old config. `proven`: each
    task has polled its source, or put records, since the change. `unread`: which statuses cannot be
    read."""

    status: ConnectorStatus | None
    tasks: int
    tasks_current: bool = True
    outdated: frozenset[int] = field(default_factory=frozenset)
    restarting: frozenset[int] = field(default_factory=frozenset)
    unsure: frozenset[int] = field(default_factory=frozenset)
    proven: bool = False
    unread: str | None = None


def judge(look: Observation, wanted: Wanted) -> Judged:
    """Whether the connector and its tasks are as wanted; one failure is enough to fail it."""
    if look.status is None:
        return Judged(Verdict.UNSETTLED, no_status(look.unread))
    found = _judge(look, look.status, wanted)
    if look.unread is None or found.verdict is not Verdict.UNSETTLED:
        return found
    return replace(found, detail=f"{found.detail}; some statuses cannot be read: {look.unread}")


def _judge(look: Observation, status: ConnectorStatus, wanted: Wanted) -> Judged:
    parts = dict(_parts(look, status, wanted.target))
    counting = {number: part for number, part in parts.items() if number not in look.restarting}
    failed = [(number, part) for number, part in counting.items() if part.state is State.FAILED]
    for number, part in sorted(failed, key=lambda each: each[0] in look.outdated | look.unsure):
        old = number in look.outdated
        what = f"{_who(number)} failed{' before' if old else ''}: {cause_in(part.trace)}"
        if old:
            return Judged(Verdict.OLD_FAILURE, what)
        return Judged(Verdict.FAILED, what, unsure=number in look.unsure)
    for number, part in parts.items():
        state = part.state.value
        if number in look.outdated:
            what = f"{_who(number)} has said nothing since the change; it was {state} before"
            return Judged(Verdict.UNSETTLED, what)
        if state != wanted.target.value.upper():
            return Judged(Verdict.UNSETTLED, f"{_who(number)} is {state}")
    if wanted.target is TargetState.RUNNING:
        return _tasks(look, status, wanted)
    if wanted.target is TargetState.STOPPED and status.tasks:
        number, part = min(status.tasks.items())
        return Judged(Verdict.UNSETTLED, f"{_who(number)} is {part.state.value}")
    return Judged(Verdict.HEALTHY)


def _parts(
    look: Observation, status: ConnectorStatus, target: TargetState
) -> Iterator[tuple[int, InstanceStatus]]:
    """The statuses that count, without tasks of an older config and tasks that are to go."""
    yield CONNECTOR, status.connector
    if target is not TargetState.STOPPED and (look.tasks_current or target is TargetState.PAUSED):
        tasks = sorted(status.tasks.items())
        yield from ((number, part) for number, part in tasks if number < look.tasks)


def _tasks(look: Observation, status: ConnectorStatus, wanted: Wanted) -> Judged:
    """Judges the tasks of a running connector, all of whose reported statuses are as planned."""
    if not look.tasks_current:
        # it may have thrown, and be asked for them again and again
        why = "its tasks are not made from its new config yet; if they cannot be, the log says why"
        return Judged(Verdict.UNSETTLED, why)
    silent = [number for number in range(look.tasks) if number not in status.tasks]
    if silent:
        return Judged(Verdict.UNSETTLED, f"task {silent[0]} has no status yet")
    if look.tasks:
        return Judged(Verdict.HEALTHY, unsure=bool(look.unsure))
    if wanted.zero_tasks:
        return Judged(Verdict.HEALTHY, NO_TASKS)
    return Judged(Verdict.UNSETTLED, f"{NO_TASKS}; {_MAY_HAVE_NONE}")


def _who(number: int) -> str:
    return "the connector" if number == CONNECTOR else f"task {number}"


def still_running(status: ConnectorStatus | None) -> str:
    """What still runs of a connector that was asked to stop; empty once it is stopped."""
    if status is None:
        return NO_STATUS
    if status.connector.state is State.STOPPED:
        return tasks_left(status)
    return anything_left(status)


def tasks_left(status: ConnectorStatus | None) -> str:
    """What still runs of a connector to be deleted, which never reports STOPPED if it never ran."""
    if status is None or not status.tasks:
        return ""
    number, part = min(status.tasks.items())
    return f"{_who(number)} is {part.state.value}"


def anything_left(status: ConnectorStatus | None) -> str:
    """What is left of a deleted connector; empty once it is gone."""
    if status is None:
        return ""
    return tasks_left(status) or f"{_who(CONNECTOR)} is {status.connector.state.value}"


@dataclass(frozen=True, slots=True)
class Periods:
    """In seconds. `healthy_s`: how long a connector must stay healthy; `unproven_s`: how long one
    must run whose tasks are not proven to work. `settle_s`: how long after
    its last change a connector is judged. `unsure_s`: how long a verdict must stand that a later
    status may contradict, and how long after its last change a connector is one that failed
    before."""

    healthy_s: float
    unproven_s: float
    settle_s: float
    unsure_s: float


@dataclass(frozen=True, slots=True)
class Watch:
    """A connector whose health is awaited. `changed` is the time of its last change, `since` the
    time of the newest verdict, and `first` a sink's lags then, once they were read. `grew` says how
    far its lag grew since, and `keeps_up` that it did not."""

    wanted: Wanted = Wanted()
    changed: float = 0.0
    judged: Judged = Judged(Verdict.UNSETTLED)
    since: float = 0.0
    first: Lags | None = None
    grew: str = ""
    keeps_up: bool = False

    def now_judged(self, judged: Judged, now: float) -> Watch:
        """The watch after one more observation; a new verdict starts its period again."""
        if judged == self.judged:
            return self
        return Watch(self.wanted, self.changed, judged, now)


def watch(
    state: Watch, judged: Judged, now: float, periods: Periods, *, proven: bool = False
) -> tuple[Watch, bool]:
    """The watch after one more observation, and whether its verdict is final. `proven`: its tasks
    work, by other evidence than that they run."""
    state, ago = state.now_judged(judged, now), now - state.changed
    stood_s = now - state.since
    if judged.unsure and stood_s < periods.unsure_s:
        return state, False
    match judged.verdict:
        case Verdict.UNSETTLED:
            return state, False
        case Verdict.FAILED:
            return state, True
        case Verdict.OLD_FAILURE:
            return state, ago >= periods.unsure_s
        case Verdict.HEALTHY:
            runs = state.wanted.target is TargetState.RUNNING
            needs_s = periods.unproven_s if runs and not proven else periods.healthy_s
            return state, stood_s >= needs_s and ago >= periods.settle_s
        case _:
            assert_never(judged.verdict)


def watch_lag(state: Watch, now: Lags, *, final: bool) -> tuple[Watch, bool]:
    """The watch of a running sink after its lags were read again, and whether it is final. It is
    not while the lag is larger than at first: after a pause there is much to catch up with."""
    if state.first is None:
        return replace(state, first=now), False
    if not final:
        return state, False
    grew = growth(state.first, now)
    return replace(state, grew=grew, keeps_up=not grew), not grew


def failures(status: ConnectorStatus | None) -> Mapping[int, InstanceStatus]:
    """The failed tasks by number, and the connector itself as CONNECTOR."""
    if status is None:
        return {}
    parts = [(CONNECTOR, status.connector), *status.tasks.items()]
    return {number: part for number, part in parts if part.state is State.FAILED}


# --- a sink's lag ---


@dataclass(frozen=True, slots=True)
class Lag:
    """A sink's lag in one partition: `at` is the offset that it committed, `end` the log's end."""

    at: int
    end: int

    @property
    def behind(self) -> int:
        """How many records, and markers of transactions, it has not delivered."""
        return max(0, self.end - self.at)


Lags: TypeAlias = Mapping[TopicPartition, Lag]


def growth(first: Lags, now: Lags) -> str:
    """How the lag grew, in words; empty if it did not.

    Offsets are committed now and then, so a sink that keeps up seems to stand still in between.
    Therefore only partitions count that the sink has not read to where their logs ended at first:
    others do not hide one that is stuck, and one that waits for others to catch up is no alarm.
    """
    left = [at for at, then in first.items() if at in now and now[at].at < then.end]
    before, after = (sum(each[at].behind for at in left) for each in (first, now))
    if after <= before:
        return ""
    worst = max(left, key=lambda at: now[at].behind)
    where = f"most of it in {worst[0]}-{worst[1]}" if len(left) > 1 else f"{worst[0]}-{worst[1]}"
    stands = all(first[at].at == now[at].at for at in left)
    commits = "it commits nothing" if stands else "it commits less than is written"
    return f"lag grows: {before:,} → {after:,} records ({where}); {commits}"
