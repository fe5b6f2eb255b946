"""Connect's verbs, as REST and an in-process apply call them, with their entities and errors.

The herder implements the protocol `Verbs`; the REST layer depends on nothing else, and
`connect_runtime.rest.wire` turns entities into Connect's JSON. Every method may be called from any
thread. Any runtime answers reads, from the topics; only the leader answers writes, others do
nothing and raise NotLeader. All raise RequestError with Connect's status and text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState

# Response header with the `Refusal`: the body keeps Connect's shape
REFUSAL_HEADER: Final = "Connect-Refusal"
# Connect's text where another worker took over what the request needs
LEADER_CHANGED: Final = (
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)


class Refusal(StrEnum):
    """Reasons of refused requests, for which Connect itself has only a text."""

    NOT_WRITTEN = "not-written"
    NOT_READ = "not-read"
    TIMED_OUT = "timed-out"
    NOT_STOPPED = "not-stopped"
    GROUP_ACTIVE = "group-active"
    STILL_WRITING = "still-writing"
    NO_SUCH_CLASS = "no-such-class"
    UNLISTED_MODULE = "unlisted-module"
    PLUGIN_FAILED = "plugin-failed"


class RequestError(Failed):
    """`status` is the HTTP status, `message` Connect's text (connect-facts 4.5 and 5.1)."""

    def __init__(self, status: int, message: str, refusal: Refusal | None = None) -> None:
        super().__init__(Diagnostic(code=f"connect.{status}", what=message))
        self.status = status
        self.message = message
        self.refusal = refusal

    def __reduce__(self) -> tuple[type[RequestError], tuple[int, str, Refusal | None]]:
        return type(self), (self.status, self.message, self.refusal)


class WouldWait(Exception):
    """A call on an event loop's thread would wait there; it is to be made on another."""


class NotLeader(RequestError):
    """A write reached a runtime that is not the leader, which did nothing. `leader`: its URL; None
    if no other leader is known."""

    def __init__(self, leader: str | None) -> None:
        reason = f"the leader is {leader}" if leader else "no leader is known at the moment"
        super().__init__(409, f"Cannot complete request: this worker does not lead, {reason}")
        self.leader = leader

    def __reduce__(self) -> tuple[type[NotLeader], tuple[str | None]]:  # type: ignore[override]
        return type(self), (self.leader,)


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
class RuntimeInfo:
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


class Verbs(Protocol):
    """The operations of a Connect cluster."""

    # reads
    def connectors(self) -> Sequence[str]: ...
    def info(self, name: str) -> ConnectorInfo: ...
    def config(self, name: str) -> Mapping[str, str]: ...
    def status(self, name: str) -> ConnectorStatus: ...
    def tasks(self, name: str) -> Sequence[TaskInfo]: ...
    def topics(self, name: str) -> Sequence[str]: ...
    def offsets(self, name: str) -> Sequence[OffsetEntry]: ...
    def runtime(self) -> RuntimeInfo: ...
    def changes(self) -> int:
        """Counts changes of anything that the reads above return, but for offsets. The type of
        a class that could not be used may change uncounted."""
        ...

    def ready(self) -> bool:
        """Returns whether start-up is complete: the topics were read, and a leader was known
        since."""
        ...

    def problem(self) -> str | None:
        """Returns why this runtime cannot do its work now: no worker leads, no task can run, or
        topics that requests need cannot be read or written. If another one leads, it may wait for
        Kafka briefly."""
        ...

    def degraded(self) -> str | None:
        """Returns what this runtime lacks while it does its work: offsets or statuses that cannot
        be read or written."""
        ...

    # writes
    def must_lead(self) -> None:
        """Raises NotLeader if another runtime answers writes."""
        ...

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo: ...
    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """Creates or updates; the second value says whether it was created."""
        ...

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo: ...
    def delete(self, name: str) -> None: ...
    def stop(self, name: str) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        """Returns None for a plain restart, else the status with RESTARTING where it applies."""
        ...

    def reset_topics(self, name: str) -> None: ...
    def set_logger_level(self, namespace: str, level: str) -> None:
        """Sets the level of loggers on all runtimes of the cluster."""
        ...

    def restart_task(self, name: str, task: int) -> None: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        """Returns Connect's success text (KIP-875)."""
        ...

    def reset_offsets(self, name: str) -> str: ...
