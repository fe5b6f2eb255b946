"""What the herder decides to do: a closed set of small values, carried out in order.

Records of one tick share a transaction; everything else follows its commit.
"""

from __future__ import annotations

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
class Fence:
    """Fence the producers of tasks 0..`old`-1, then record that `new` tasks may run (KIP-618).

    `old` 0: only the record."""

    name: str
    old: int
    new: int


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
    """Write a task's status on its behalf; None removes it."""

    task: TaskId
    status: Status | None


Effect: TypeAlias = (
    StartInstance
    | StopInstance
    | PublishTasks
    | Fence
    | Launch
    | Reassign
    | StopRun
    | KillRun
    | ForgetRun
    | Unassign
    | ConnectorStatusIs
    | TaskStatusIs
)
