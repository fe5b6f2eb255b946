"""What is to be done next, given everything the leader knows: the heart of the herder, pure.

Level-triggered: it looks at what is wanted and what is, never at what happened. Calling it again
after its effects took place gives the next step, and in the end nothing. A failover, a crash or a
lost event therefore need no code of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.herder.effects import (
    ConnectorStatusIs,
    Effect,
    Fence,
    ForgetRun,
    KillRun,
    Launch,
    PublishTasks,
    Reassign,
    StartInstance,
    StopInstance,
    StopRun,
    TaskStatusIs,
    Unassign,
)
from connect_runtime.herder.runs import Instance, InstancePhase, Run, RunPhase
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_runtime.tasks.launch import Ended
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision may look at. `slots` None: this leader runs nothing (no launcher).
    `published` holds, by connector, the fingerprint of what its tasks' configs resolve to."""

    config: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    status: StatusSnapshot = field(default_factory=StatusSnapshot)
    assignments: AssignmentSnapshot = field(default_factory=AssignmentSnapshot)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    runs: Mapping[TaskId, Run] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)
    slots: int | None = None
    worker_id: str = ""
    term: int = 0


def decide(view: View, now: float) -> tuple[Effect, ...]:
    """The next effects. Empty when everything is as it should be, or is on its way."""
    by_connector = _by_connector(view)
    free = 0
    if view.slots is not None:
        free = view.slots - sum(run.active for run in view.runs.values())
    effects: list[Effect] = []
    for name, ids in by_connector.items():
        state = view.config.connectors.get(name)
        for effect in _connector(view, name, state, ids, now):
            if isinstance(effect, Launch):
                if free <= 0:
                    effects.extend(_without_a_slot(view, effect.task))
                    continue
                free -= 1
            effects.append(effect)
    return tuple(effects)


def _by_connector(view: View) -> dict[str, list[TaskId]]:
    """Every name that something is known of, with the tasks known of it."""
    found: dict[str, dict[TaskId, None]] = {name: {} for name in view.config.connectors}
    for name in (*view.instances, *view.status.connectors):
        found.setdefault(name, {})
    for task in (*view.runs, *view.assignments.tasks, *view.status.tasks):
        found.setdefault(task.connector, {})[task] = None
    return {name: sorted(ids) for name, ids in found.items()}


def _connector(
    view: View, name: str, state: ConnectorState | None, ids: Iterable[TaskId], now: float
) -> Iterator[Effect]:
    if state is None or state.target is TargetState.STOPPED:
        yield from _end_all(view, ids, now)
        yield from _end_instance(view, name)
        yield from _ended_status(view, name, state, ids)
        return
    if view.slots is None:
        yield from _at_rest(view, name, ids)
        return
    if state.target is TargetState.RUNNING:
        yield from _instance(view, state, now)
    yield from _live_status(view, state)
    yield from _tasks(view, state, ids, now)


def _at_rest(view: View, name: str, ids: Iterable[TaskId]) -> Iterator[Effect]:
    """Without a launcher nothing runs: an earlier runtime's claims are withdrawn."""
    for task in ids:
        if task in view.assignments.tasks:
            yield Unassign(task)
        status = view.status.tasks.get(task)
        if status is not None and status.state in (State.RUNNING, State.PAUSED, State.RESTARTING):
            yield TaskStatusIs(task, Status(State.UNASSIGNED, view.worker_id, view.term))
    yield from _connector_status(view, name, State.UNASSIGNED)


# --- stopped and deleted connectors ---


def _end_all(view: View, ids: Iterable[TaskId], now: float) -> Iterator[Effect]:
    for task in ids:
        run = view.runs.get(task)
        if run is not None:
            yield from _end(run, now)
        elif task in view.assignments.tasks:
            yield Unassign(task)


def _end(run: Run, now: float) -> Iterator[Effect]:
    match run.phase:
        case RunPhase.LAUNCHED:
            yield StopRun(run.id)
        case RunPhase.STOPPING if now >= run.deadline:
            yield KillRun(run.id)
        case RunPhase.ENDED:
            yield ForgetRun(run.id)
        case _:
            pass


def _end_instance(view: View, name: str) -> Iterator[Effect]:
    instance = view.instances.get(name)
    if instance is not None and instance.phase is not InstancePhase.STOPPING:
        yield StopInstance(name)


def _ended_status(
    view: View, name: str, state: ConnectorState | None, ids: Iterable[TaskId]
) -> Iterator[Effect]:
    """Tasks that are gone have no status; the connector's goes with the last of them."""
    running = False
    for task in ids:
        if task in view.runs:
            running = True
        elif task in view.status.tasks:
            yield TaskStatusIs(task, None)
    if name in view.instances:
        return
    if state is not None:
        yield from _connector_status(view, name, State.STOPPED)
    elif not running and name in view.status.connectors:
        yield ConnectorStatusIs(name, None)


# --- running and paused connectors ---


def _instance(view: View, state: ConnectorState, now: float) -> Iterator[Effect]:
    """A running connector has an instance with the newest config and values that have not expired,
    and its answer is published."""
    instance = view.instances.get(state.name)
    if instance is None:
        yield StartInstance(state.name)
        return
    if instance.phase in (InstancePhase.STARTING, InstancePhase.STOPPING):
        return
    expired = instance.reload_at is not None and now >= instance.reload_at
    if expired or instance.config != state.config:
        yield StopInstance(state.name)
    elif instance.phase is InstancePhase.STARTED and _unpublished(view, state, instance):
        yield PublishTasks(state.name, instance.task_configs)


def _unpublished(view: View, state: ConnectorState, instance: Instance) -> bool:
    return (
        state.inconsistent
        or view.published.get(state.name, instance.fingerprint) != instance.fingerprint
        or state.applied_config != state.config
        or state.task_count != len(instance.task_configs)
        or state.task_configs != instance.task_configs
    )


def _live_status(view: View, state: ConnectorState) -> Iterator[Effect]:
    instance = view.instances.get(state.name)
    if instance is not None and instance.phase is InstancePhase.FAILED:
        yield from _connector_status(view, state.name, State.FAILED, instance.trace)
    elif state.target is TargetState.PAUSED:
        yield from _connector_status(view, state.name, State.PAUSED)
    elif instance is not None and instance.phase is InstancePhase.STARTED:
        yield from _connector_status(view, state.name, State.RUNNING)


def _connector_status(
    view: View, name: str, state: State, trace: str | None = None
) -> Iterator[Effect]:
    instance = view.instances.get(name)
    current = view.status.connectors.get(name)
    version = instance.version if instance else None
    if (
        current is None
        or current.state is not state
        or current.trace != trace
        or (current.worker_id != view.worker_id and state is not State.UNASSIGNED)
    ):
        yield ConnectorStatusIs(name, Status(state, view.worker_id, view.term, trace, version))


def _tasks(
    view: View, state: ConnectorState, ids: Iterable[TaskId], now: float
) -> Iterator[Effect]:
    count = 0 if state.inconsistent else len(state.task_configs)
    for task in ids:
        if task.task >= count:
            yield from _superfluous(view, task, now)
    blocked = False
    wanted: list[Effect] = []
    for number in range(count):
        task = TaskId(state.name, number)
        run = view.runs.get(task)
        if run is not None and run.active and run.generation != state.generation:
            blocked = True
            yield from _end(run, now)
        elif run is None:
            wanted.append(Launch(task, state.generation, state.target))
        else:
            yield from _run(view, run, state, now, wanted)
    if not wanted or blocked or not _startable(view, state):
        return
    if state.pending_fencing and _kind(view, state) == "source":
        if not any(run.active for run in view.runs.values() if run.id.connector == state.name):
            yield _fencing(state)
        return
    yield from wanted


def _superfluous(view: View, task: TaskId, now: float) -> Iterator[Effect]:
    run = view.runs.get(task)
    if run is not None:
        yield from _end(run, now)
        return
    if task in view.assignments.tasks:
        yield Unassign(task)
    if task in view.status.tasks:
        yield TaskStatusIs(task, None)


def _run(
    view: View, run: Run, state: ConnectorState, now: float, wanted: list[Effect]
) -> Iterator[Effect]:
    """A run of the newest generation, or one that has ended."""
    match run.phase:
        case RunPhase.LAUNCHED if run.state is not state.target:
            yield Reassign(run.id, state.target)
        case RunPhase.STOPPING:
            yield from _end(run, now)
        case RunPhase.ENDED if run.generation != state.generation:
            yield ForgetRun(run.id)
        case RunPhase.ENDED if run.outcome is not None and run.outcome.ended is Ended.FAILED:
            yield from _task_status(view, run, State.FAILED)
        case RunPhase.ENDED if now >= run.deadline:
            wanted.append(Launch(run.id, state.generation, state.target, run.failures))
        case RunPhase.ENDED:
            yield from _task_status(view, run, State.UNASSIGNED)
        case _:
            pass


def _task_status(view: View, run: Run, state: State) -> Iterator[Effect]:
    """A task writes its own status; one that is gone can't, or may have failed to."""
    current = view.status.tasks.get(run.id)
    if current is None or current.state is not state:
        trace = run.outcome.trace if run.outcome else None
        yield TaskStatusIs(run.id, Status(state, view.worker_id, view.term, trace))


def _startable(view: View, state: ConnectorState) -> bool:
    """Tasks of an older config wait while a running connector's instance is about to replace
    them; those of a paused or failed one do not."""
    if state.target is TargetState.PAUSED or state.applied_config == state.config:
        return True
    instance = view.instances.get(state.name)
    return instance is not None and instance.phase is InstancePhase.FAILED


def _kind(view: View, state: ConnectorState) -> str:
    """Sinks have no producers to fence. Only the config tells them apart without a plugin."""
    if "topics" in state.config or "topics.regex" in state.config:
        return "sink"
    instance = view.instances.get(state.name)
    return instance.kind if instance and instance.kind != "unknown" else "source"


def _fencing(state: ConnectorState) -> Fence:
    """The rule of KIP-618: a lone task fences its lone predecessor by itself."""
    count = len(state.task_configs)
    old = state.task_count_record
    alone = old is None or (old == 1 and count == 1)
    return Fence(state.name, 0 if alone or old is None else old, count)


def _without_a_slot(view: View, task: TaskId) -> Iterator[Effect]:
    current = view.status.tasks.get(task)
    if current is None or current.state is not State.UNASSIGNED:
        yield TaskStatusIs(task, Status(State.UNASSIGNED, view.worker_id, view.term))
