"""What a restart does to what runs: end it, and let the next decision start it again (KIP-745)."""

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
)
from connect_runtime.herder.runs import InstancePhase, RunPhase
from connect_runtime.herder.view import View
from connect_runtime.storage.snapshots import State, TaskId


def restart_effects(
    view: View, name: str, *, include_tasks: bool = False, only_failed: bool = False
) -> Sequence[Effect]:
    """The connector's instance and, where asked, its tasks; the failed ones only where asked."""
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
        for task in sorted(view.status.tasks):
            if task.connector != name:
                continue
            if not only_failed or view.status.tasks[task].state is State.FAILED:
                effects.extend(task_restart_effects(view, task))
    return effects


def task_restart_effects(view: View, task: TaskId) -> Sequence[Effect]:
    """One task: a running attempt ends first; one that ended is forgotten."""
    run = view.runs.get(task)
    effects: list[Effect] = []
    if task.connector in view.failures:
        effects.append(ForgetFailure(task.connector))
    if run is None:
        return effects
    if run.phase is RunPhase.LAUNCHED:
        effects.append(StopRun(task))
    elif run.phase is RunPhase.ENDED:
        effects.append(ForgetRun(task))
    status = view.status.tasks.get(task)
    if effects and status is not None:
        effects.append(TaskStatusIs(task, replace(status, state=State.RESTARTING)))
    return effects
