"""Tasks that this leader does not run: attempts that may still write, and statuses.

With `exactly.once.source.support=disabled` a task has no transactional id: a late attempt would
write beside its successor, or after its offsets were altered. So neither a launch nor an offset
change starts until the earlier attempt has ended: it said so in the status topic, or its process is
dead.

A task that has ended, or was never launched, is UNASSIGNED with the reason. One that an earlier
leader's attempt may still run keeps its state, and its trace holds the time since when nothing has
confirmed it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from connect_runtime.herder.effects import Effect, Launch, TaskStatusIs, Unassign
from connect_runtime.herder.runs import Kind, RunPhase
from connect_runtime.herder.view import View, class_of
from connect_runtime.storage.snapshots import ConnectorState, State, Status, TaskId
from connect_specs.desired import TargetState
from connect_specs.plain_text import time_text

# The last states that a task reports, or that are written once its process is dead
_OVER = (State.UNASSIGNED, State.FAILED)
# Most waits are over before this, and then leave no record
NOTED_S: Final = 10.0
_NOT_CONFIRMED: Final = "Not confirmed since "
_NUMBER: Final = re.compile(r"\d+")


def kind_of(view: View, state: ConnectorState) -> Kind | None:
    """Returns the plugin's kind; None while it is unknown."""
    instance = view.instances.get(state.name)
    if instance is not None and instance.kind != "unknown":
        return instance.kind
    return view.kinds.get(class_of(state))


def may_write(view: View, state: ConnectorState | None, task: TaskId) -> int | None:
    """Returns the attempt that may still write; None if all have ended or would be fenced. `state`
    None: the connector was deleted, which ends no attempt."""
    if view.exactly_once or (state is not None and kind_of(view, state) == "sink"):
        return None
    run = view.runs.get(task)
    if run is not None:
        over = run.phase is RunPhase.ENDED and run.outcome is not None and run.outcome.dead
        return None if over else run.attempt
    assigned = view.assignments.tasks.get(task)
    status = view.status.tasks.get(task)
    attempt = status.attempt if status is not None else None
    if assigned is not None:
        attempt = assigned.attempt
    elif task in view.assignments.ending:
        attempt = view.assignments.ending[task]
    if attempt is None or view.dead.get(task, -1) >= attempt:
        return None
    if status is None:
        return attempt
    return None if status.attempt == attempt and status.state in _OVER else attempt


def ended_attempts(
    view: View, state: ConnectorState | None, tasks: Iterable[TaskId]
) -> list[TaskId]:
    """Returns those that were told to stop and are now known to have ended."""
    return [
        task
        for task in tasks
        if task in view.assignments.ending
        and task not in view.runs
        and may_write(view, state, task) is None
    ]


def still_writing(view: View, state: ConnectorState, tasks: Iterable[TaskId]) -> str | None:
    """Returns why these tasks cannot have successors yet; None if they can."""
    for task in tasks:
        attempt = may_write(view, state, task)
        if attempt is not None:
            return (
                f"Attempt {attempt} of task {task} may still write: it has not reported its end,"
                " and without exactly-once support nothing can fence it. The task starts once the"
                " attempt is known to have ended. If you know that its process is gone, restart the"
                f" connector with its tasks: POST /connectors/{state.name}/restart"
                "?includeTasks=true"
            )
    return None


def wait_for_slot(view: View, launch: Launch, now: float) -> Iterator[Effect]:
    """Yields a status that says why the task waits, instead of its launch. An earlier leader's
    attempt ends, unless slots will be available soon.
    """
    task = launch.task
    taken = task not in view.runs and task in view.assignments.tasks
    if taken and (view.slots or launch.state is TargetState.PAUSED):
        yield Unassign(task)
    elif not_confirmed(view, task):
        yield from _earlier_leaders(view, task, now)
        return
    reason = view.obstacle or "Spark is not running yet."
    if view.slots:
        paused = "" if view.paused_release else ", also while it is paused"
        how = "stop or pause" if view.paused_release else "stop"
        reason = (
            f"The task waits for a slot: all {view.slots} are taken. Each task takes one{paused}. "
            "Give the runtime more (`connect up --slots`; on a Spark cluster, more cores), or "
            f"{how} connectors."
        )
    yield from _unassigned(view, task, reason)


def status_at_rest(view: View, task: TaskId, reason: str, now: float) -> Iterator[Effect]:
    """Yields the status of a task without an attempt that runs and cannot be fenced."""
    if not_confirmed(view, task):
        yield from _earlier_leaders(view, task, now)
        return
    status = view.status.tasks.get(task)
    if status is not None and status.state is State.FAILED:
        return
    told_to_end = task not in view.runs and status is not None and status.busy
    if told_to_end and not _is_dead(view, task) and now < view.led_at + NOTED_S:
        return  # it reports its end by itself, unless it is gone
    yield from _unassigned(view, task, reason)


def unproven_status(view: View, task: TaskId, now: float) -> Iterator[Effect]:
    """Yields the status of a task that an attempt may still run which cannot be fenced."""
    run = view.runs.get(task)
    reason = (
        "the attempt may still write, and has not reported its end. The trace of the connector "
        "says what to do"
    )
    yield from _noted(view, task, view.led_at if run is None else run.ended_at, reason, now)


def not_confirmed(view: View, task: TaskId) -> bool:
    """Returns whether an earlier leader launched the task, and nothing says that it has ended. It
    was not told to end."""
    status = view.status.tasks.get(task)
    waits = task not in view.runs and task in view.assignments.tasks
    return waits and status is not None and status.busy and not _is_dead(view, task)


def utc_text(view: View, at: float) -> str:
    """Returns a time of the herder's clock as people write it."""
    return time_text((view.led_time + at - view.led_at) * 1000)


def _earlier_leaders(view: View, task: TaskId, now: float) -> Iterator[Effect]:
    reason = (
        "an earlier leader launched the attempt, which may still run and deliver. The task is "
        "launched again once there is a slot; `problem` of GET /runtime says what is missing"
    )
    yield from _noted(view, task, view.led_at, reason, now)


def _noted(view: View, task: TaskId, since: float, reason: str, now: float) -> Iterator[Effect]:
    status = view.status.tasks.get(task)
    if status is None or not status.busy or now < since + NOTED_S:
        return
    if status.trace is None or not status.trace.startswith(_NOT_CONFIRMED):
        trace = f"{_NOT_CONFIRMED}{utc_text(view, since)}: {reason}."
        yield TaskStatusIs(task, replace(status, trace=trace), again=True)


def _unassigned(view: View, task: TaskId, reason: str) -> Iterator[Effect]:
    current = view.status.tasks.get(task)
    if (
        current is None
        or current.state is not State.UNASSIGNED
        or not _same_but_numbers(current.trace, reason)
    ):
        # what has reported its end stays named: nothing else may prove it
        over = current is not None and (not current.busy or _is_dead(view, task))
        ended_attempt = current.attempt if current is not None and over else None
        status = Status(State.UNASSIGNED, view.worker_id, view.term, reason, attempt=ended_attempt)
        yield TaskStatusIs(task, status)


def _is_dead(view: View, task: TaskId) -> bool:
    """Returns whether the newest known attempt is known to be dead."""
    status, assigned = view.status.tasks.get(task), view.assignments.tasks.get(task)
    attempts = (status.attempt if status else None, assigned.attempt if assigned else None)
    newest = max((attempt for attempt in attempts if attempt is not None), default=None)
    return newest is not None and view.dead.get(task, -1) >= newest


def _same_but_numbers(trace: str | None, reason: str) -> bool:
    """Returns whether the texts differ in numbers only, such as durations; then neither is
    rewritten."""
    return trace is not None and _NUMBER.sub("", trace) == _NUMBER.sub("", reason)
