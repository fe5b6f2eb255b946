"""What the herder decides to do: a closed set of small values, carried out in order.

Each belongs to one connector. Records of one round share a transaction; everything else follows its
commit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.snapshots import Status, TaskId
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class StartInstance:
    """Start the connector's plugin object and ask it for task configs."""

    name: str


@dataclass(frozen=True, slots=True)
class StopInstance:
    """Stop the connector's plugin object."""

    name: str


@dataclass(frozen=True, slots=True)
class PublishTasks:
    """A new generation: all task configs, then the commit record."""

    name: str
    task_configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class ForgetInstance:
    """The plugin object did not stop in time: go on without it."""

    name: str


@dataclass(frozen=True, slots=True)
class FailInstance:
    """The plugin object did not start in time."""

    name: str
    trace: str


@dataclass(frozen=True, slots=True)
class Identify:
    """Find out whether the connector's class is a source or a sink."""

    name: str
    class_name: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Begin to fence the producers of tasks 0..`count`-1, for the task configs of `generation`."""

    name: str
    count: int
    generation: int


@dataclass(frozen=True, slots=True)
class RecordFencing:
    """Record that `tasks` tasks may run: what ran before is fenced (KIP-618)."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The connector cannot be brought to what its config asks for. `again_s`: it is looked at again
    after so many seconds, instead of after a restart only."""

    name: str
    trace: str
    again_s: float = math.inf


@dataclass(frozen=True, slots=True)
class ForgetFailure:
    """Try again what the connector failed at."""

    name: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Assign the next attempt of a task and start it."""

    task: TaskId
    generation: int
    state: TargetState
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Reassign:
    """Tell a running attempt to pause or to go on."""

    task: TaskId
    state: TargetState


@dataclass(frozen=True, slots=True)
class StopRun:
    """Ask an attempt to drain, commit and end."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class KillRun:
    """End an attempt that did not end in time."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ForgetRun:
    """An ended attempt is of no interest any more."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class Unassign:
    """Withdraw an assignment that no attempt of ours holds."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ConnectorStatusIs:
    """Write the connector's status; None removes it."""

    name: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusIs:
    """Write a task's status on its behalf; None removes it. `again`: it is what was read."""

    task: TaskId
    status: Status | None
    again: bool = False


Effect: TypeAlias = (
    StartInstance
    | StopInstance
    | ForgetInstance
    | FailInstance
    | Identify
    | PublishTasks
    | Fence
    | RecordFencing
    | Fail
    | ForgetFailure
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
    """The connector that the effect belongs to."""
    match effect:
        case Launch(task=task) | Reassign(task=task) | StopRun(task=task) | KillRun(task=task):
            return task.connector
        case ForgetRun(task=task) | Unassign(task=task) | TaskStatusIs(task=task):
            return task.connector
        case _:
            return effect.name
