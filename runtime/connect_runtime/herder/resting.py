"""Says what is known of tasks that this leader does not run: why not, or that they may run. Pure.

A task that has ended, or was never launched, is UNASSIGNED with the reason. One that an earlier
leader's attempt may still run keeps its state, and its trace says since when nobody confirms it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from connect_runtime.herder.effects import Effect, Launch, TaskStatusIs, Unassign
from connect_runtime.herder.view import View
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_specs.states import TargetState

# Most waits are over before this, and then leave no record
NOTED_S: Final = 10.0
_NOT_CONFIRMED: Final = "Not confirmed since "
_NUMBER: Final = re.compile(r"\d+")


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
    why = view.obstacle or "Spark is not running yet."
    if view.slots:
        paused = "" if view.paused_release else ", also while it is paused"
        how = "stop or pause" if view.paused_release else "stop"
        why = (
            f"The task waits for a slot: all {view.slots} are taken. Each task takes one{paused}. "
            "Give the runtime more (`connect up --slots`; on a Spark cluster, more cores), or "
            f"{how} connectors."
        )
    yield from _unassigned(view, task, why)


def rest(view: View, task: TaskId, why: str, now: float) -> Iterator[Effect]:
    """Yields the status of a task without an attempt that runs and that nobody could fence."""
    if not_confirmed(view, task):
        yield from _earlier_leaders(view, task, now)
        return
    said = view.status.tasks.get(task)
    if said is not None and said.state is State.FAILED:
        return
    told_to_end = task not in view.runs and said is not None and said.busy
    if told_to_end and not _is_dead(view, task) and now < view.led_at + NOTED_S:
        return  # it reports its end by itself, unless it is gone
    yield from _unassigned(view, task, why)


def unproven(view: View, task: TaskId, now: float) -> Iterator[Effect]:
    """Yields the status of a task that an attempt may still run and that nobody can fence."""
    run = view.runs.get(task)
    why = (
        "the attempt may still write, and has not reported its end. The trace of the connector "
        "says what to do"
    )
    yield from _noted(view, task, view.led_at if run is None else run.ended_at, why, now)


def not_confirmed(view: View, task: TaskId) -> bool:
    """Whether an earlier leader launched the task, and nothing says that it has ended. It was not
    told to end."""
    said = view.status.tasks.get(task)
    waits = task not in view.runs and task in view.assignments.tasks
    return waits and said is not None and said.busy and not _is_dead(view, task)


def utc(view: View, at: float) -> str:
    """Returns a time of the herder's clock as people write it."""
    return f"{datetime.fromtimestamp(view.led_time + at - view.led_at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _earlier_leaders(view: View, task: TaskId, now: float) -> Iterator[Effect]:
    why = (
        "an earlier leader launched the attempt, which may still run and deliver. The task is "
        "launched again once there is a slot; `problem` of GET /runtime says what is missing"
    )
    yield from _noted(view, task, view.led_at, why, now)


def _noted(view: View, task: TaskId, since: float, why: str, now: float) -> Iterator[Effect]:
    said = view.status.tasks.get(task)
    if said is None or not said.busy or now < since + NOTED_S:
        return
    if said.trace is None or not said.trace.startswith(_NOT_CONFIRMED):
        trace = f"{_NOT_CONFIRMED}{utc(view, since)}: {why}."
        yield TaskStatusIs(task, replace(said, trace=trace), again=True)


def _unassigned(view: View, task: TaskId, why: str) -> Iterator[Effect]:
    said = view.status.tasks.get(task)
    if said is None or said.state is not State.UNASSIGNED or not _same_but_numbers(said.trace, why):
        # what has reported its end stays named: nothing else may prove it
        over = said is not None and (not said.busy or _is_dead(view, task))
        ended = said.attempt if said is not None and over else None
        status = Status(State.UNASSIGNED, view.worker_id, view.term, why, attempt=ended)
        yield TaskStatusIs(task, status)


def _is_dead(view: View, task: TaskId) -> bool:
    """Whether the newest attempt that is known of is known to be dead."""
    said, assigned = view.status.tasks.get(task), view.assignments.tasks.get(task)
    attempts = (said.attempt if said else None, assigned.attempt if assigned else None)
    newest = max((each for each in attempts if each is not None), default=None)
    return newest is not None and view.dead.get(task, -1) >= newest


def _same_but_numbers(trace: str | None, why: str) -> bool:
    """Whether the texts differ in numbers only, such as durations; then neither is rewritten."""
    return trace is not None and _NUMBER.sub("", trace) == _NUMBER.sub("", why)
