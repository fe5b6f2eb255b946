"""Values that the herder returns: Connect's REST entities, and extra values for live views.

`connect_runtime.rest.wire` turns them into Connect's JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.storage.snapshots import State, TaskId


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector with its config, but for `null_keys`, whose values are null. `type` is source,
    sink, or unknown if its class is not found here."""

    name: str
    config: Mapping[str, str]
    tasks: tuple[TaskId, ...]
    type: str
    null_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task and its config as the config topic holds it."""

    id: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status of a connector or of one of its tasks."""

    state: State
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """Status of a connector and, by task number, of its tasks."""

    name: str
    connector: InstanceStatus
    tasks: Mapping[int, InstanceStatus]
    type: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The runtime behind a URL: whether it leads, and whether it has enough slots.

    `slots` is 0 if tasks cannot run yet or at all. `waiting` holds tasks that have no slot.
    `problem` says why no task can run here now, or which topics, statuses, or offsets of a
    standalone worker cannot be read or written; None if all can, or if Spark is still starting.
    `paused_release`: paused tasks hold no slots.
    `unconfirmed` holds tasks that an earlier leader launched and that may still run, as far
    as this one knows; `unconfirmed_since` is when it began to lead, in UTC.
    """

    leader: str | None
    leading: bool
    term: int
    slots: int
    running: int
    waiting: tuple[TaskId, ...] = ()
    problem: str | None = None
    paused_release: bool = False
    unconfirmed: tuple[TaskId, ...] = ()
    unconfirmed_since: str | None = None
