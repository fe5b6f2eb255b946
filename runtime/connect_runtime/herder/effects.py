"""Defines the herder's effects: a closed set of small values, carried out in order.

Each effect belongs to one connector. Records of one round share a transaction; all other work
follows its commit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.snapshots import Status, TaskId
from connect_specs.desired import TargetState


@dataclass(frozen=True, slots=True)
class StartInstance:
    """Starts the connector's plugin object and asks it for task configs."""

    name: str


@dataclass(frozen=True, slots=True)
class StopInstance:
    """Stops the connector's plugin object."""

    name: str


@dataclass(frozen=True, slots=True)
class PublishTasks:
    """Writes a new generation: all task configs, then the commit record."""

    name: str
    task_configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class ForgetInstance:
    """Abandons a plugin object that did not stop in time."""

    name: str


@dataclass(frozen=True, slots=True)
class FailInstance:
    """Fails a plugin object that did not start in time."""

    name: str
    trace: str


@dataclass(frozen=True, slots=True)
class AskTasks:
    """Asks an instance for task configs again."""

    name: str


@dataclass(frozen=True, slots=True)
class Identify:
    """Finds out whether the connector's class is a source or a sink, and its version."""

    name: str
    class_name: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Starts fencing the producers of tasks 0..`count`-1, for the task configs of `generation`."""

    name: str
    count: int
    generation: int


@dataclass(frozen=True, slots=True)
class RecordFencing:
    """Records that `tasks` tasks may run: earlier attempts are fenced (KIP-618)."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Marks the connector as failed: its config cannot be put into effect. `again_s`: retry after
    so many seconds, instead of only after a restart."""

    name: str
    trace: str
    again_s: float = math.inf


@dataclass(frozen=True, slots=True)
class ForgetFailure:
    """Clears the connector's failure, so that it is tried again."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Remembers since when tasks of the connector have had to wait to be launched; `over`: forgets
    it."""

    name: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Assigns the next attempt of a task and starts it."""

    task: TaskId
    generation: int
    state: TargetState
    failures: float = 0.0


@dataclass(frozen=True, slots=True)
class Reassign:
    """Tells a running attempt to pause or to resume."""

    task: TaskId
    state: TargetState


@dataclass(frozen=True, slots=True)
class StopRun:
    """Asks an attempt to drain, commit and end."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class KillRun:
    """Kills an attempt that did not end in time."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ForgetRun:
    """Forgets an ended attempt."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class Unassign:
    """Withdraws an assignment that no attempt of this runtime holds."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ConnectorStatusIs:
    """Writes the connector's status; None removes it."""

    name: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusIs:
    """Writes a task's status on its behalf; None removes it. `again`: rewrites the status that was
    read."""

    task: TaskId
    status: Status | None
    again: bool = False


Effect: TypeAlias = (
    StartInstance
    | StopInstance
    | ForgetInstance
    | FailInstance
    | AskTasks
    | Identify
    | PublishTasks
    | Fence
    | RecordFencing
    | Fail
    | ForgetFailure
    | Wait
    | Launch
    | Reassign
    | StopRun
    | KillRun
    | ForgetRun
    | Unassign
    | ConnectorStatusIs
    | TaskStatusIs
)


def connector_of(effect: Effect) -> str:
    """Returns the connector that the effect belongs to."""
    match effect:
        case Launch(task=task) | Reassign(task=task) | StopRun(task=task) | KillRun(task=task):
            return task.connector
        case ForgetRun(task=task) | Unassign(task=task) | TaskStatusIs(task=task):
            return task.connector
        case _:
            return effect.name
