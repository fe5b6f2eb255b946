"""Decides the next effects from everything that the leader knows: the herder's core, pure.

Level-triggered: it compares the wanted with the actual state and ignores events. Called again after
its effects took place, it gives the next step, and finally nothing. A failover, a crash or a lost
event therefore needs no special code. Each connector is decided independently, so no connector can
block another; only slots are shared.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping

from connect_runtime.herder.decide_tasks import end, tasks_of, tasks_of_failed
from connect_runtime.herder.earlier_attempts import (
    NOTED_S,
    ended_attempts,
    kind_of,
    may_write,
    wait_for_slot,
)
from connect_runtime.herder.effects import (
    AskTasks,
    ConnectorStatusIs,
    Effect,
    Fail,
    FailInstance,
    Fence,
    ForgetFailure,
    ForgetInstance,
    Identify,
    Launch,
    PublishTasks,
    StartInstance,
    StopInstance,
    TaskStatusIs,
    Unassign,
    Wait,
)
from connect_runtime.herder.runs import ConnectorFailure, Instance, InstancePhase, RunPhase
from connect_runtime.herder.view import View, class_of
from connect_runtime.storage.snapshots import ConnectorState, State, Status, TaskId
from connect_specs.desired import TargetState


def decide(view: View, now: float, names: Collection[str] | None = None) -> tuple[Effect, ...]:
    """Returns the next effects; empty if nothing is to do or everything is in progress. `names`:
    of these connectors only, because nothing is to do for the others (`view.changed`)."""
    free: int | None = None
    effects: list[Effect] = []
    for name, ids in _by_connector(view, names).items():
        try:
            steps = list(_connector(view, name, ids, now))
        except Exception:  # bad records of one connector must not affect the others
            steps = [Fail(name, traceback.format_exc())]
        if any(isinstance(effect, Fail | Fence) for effect in steps) and _has_failed(view, name):
            # a retry has not succeeded yet
            steps = [step for step in steps if not isinstance(step, ConnectorStatusIs)]
        for effect in steps:
            if isinstance(effect, Launch):
                free = view.free if free is None else free
                if free <= 0:
                    effects.extend(wait_for_slot(view, effect, now))
                    continue
                free -= 1
            effects.append(effect)
    return tuple(effects)


def next_look(view: View, now: float) -> float:
    """Returns when to decide again if nothing changes, in seconds of the herder's clock. Nothing
    that was due by `now` needed an effect."""
    runs = (run.deadline for run in view.runs.values() if run.phase in _TIMED)
    instances = (
        at
        for instance in view.instances.values()
        for at in (instance.deadline, instance.slow_at, instance.reload_at, instance.ask_at)
    )
    failures = (failure.retry_at for failure in view.failures.values())
    notes = (at + NOTED_S for at in (*view.waits.values(), *_unknown_since(view)))
    return min((at for at in (*runs, *instances, *failures, *notes) if at > now), default=math.inf)


def _unknown_since(view: View) -> Iterator[float]:
    """Yields when this leader began not to know whether some attempts run."""
    yield view.led_at
    yield from (run.ended_at for run in view.runs.values() if not run.active)


_STILL_STARTING = (
    "The connector is still starting: its start, or its first answer with task configs, takes "
    "long. It is given up when the connector is changed or stopped, or if it takes much longer."
)
_TIMED = (RunPhase.STOPPING, RunPhase.KILLED, RunPhase.ENDED)


def _by_connector(view: View, names: Collection[str] | None) -> dict[str, list[TaskId]]:
    """Returns known connector names, of `names` if given, with their known tasks."""
    names_of_all = (
        *view.config.connectors,
        *view.instances,
        *view.status.connectors,
        *view.failures,
    )
    tasks: dict[str, dict[TaskId, None]] = {
        name: {} for name in names_of_all if names is None or name in names
    }
    assigned = (*view.assignments.tasks, *view.assignments.ending)
    for task in (*view.runs, *assigned, *view.status.tasks):
        if names is None or task.connector in names:
            tasks.setdefault(task.connector, {})[task] = None
    return {name: sorted(ids) for name, ids in tasks.items()}


def _connector(view: View, name: str, ids: Iterable[TaskId], now: float) -> Iterator[Effect]:
    state = view.config.connectors.get(name)
    failure = view.failure_of(name)
    lasting = failure is not None and now < failure.retry_at
    if failure is not None and lasting and failure.not_reported:
        return
    for task in ids:
        if task in view.status.outdated:
            yield TaskStatusIs(task, view.status.tasks.get(task), again=True)
    yield from (Unassign(task) for task in ended_attempts(view, state, ids))
    if failure is not None and lasting:
        yield from _failed(view, name, state, failure, ids, now)
        yield from _without_waits(view, name)
        return
    if name in view.failures:
        yield ForgetFailure(name)
    if state is None or state.target is TargetState.STOPPED:
        yield from _end_all(view, state, ids, now)
        yield from _end_instance(view, name, now)
        yield from _version(view, state)
        yield from _ended_status(view, name, state, ids)
        yield from _without_waits(view, name)
        return
    if view.slots is None:
        yield from _at_rest(view, state, ids)
        return
    yield from _version(view, state)
    if state.target is TargetState.RUNNING:
        yield from _instance(view, state, now)
    else:
        yield from _paused_instance(view, name, now)
    tasks = list(tasks_of(view, state, ids, now))
    # a connector that fails again did not recover in between
    if not any(isinstance(effect, Fail) for effect in tasks):
        yield from _live_status(view, state, now)
    yield from tasks


def _without_waits(view: View, name: str) -> Iterator[Effect]:
    if name in view.waits:
        yield Wait(name, over=True)


def _failed(
    view: View,
    name: str,
    state: ConnectorState | None,
    failure: ConnectorFailure,
    ids: Iterable[TaskId],
    now: float,
) -> Iterator[Effect]:
    """Lets running tasks of a failed connector continue unless they are to end; starts nothing."""
    if state is None or state.target is TargetState.STOPPED:
        yield from _end_all(view, state, ids, now)
        yield from _end_instance(view, name, now)
    else:
        yield from tasks_of_failed(view, state, ids, now)
    if state is not None:
        yield from _connector_status(view, name, State.FAILED, failure.trace)


def _at_rest(view: View, state: ConnectorState, ids: Iterable[TaskId]) -> Iterator[Effect]:
    """Withdraws an earlier runtime's claims: without a launcher nothing runs. A task that may still
    write reports its own end."""
    if not view.exactly_once and kind_of(view, state) is None and class_of(state) not in view.kinds:
        yield Identify(state.name, class_of(state))
    for task in ids:
        if task in view.assignments.tasks:
            yield Unassign(task)
        status = view.status.tasks.get(task)
        if status is not None and status.busy and may_write(view, state, task) is None:
            yield TaskStatusIs(task, Status(State.UNASSIGNED, view.worker_id, view.term))
    yield from _connector_status(view, state.name, State.UNASSIGNED)


def _version(view: View, state: ConnectorState | None) -> Iterator[Effect]:
    """Finds out the version of a connector that has no instance to tell it."""
    if state is None or state.target is TargetState.RUNNING or view.slots is None:
        return
    is_known = class_of(state) in view.versions or class_of(state) in view.kinds
    if not is_known and state.name not in view.instances:
        yield Identify(state.name, class_of(state))


# --- stopped and deleted connectors ---


def _end_all(
    view: View, state: ConnectorState | None, ids: Iterable[TaskId], now: float
) -> Iterator[Effect]:
    for task in ids:
        run = view.runs.get(task)
        if run is not None:
            if run.active or may_write(view, state, task) is None:
                yield from end(run, now)
        elif task in view.assignments.tasks:
            yield Unassign(task)


def _end_instance(view: View, name: str, now: float) -> Iterator[Effect]:
    instance = view.instances.get(name)
    if instance is None:
        return
    if instance.phase is not InstancePhase.STOPPING:
        yield StopInstance(name)
    elif now >= instance.deadline:
        yield ForgetInstance(name)


def _ended_status(
    view: View, name: str, state: ConnectorState | None, ids: Iterable[TaskId]
) -> Iterator[Effect]:
    """Removes statuses of ended tasks, and the connector's with the last of them. The status of a
    task that may still write stays: a successor of the same name needs it too."""
    running = False
    for task in ids:
        run, may_still_write = view.runs.get(task), may_write(view, state, task) is not None
        if run is not None:
            running = running or run.active or not may_still_write
        elif task in view.status.tasks and not may_still_write:
            yield TaskStatusIs(task, None)
    if name in view.instances:
        return
    if state is not None:
        yield from _connector_status(view, name, State.STOPPED)
    elif not running and name in view.status.connectors:
        yield ConnectorStatusIs(name, None)


# --- running and paused connectors ---


def _instance(view: View, state: ConnectorState, now: float) -> Iterator[Effect]:
    """Keeps an instance running with the newest config and unexpired values, and publishes its task
    configs."""
    instance = view.instances.get(state.name)
    if instance is None and state.null_keys:
        text = f"Non-string value found in original settings for key {state.null_keys[0]}: null"
        yield Fail(state.name, text)
    elif instance is None:
        yield StartInstance(state.name)
    elif instance.phase is InstancePhase.STOPPING:
        if now >= instance.deadline:
            yield ForgetInstance(state.name)
    elif instance.config != state.config or state.null_keys or now >= instance.reload_at:
        # also one that is still starting: its start may never return
        yield StopInstance(state.name)
    elif instance.phase is InstancePhase.STARTING:
        if now >= instance.deadline:
            yield FailInstance(state.name, "The connector did not start in time")
    elif instance.phase is InstancePhase.STARTED and now >= instance.ask_at:
        yield AskTasks(state.name)
    elif (
        instance.phase is InstancePhase.STARTED
        and (answer := instance.task_configs) is not None
        and _unpublished(view, state, instance, answer)
    ):
        # nothing applied: the connector was deleted and created again
        read_back = state.inconsistent or state.applied_config is not None
        if instance.published == state.generation and read_back:
            problem = "The task configs that the connector returned differ when they are read back"
            yield Fail(state.name, f"{problem} written")
        else:
            yield PublishTasks(state.name, answer)


def _paused_instance(view: View, name: str, now: float) -> Iterator[Effect]:
    """Stops the instance, which would go on to watch its source or sink. One that has failed stays
    so, as in Connect: a resume does not start it."""
    instance = view.instances.get(name)
    if instance is not None and instance.phase is not InstancePhase.FAILED:
        yield from _end_instance(view, name, now)


def _unpublished(
    view: View, state: ConnectorState, instance: Instance, answer: tuple[Mapping[str, str], ...]
) -> bool:
    return (
        state.inconsistent
        or view.published.get(state.name, instance.fingerprint) != instance.fingerprint
        or state.applied_config != state.config
        or state.task_count != len(answer)
        or state.task_configs != answer
    )


def _live_status(view: View, state: ConnectorState, now: float) -> Iterator[Effect]:
    instance = view.instances.get(state.name)
    if instance is not None and instance.phase is InstancePhase.FAILED:
        yield from _connector_status(view, state.name, State.FAILED, instance.trace)
    elif state.target is TargetState.PAUSED:
        yield from _connector_status(view, state.name, State.PAUSED)
    elif instance is not None and instance.phase is InstancePhase.STARTING:
        if now >= instance.slow_at:
            yield from _connector_status(view, state.name, State.UNASSIGNED, _STILL_STARTING)
    elif instance is not None and instance.phase is InstancePhase.STARTED:
        fencing = view.fencings.get(state.name)
        if fencing is None or fencing.done or not _has_failed(view, state.name):
            # it runs, as in Connect, and makes no tasks from its config: only the trace says so
            yield from _connector_status(view, state.name, State.RUNNING, instance.trace)


def _has_failed(view: View, name: str) -> bool:
    status = view.status.connectors.get(name)
    return status is not None and status.state is State.FAILED


# A failed connector may have no known version; an unassigned one runs nowhere.
_KNOWS_VERSION = (State.RUNNING, State.PAUSED, State.STOPPED)


def _connector_status(
    view: View, name: str, state: State, trace: str | None = None
) -> Iterator[Effect]:
    instance = view.instances.get(name)
    current = view.status.connectors.get(name)
    by = None if current is None else (current.worker_id, current.generation)
    version = instance.version if instance else None
    target = view.config.connectors.get(name)
    if version is None and target is not None and state in _KNOWS_VERSION:
        version = view.versions.get(class_of(target))
    if (
        current is None
        or current.state is not state
        or current.trace != trace
        or version not in (None, current.version)
        # another leader's, which may have come late
        or (by != (view.worker_id, view.term) and state is not State.UNASSIGNED)
    ):
        yield ConnectorStatusIs(name, Status(state, view.worker_id, view.term, trace, version))
