"""Finds earlier attempts at source tasks that may still write because nothing fences them.

With `exactly.once.source.support=disabled` a task has no transactional id: a late attempt would
write beside its successor, or after its offsets were altered. So neither a launch nor an offset
change starts until the earlier attempt has ended: it said so in the status topic, or its process is
dead. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from connect_runtime.herder.runs import Kind, RunPhase
from connect_runtime.herder.view import View, class_of
from connect_runtime.storage.snapshots import ConnectorState, State, TaskId

# The last states that a task reports, or that are written once its process is dead
_OVER = (State.UNASSIGNED, State.FAILED)


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


def ended(view: View, state: ConnectorState | None, tasks: Iterable[TaskId]) -> list[TaskId]:
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
