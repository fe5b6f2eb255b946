"""Entities and errors of Connect's verbs, which `connect_cluster` answers.

`connect_runtime.rest.wire` turns entities into Connect's JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.diagnostics import Diagnostic, Failed

# Response header with the `Refusal`: the body keeps Connect's shape
REFUSAL_HEADER: Final = "Connect-Refusal"
# Response header of a validation, percent-encoded: the reason why a file connector runs in a JVM
JVM_REASON_HEADER: Final = "Connect-Jvm-Reason"
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
    `plugin_problems` has a sentence for each file or class on `plugin.path` that cannot be used.
    `own_jvms` holds tasks that have ended a JVM, and share none until their config changes.
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
    plugin_problems: tuple[str, ...] = ()
    own_jvms: tuple[TaskId, ...] = ()
