"""Restarts by ending what runs; the next decision starts it again (KIP-745)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connect_runtime.herder.effects import (
    ConnectorStatusIs,
    Effect,
    ForgetFailure,
    ForgetRun,
    StopInstance,
    StopRun,
    TaskStatusIs,
    Unassign,
)
from connect_runtime.herder.runs import InstancePhase, RunPhase
from connect_runtime.herder.succession import may_write
from connect_runtime.herder.view import View
from connect_runtime.storage.snapshots import State, Status, TaskId


def restart_effects(
    view: View, name: str, *, include_tasks: bool = False, only_failed: bool = False
) -> Sequence[Effect]:
    """Restarts the connector's instance and, if requested, its tasks, or only the failed ones."""
    effects: list[Effect] = []
    status = view.status.connectors.get(name)
    instance = view.instances.get(name)
    failed = status is not None and status.state is State.FAILED
    live = instance is not None and instance.phase is not InstancePhase.STOPPING
    if name in view.failures:
        effects.append(ForgetFailure(name))
    if live and (failed or not only_failed):
        effects.append(StopInstance(name))
        if status is not None:
            effects.append(ConnectorStatusIs(name, replace(status, state=State.RESTARTING)))
    if include_tasks:
        known = {*view.status.tasks, *view.assignments.tasks, *view.assignments.ending}
        for task in sorted(each for each in known if each.connector == name):
            said = view.status.tasks.get(task)
            if not only_failed:
                effects.extend(task_restart_effects(view, task))
            elif said is not None and said.state is State.FAILED:
                effects.extend(task_restart_effects(view, task, confirmed_gone=False))
    return effects


def task_restart_effects(
    view: View, task: TaskId, *, confirmed_gone: bool = True
) -> Sequence[Effect]:
    """Restarts one task: a running attempt ends first; an ended one is forgotten.

    `confirmed_gone`: the user named the task or connector, and so confirms that an attempt that
    nobody could fence is gone; a restart of all failed ones confirms nothing.
    """
    run = view.runs.get(task)
    status = view.status.tasks.get(task)
    effects: list[Effect] = []
    if task.connector in view.failures:
        effects.append(ForgetFailure(task.connector))
    if run is not None and run.phase is RunPhase.LAUNCHED:
        effects.append(StopRun(task))
    elif run is not None and run.phase is RunPhase.ENDED:
        effects.append(ForgetRun(task))
    state = view.config.connectors.get(task.connector)
    late = None if state is None or (run and run.active) else may_write(view, state, task)
    if late is not None and not confirmed_gone:
        return ()
    if late is not None:
        gone = Status(State.UNASSIGNED, view.worker_id, view.term, attempt=late)
        effects += [Unassign(task), TaskStatusIs(task, gone)]
    elif run is not None and run.phase in _RESTARTED and status is not None:
        effects.append(TaskStatusIs(task, replace(status, state=State.RESTARTING)))
    return effects


_RESTARTED = (RunPhase.LAUNCHED, RunPhase.ENDED)
