"""Answers Connect's read verbs from a view of the topics. Pure.

Any runtime can answer them. Texts are Connect's (connect-facts 4.3 to 4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.requests import known
from connect_runtime.herder.resting import NOTED_S, not_confirmed
from connect_runtime.herder.values import (
    ConnectorInfo,
    ConnectorStatus,
    InstanceStatus,
    TaskInfo,
)
from connect_runtime.herder.view import View
from connect_runtime.storage.snapshots import State, Status, StatusSnapshot, TaskId

NOT_FOUND = "Connector {} not found"


def info(view: View, name: str, kind: Callable[[str], str]) -> ConnectorInfo:
    """Returns the connector with its raw config. `kind` tells source from sink by connector
    class."""
    state = known(view.config, name, NOT_FOUND)
    count = 0 if state.inconsistent else len(state.task_configs)
    ids = tuple(TaskId(name, number) for number in range(count))
    found = kind(state.config.get("connector.class", ""))
    return ConnectorInfo(name, state.config, ids, found, state.null_keys)


def tasks(view: View, name: str) -> Sequence[TaskInfo]:
    """Returns the tasks with their raw configs; none while inconsistent."""
    state = known(view.config, name, NOT_FOUND)
    if state.inconsistent:
        return ()
    return tuple(
        TaskInfo(TaskId(name, number), config) for number, config in enumerate(state.task_configs)
    )


def status(view: View, name: str, kind: Callable[[str], str]) -> ConnectorStatus:
    """Returns the newest statuses of the connector and all its tasks, by number."""
    found = view.status.connectors.get(name)
    if found is None:
        raise RequestError(404, f"No status found for connector {name}")
    state = view.config.connectors.get(name)
    class_name = state.config.get("connector.class", "") if state else ""
    return ConnectorStatus(
        name=name,
        connector=_instance(found),
        tasks={
            task.task: _instance(view.status.tasks[task])
            for task in _tasks_by_connector(view.status).get(name, ())
        },
        type=kind(class_name) if state else "unknown",
    )


def waiting(view: View, now: float) -> tuple[TaskId, ...]:
    """Returns the tasks that could run now if they had a slot: not those of failed connectors, nor
    those that pause between two attempts or wait for something else."""
    return tuple(
        task
        for task, status in sorted(view.status.tasks.items())
        if status.state is State.UNASSIGNED
        and view.failure_of(task.connector) is None
        and task.connector not in view.waits
        and (task not in view.runs or view.runs[task].may_be_followed(now))
    )


def unconfirmed(view: View, now: float) -> tuple[TaskId, ...]:
    """Returns the tasks of which the leader does not know whether they run, a while after it began
    to lead."""
    if now < view.led_at + NOTED_S:
        return ()
    return tuple(task for task in sorted(view.status.tasks) if not_confirmed(view, task))


def restarting(
    found: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Returns the status with RESTARTING on each part that the restart affects (KIP-745)."""

    def touched(part: InstanceStatus) -> InstanceStatus:
        if only_failed and part.state is not State.FAILED:
            return part
        return replace(part, state=State.RESTARTING)

    parts = found.tasks.items()
    return replace(
        found,
        connector=touched(found.connector),
        tasks={number: touched(part) if include_tasks else part for number, part in parts},
    )


# The last indexed snapshot with its tasks: listing all connectors needs one snapshot many times.
# Any thread may replace it with an equally valid one.
_indexed: tuple[StatusSnapshot, Mapping[str, Sequence[TaskId]]] | None = None


def _tasks_by_connector(status: StatusSnapshot) -> Mapping[str, Sequence[TaskId]]:
    """Returns each connector's tasks, in order."""
    global _indexed
    newest = _indexed
    if newest is not None and newest[0] is status:
        return newest[1]
    found: dict[str, list[TaskId]] = {}
    for task in sorted(status.tasks):
        found.setdefault(task.connector, []).append(task)
    _indexed = (status, found)
    return found


def _instance(status: Status) -> InstanceStatus:
    return InstanceStatus(status.state, status.worker_id, status.trace, status.version)
