"""Verdicts on the health of connectors: running, paused or stopped, as planned. Pure.

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
from connect_specs.desired import TargetState

# The number of the connector itself among its tasks
CONNECTOR = -1
NO_TASKS = "it has no tasks"
NO_STATUS = "it has no status yet"
_MAY_HAVE_NONE = "if it is to have none, its spec says so with health: {allow_zero_tasks: true}"


class Verdict(Enum):
    """Verdict on one observation of a connector. `OLD_FAILURE`: it failed before the change, and
    has not reported since. `UNSETTLED`: it is not as planned yet."""

    HEALTHY = auto()
    FAILED = auto()
    OLD_FAILURE = auto()
    UNSETTLED = auto()


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """A verdict with the cause, or with the condition that is missing. `unsure`: a later status may
    contradict it."""

    verdict: Verdict
    detail: str = ""
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class HealthGoal:
    """The planned state of a connector. `zero_tasks`: it may run without a task."""

    target: TargetState = TargetState.RUNNING
    zero_tasks: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """A connector's status at one time.

    `tasks` is the number of its tasks, and `tasks_current` is true if they were created from its
    current config. `outdated` holds the numbers of tasks, or CONNECTOR, whose status is from before
    the change; `restarting` those of them that are certain to report again. `unsure` holds tasks
    whose status may be of their old config. `proven`: each task has polled its source, or put
    records, since the change. `unread`: the statuses that cannot be read, with the reason.
    """

    status: ConnectorStatus | None
    tasks: int
    tasks_current: bool = True
    outdated: frozenset[int] = field(default_factory=frozenset)
    restarting: frozenset[int] = field(default_factory=frozenset)
    unsure: frozenset[int] = field(default_factory=frozenset)
    proven: bool = False
    unread: str | None = None


def judge(observation: Observation, goal: HealthGoal) -> HealthVerdict:
    """Judges a connector and its tasks; one failure is enough to fail it."""
    unread = observation.unread
    if observation.status is None:
        problem = NO_STATUS if unread is None else f"no status can be read: {unread}"
        return HealthVerdict(Verdict.UNSETTLED, problem)
    judged = _judge(observation, observation.status, goal)
    if unread is None or judged.verdict is not Verdict.UNSETTLED:
        return judged
    detail = f"{judged.detail}; some statuses cannot be read: {unread}"
    return replace(judged, detail=detail)


def _judge(observation: Observation, status: ConnectorStatus, goal: HealthGoal) -> HealthVerdict:
    outdated, unsure = observation.outdated, observation.unsure
    statuses = dict(_relevant(observation, status, goal.target))
    failed = [
        number
        for number, instance in statuses.items()
        if instance.state is State.FAILED and number not in observation.restarting
    ]
    # New failures count more than those from before the change
    for number in sorted(failed, key=lambda number: number in outdated | unsure):
        cause = cause_in(statuses[number].trace)
        if number in outdated:
            return HealthVerdict(Verdict.OLD_FAILURE, f"{_name(number)} failed before: {cause}")
        is_unsure = number in unsure
        return HealthVerdict(Verdict.FAILED, f"{_name(number)} failed: {cause}", is_unsure)
    for number, instance in statuses.items():
        state = instance.state.value
        if number in outdated:
            problem = f"{_name(number)} has said nothing since the change; it was {state} before"
            return HealthVerdict(Verdict.UNSETTLED, problem)
        if state != goal.target.value.upper():
            return HealthVerdict(Verdict.UNSETTLED, f"{_name(number)} is {state}")
    if goal.target is TargetState.RUNNING:
        return _judge_tasks(observation, status, goal)
    if goal.target is TargetState.STOPPED and status.tasks:
        return HealthVerdict(Verdict.UNSETTLED, tasks_left(status))
    return HealthVerdict(Verdict.HEALTHY)


def _relevant(
    observation: Observation, status: ConnectorStatus, target: TargetState
) -> Iterator[tuple[int, InstanceStatus]]:
    """Yields the statuses that count, without tasks of an older config and tasks that are to go."""
    yield CONNECTOR, status.connector
    has_tasks = observation.tasks_current or target is TargetState.PAUSED
    if target is not TargetState.STOPPED and has_tasks:
        yield from (task for task in sorted(status.tasks.items()) if task[0] < observation.tasks)


def _judge_tasks(
    observation: Observation, status: ConnectorStatus, goal: HealthGoal
) -> HealthVerdict:
    """Judges the tasks of a running connector, all of whose reported statuses are as planned."""
    if not observation.tasks_current:
        # it may have thrown, and be asked for them again and again
        text = "its tasks are not made from its new config yet; if they cannot be, the log says why"
        return HealthVerdict(Verdict.UNSETTLED, text)
    silent = [number for number in range(observation.tasks) if number not in status.tasks]
    if silent:
        return HealthVerdict(Verdict.UNSETTLED, f"task {silent[0]} has no status yet")
    if observation.tasks:
        return HealthVerdict(Verdict.HEALTHY, unsure=bool(observation.unsure))
    if goal.zero_tasks:
        return HealthVerdict(Verdict.HEALTHY, NO_TASKS)
    return HealthVerdict(Verdict.UNSETTLED, f"{NO_TASKS}; {_MAY_HAVE_NONE}")


def _name(number: int) -> str:
    return "the connector" if number == CONNECTOR else f"task {number}"


# --- connectors that end ---


def still_running(status: ConnectorStatus | None) -> str:
    """Returns the part of a stopping connector that still runs; empty once it is stopped."""
    if status is None:
        return NO_STATUS
    if status.connector.state is State.STOPPED:
        return tasks_left(status)
    return anything_left(status)


def tasks_left(status: ConnectorStatus | None) -> str:
    """Returns the first task that a connector has; empty without tasks. A connector that is deleted
    never reports STOPPED if it never ran."""
    if status is None or not status.tasks:
        return ""
    number, task = min(status.tasks.items())
    return f"{_name(number)} is {task.state.value}"


def anything_left(status: ConnectorStatus | None) -> str:
    """Returns the part of a deleted connector that is left; empty once it is gone."""
    if status is None:
        return ""
    return tasks_left(status) or f"{_name(CONNECTOR)} is {status.connector.state.value}"


# --- verdicts over time ---


@dataclass(frozen=True, slots=True)
class Periods:
    """Times in seconds. `healthy_s`: how long a connector must stay healthy; `unproven_s`: how long
    a connector must run whose tasks are not proven to work. `settle_s`: how long after its last
    change a connector is judged. `unsure_s`: how long a verdict must stand that a later status may
    contradict, and how long after its last change a connector counts as failed before."""

    healthy_s: float
    unproven_s: float
    settle_s: float
    unsure_s: float


@dataclass(frozen=True, slots=True)
class HealthWatch:
    """A connector whose health is awaited. `changed_at` is the time of its last change, `since` the
    time of the newest verdict, and `first_lags` a sink's lags then, once they were read.
    `lag_growth` is the growth since, as text, and `keeps_up` is true if there is none."""

    goal: HealthGoal = HealthGoal()
    changed_at: float = 0.0
    judged: HealthVerdict = HealthVerdict(Verdict.UNSETTLED)
    since: float = 0.0
    first_lags: Lags | None = None
    lag_growth: str = ""
    keeps_up: bool = False


def watch(
    state: HealthWatch,
    judged: HealthVerdict,
    now_s: float,
    periods: Periods,
    *,
    proven: bool = False,
) -> tuple[HealthWatch, bool]:
    """Returns the watch after one more observation, and whether its verdict is final. `proven`: its
    tasks work, by other evidence than that they run."""
    if judged != state.judged:
        # A new verdict starts its period again
        state = HealthWatch(state.goal, state.changed_at, judged, now_s)
    ago_s, stood_s = now_s - state.changed_at, now_s - state.since
    if judged.unsure and stood_s < periods.unsure_s:
        return state, False
    match judged.verdict:
        case Verdict.UNSETTLED:
            return state, False
        case Verdict.FAILED:
            return state, True
        case Verdict.OLD_FAILURE:
            return state, ago_s >= periods.unsure_s
        case Verdict.HEALTHY:
            runs = state.goal.target is TargetState.RUNNING
            needs_s = periods.unproven_s if runs and not proven else periods.healthy_s
            return state, stood_s >= needs_s and ago_s >= periods.settle_s
        case _:
            assert_never(judged.verdict)


def watch_lag(state: HealthWatch, lags: Lags, *, final: bool) -> tuple[HealthWatch, bool]:
    """Returns the watch of a running sink after its lags were read, and whether it is final. It is
    not while the lag is larger than at first: after a pause there is much to catch up with."""
    if state.first_lags is None:
        return replace(state, first_lags=lags), False
    if not final:
        return state, False
    lag_growth = growth(state.first_lags, lags)
    return replace(state, lag_growth=lag_growth, keeps_up=not lag_growth), not lag_growth


def failures(status: ConnectorStatus | None) -> Mapping[int, InstanceStatus]:
    """Returns the failed tasks by number, and the connector itself as CONNECTOR."""
    if status is None:
        return {}
    instances = {CONNECTOR: status.connector, **status.tasks}
    return {
        number: instance for number, instance in instances.items() if instance.state is State.FAILED
    }


# --- a sink's lag ---


@dataclass(frozen=True, slots=True)
class Lag:
    """A sink's lag in one partition: `at` is the offset that it committed, `end` the log's end."""

    at: int
    end: int

    @property
    def behind(self) -> int:
        """Returns how many records, and markers of transactions, it has not delivered."""
        return max(0, self.end - self.at)


Lags: TypeAlias = Mapping[TopicPartition, Lag]


def growth(first: Lags, latest: Lags) -> str:
    """Returns how the lag grew, as text; empty if it did not.

    Offsets are committed now and then, so a sink that keeps up seems to stand still in between.
    Therefore only partitions count that the sink has not read to where their logs ended at first:
    others do not hide one that is stuck, and one that waits for others to catch up is no alarm.
    """
    late = [at for at, lag in first.items() if at in latest and latest[at].at < lag.end]
    first_sum, latest_sum = (sum(lags[at].behind for at in late) for lags in (first, latest))
    if latest_sum <= first_sum:
        return ""
    topic, partition = max(late, key=lambda at: latest[at].behind)
    place = f"{topic}-{partition}"
    place = f"most of it in {place}" if len(late) > 1 else place
    stands = all(first[at].at == latest[at].at for at in late)
    commits = "it commits nothing" if stands else "it commits less than is written"
    return f"lag grows: {first_sum:,} → {latest_sum:,} records ({place}); {commits}"
