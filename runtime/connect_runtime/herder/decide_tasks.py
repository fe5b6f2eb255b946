"""Decides the next effects for the tasks of a running or paused connector. Pure.

Attempts of an older generation end first. Then, for a source, producers that might still write are
fenced (KIP-618). Then the newest generation is launched, as far as slots allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from connect_runtime.herder.earlier_attempts import (
    NOTED_S,
    kind_of,
    may_write,
    status_at_rest,
    still_writing,
    unproven_status,
)
from connect_runtime.herder.effects import (
    Effect,
    Fail,
    Fence,
    ForgetRun,
    Identify,
    KillRun,
    Launch,
    Reassign,
    RecordFencing,
    StopRun,
    TaskStatusIs,
    Unassign,
    Wait,
)
from connect_runtime.herder.runs import InstancePhase, Run, RunPhase
from connect_runtime.herder.view import View, class_of
from connect_runtime.storage.snapshots import ConnectorState, State, Status, TaskId
from connect_runtime.tasks.launch import AttemptEnd
from connect_specs.desired import TargetState

# The pause before another look at an earlier attempt
_RECHECK_S: Final = 5.0
_CONNECTOR_FAILED: Final = (
    "The task is not launched, because the connector has failed. The connector's trace says why."
)


def tasks_of(
    view: View, state: ConnectorState, ids: Iterable[TaskId], now: float
) -> Iterator[Effect]:
    """Ends superfluous and outdated attempts and launches missing ones. `ids`: all known tasks."""
    count = 0 if state.inconsistent else len(state.task_configs)
    for task in ids:
        if task.task >= count:
            yield from _superfluous(view, state, task, now)
    if state.target is TargetState.PAUSED and view.paused_release:
        yield from _released(view, state, count, now)
        return
    blocked = False
    launches: list[Launch] = []
    for number in range(count):
        task = TaskId(state.name, number)
        run = view.runs.get(task)
        if run is not None and run.active and run.generation != state.generation:
            blocked = True
            yield from end(run, now)
        elif run is None:
            launches.append(Launch(task, state.generation, state.target))
        else:
            yield from _run(view, run, state, now, launches)
    steps = [] if blocked or not launches else list(_starting(view, state, ids, launches))
    yield from steps
    # what has failed says so in another way
    over = not launches or any(isinstance(step, Launch | Fail) for step in steps)
    yield from _waiting(view, state, () if over else launches, blocked, now)


def _starting(
    view: View, state: ConnectorState, ids: Iterable[TaskId], launches: Iterable[Effect]
) -> Iterator[Effect]:
    """Takes the next step towards the launches, which come last."""
    if not _startable(view, state):
        return
    if state.pending_fencing or not view.exactly_once:
        kind = kind_of(view, state)
        if kind is None:
            if class_of(state) not in view.kinds:
                yield Identify(state.name, class_of(state))
            return
        # A class that cannot be loaded counts as a source: fencing a sink does no harm.
        if kind != "sink" and not view.exactly_once:
            yield from _after_the_last(view, state, ids, launches)
            return
        if kind != "sink":
            if not any(view.runs[task].active for task in ids if task in view.runs):
                yield from _fencing(view, state, ids, launches)
            return
    yield from launches


def _waiting(
    view: View, state: ConnectorState, launches: Iterable[Launch], blocked: bool, now: float
) -> Iterator[Effect]:
    """Says why launches wait, once they have for some seconds: mostly they do not wait that
    long."""
    since, status = view.waits.get(state.name), view.status.connectors.get(state.name)
    if status is not None and status.state is State.FAILED:
        return  # a retry has not succeeded yet, and the tasks' statuses say that
    if not launches:
        if since is not None:
            yield Wait(state.name, over=True)
    elif since is None:
        yield Wait(state.name)
    elif now >= since + NOTED_S:
        reason = _why_launches_wait(view, state, blocked)
        for launch in launches:
            yield from status_at_rest(view, launch.task, reason, now)


def _why_launches_wait(view: View, state: ConnectorState, blocked: bool) -> str:
    if blocked:
        return "The task waits until earlier attempts at tasks of its connector have ended."
    if not _startable(view, state):
        return "The task waits for its connector, which has not started with its newest config yet."
    if kind_of(view, state) is None:
        return "The task waits until the class of its connector has been loaded."
    return "The task waits until earlier producers of its connector's tasks are fenced."


def _after_the_last(
    view: View, state: ConnectorState, ids: Iterable[TaskId], launches: Iterable[Effect]
) -> Iterator[Effect]:
    """Starts the connector's tasks, without fencing, only when all earlier attempts have ended."""
    live = [task for task in ids if not _runs(view, state, task)]
    reason = still_writing(view, state, live)
    if reason is None:
        yield from launches
        return
    for task in live:
        # an earlier leader's attempt is told to end, and reports when it has
        if task in view.assignments.tasks and task not in view.runs:
            yield Unassign(task)
    yield Fail(state.name, reason, _RECHECK_S)


def _runs(view: View, state: ConnectorState, task: TaskId) -> bool:
    """Returns whether the task runs as wanted."""
    run = view.runs.get(task)
    return run is not None and run.active and run.generation == state.generation


def tasks_of_failed(
    view: View, state: ConnectorState, ids: Iterable[TaskId], now: float
) -> Iterator[Effect]:
    """Ends STOPPING attempts of a connector that can start nothing now, and writes the statuses
    of tasks that do not run."""
    count = 0 if state.inconsistent else len(state.task_configs)
    for task in sorted({*ids, *(TaskId(state.name, number) for number in range(count))}):
        run, status = view.runs.get(task), view.status.tasks.get(task)
        if run is not None and run.phase in (RunPhase.STOPPING, RunPhase.KILLED):
            yield from end(run, now)
        elif run is not None and run.active:
            continue
        elif may_write(view, state, task) is not None:
            yield from unproven_status(view, task, now)
        elif run is not None:
            failed = run.outcome is not None and run.outcome.ended is AttemptEnd.FAILED
            yield from _task_status(view, run, State.FAILED if failed else State.UNASSIGNED)
        elif task.task < count and not (state.target is TargetState.PAUSED and view.paused_release):
            yield from status_at_rest(view, task, _CONNECTOR_FAILED, now)
        elif status is not None and status.state is State.RESTARTING:
            yield TaskStatusIs(task, Status(State.UNASSIGNED, view.worker_id, view.term))


def end(run: Run, now: float) -> Iterator[Effect]:
    """Returns the next step to end an attempt: ask, kill, forget. A kill is repeated until its end
    is reported: Spark may have missed it."""
    match run.phase:
        case RunPhase.LAUNCHED:
            yield StopRun(run.id)
        case RunPhase.STOPPING | RunPhase.KILLED if now >= run.deadline:
            yield KillRun(run.id)
        case RunPhase.ENDED:
            yield ForgetRun(run.id)
        case _:
            pass


def _superfluous(view: View, state: ConnectorState, task: TaskId, now: float) -> Iterator[Effect]:
    run = view.runs.get(task)
    if run is not None:
        if run.phase is not RunPhase.ENDED or may_write(view, state, task) is None:
            yield from end(run, now)
        return
    if task in view.assignments.tasks:
        yield Unassign(task)
    # keep the status of a task that may still write: nothing else is known of it
    if task in view.status.tasks and may_write(view, state, task) is None:
        yield TaskStatusIs(task, None)


def _released(view: View, state: ConnectorState, count: int, now: float) -> Iterator[Effect]:
    """Ends what runs of a paused connector; its tasks then are PAUSED, or stay FAILED, without
    slots."""
    tasks = [TaskId(state.name, number) for number in range(count)]
    for task in tasks:
        yield from _released_task(view, state, task, now)
    inactive = [task for task in tasks if task not in view.runs or not view.runs[task].active]
    reason = still_writing(view, state, inactive)
    if reason is not None:
        yield Fail(state.name, reason, _RECHECK_S)


def _released_task(view: View, state: ConnectorState, task: TaskId, now: float) -> Iterator[Effect]:
    run = view.runs.get(task)
    if run is not None and run.active:
        yield from end(run, now)
        return
    if run is None and task in view.assignments.tasks:
        yield Unassign(task)
    # a task that may still write reports its own end
    if may_write(view, state, task) is not None:
        return
    if run is not None and run.outcome is not None and run.outcome.ended is AttemptEnd.FAILED:
        yield from _task_status(view, run, State.FAILED)
    elif run is not None:
        yield ForgetRun(task)
    else:
        status = view.status.tasks.get(task)
        if status is None or (status.state, status.worker_id) != (State.PAUSED, view.worker_id):
            # what waited, or was shut down, has none in its status
            version = (status and status.version) or view.versions.get(class_of(state))
            paused = Status(State.PAUSED, view.worker_id, view.term, version=version)
            yield TaskStatusIs(task, paused)


def _run(
    view: View, run: Run, state: ConnectorState, now: float, launches: list[Launch]
) -> Iterator[Effect]:
    """Handles an attempt that is of the newest generation or has ended."""
    match run.phase:
        case RunPhase.LAUNCHED if run.state is not state.target:
            yield Reassign(run.id, state.target)
        case RunPhase.STOPPING | RunPhase.KILLED:
            yield from end(run, now)
        case RunPhase.ENDED if may_write(view, state, run.id) is not None:
            launches.append(Launch(run.id, state.generation, state.target, run.failures))
        case RunPhase.ENDED if run.generation != state.generation:
            yield ForgetRun(run.id)
        case RunPhase.ENDED if run.outcome is not None and run.outcome.ended is AttemptEnd.FAILED:
            yield from _task_status(view, run, State.FAILED)
        case RunPhase.ENDED if now >= run.deadline:
            launches.append(Launch(run.id, state.generation, state.target, run.failures))
        case RunPhase.ENDED:
            yield from _task_status(view, run, State.UNASSIGNED)
        case _:
            pass


def _task_status(view: View, run: Run, state: State) -> Iterator[Effect]:
    """Writes a task's status on its behalf: an attempt that is gone may have failed to write it."""
    current = view.status.tasks.get(run.id)
    if current is None or current.state is not state:
        trace = run.outcome.trace if run.outcome else None
        attempt = run.attempt if run.outcome and run.outcome.dead else None
        status = Status(state, view.worker_id, view.term, trace, attempt=attempt)
        yield TaskStatusIs(run.id, status)


def _startable(view: View, state: ConnectorState) -> bool:
    """Returns whether tasks of an older config may start: not if the instance of a running
    connector is about to replace them."""
    if state.target is TargetState.PAUSED or state.applied_config == state.config:
        return True
    instance = view.instances.get(state.name)
    return instance is not None and instance.phase is InstancePhase.FAILED


def _fencing(
    view: View, state: ConnectorState, ids: Iterable[TaskId], launches: Iterable[Effect]
) -> Iterator[Effect]:
    """Applies KIP-618's rule: a single task fences its single predecessor by itself. The record and
    the assignments that follow it share a transaction.

    Assignments of earlier leaders' attempts are withdrawn before: one that is about to make its
    producer, which the fencing may miss, looks at its assignment after that."""
    count = len(state.task_configs)
    fenced = state.task_count_record
    fencing = view.fencings.get(state.name)
    if fenced is None or fenced == 0 or (fenced == 1 and count == 1):
        yield from (RecordFencing(state.name, count), *launches)
    elif fencing is None or fencing.generation != state.generation:
        yield from (Unassign(task) for task in ids if task in view.assignments.tasks)
        yield Fence(state.name, fenced, state.generation)
    elif fencing.done:
        yield from (RecordFencing(state.name, count), *launches)
