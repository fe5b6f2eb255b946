"""Immutable snapshots of a Connect cluster's state, one per topic.

Each is made by folding records (`config_topic.reduce_all`, `status_topic.reduce_all`, ...) and
never changed in place. Formats: Connect's config, status and offsets topics, and our assignments
topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from connect_specs.desired import Offset, Partition, TargetState


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A task of a connector. Written `<connector>-<task>`."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """One connector's state in the config topic.

    `config` as stored, references unresolved, but for `null_keys`: these are stored with the value
    null, with which no connector starts. `task_configs` is empty while `inconsistent`: a commit
    record came without its task records. `generation` counts sets of task configs as Connect does,
    -1 before the first. `applied_config` is the config that the newest task configs were made
    from. `task_count_record` is the newest `tasks-fencing` count; `pending_fencing`: a commit
    record came after it (KIP-618). `target_given` is False if no target state record exists.
    `tasks_ever` is the largest number of tasks since the connector was created.
    """

    name: str
    config: Mapping[str, str]
    target: TargetState = TargetState.RUNNING
    target_given: bool = False
    task_configs: tuple[Mapping[str, str], ...] = ()
    task_count: int = 0
    generation: int = -1
    applied_config: Mapping[str, str] | None = None
    inconsistent: bool = False
    task_count_record: int | None = None
    pending_fencing: bool = False
    config_timestamp_ms: int = 0
    target_timestamp_ms: int = 0
    null_keys: tuple[str, ...] = ()
    tasks_ever: int = 0


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A `restart-connector` command record (KIP-745); `offset` orders them."""

    connector: str
    include_tasks: bool
    only_failed: bool
    offset: int


@dataclass(frozen=True, slots=True)
class LoggerRequest:
    """A `logger-cluster` command record (KIP-976): the level, as written, of all loggers whose
    names begin with `namespace`."""

    namespace: str
    level: str
    offset: int


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The config topic up to `offset` (the next one to read).

    `deferred` holds task configs that no commit record has covered yet; `orphans` the state of
    names without a connector record: target state, fencing counts and task counts outlive it.
    `loggers` holds the newest request for each namespace.
    """

    connectors: Mapping[str, ConnectorState] = field(default_factory=dict)
    deferred: Mapping[str, Mapping[int, Mapping[str, str]]] = field(default_factory=dict)
    orphans: Mapping[str, ConnectorState] = field(default_factory=dict)
    restarts: tuple[RestartRequest, ...] = ()
    loggers: Mapping[str, LoggerRequest] = field(default_factory=dict)
    offset: int = 0


class State(StrEnum):
    """The states of a connector or task in the status topic."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """One status record. `trace` is a traceback's text; `generation` the writer's leader term.

    `attempt` is the attempt at a task that the record is about; None for connectors, and in records
    of Apache's workers and of runtimes before attempts were written. `polled`: the task has polled
    its source, or put records, without an error since it runs; Apache's workers do not say so.
    """

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    attempt: int | None = None
    polled: bool = False

    @property
    def busy(self) -> bool:
        """Returns whether a runtime runs the connector or task, paused or not."""
        return self.state in (State.RUNNING, State.PAUSED, State.RESTARTING)


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """The status topic: the newest status of each connector and task, and topics in use.

    `outdated` holds tasks whose last record in the topic is of an older attempt than the one in
    `tasks`: a late attempt wrote it, and the leader writes the newer status again.
    """

    connectors: Mapping[str, Status] = field(default_factory=dict)
    tasks: Mapping[TaskId, Status] = field(default_factory=dict)
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outdated: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's newest instruction for a task; a missing one means stop.

    `attempt` grows with each launch of the task and never repeats; `leader` is the leader's URL;
    `state` is running or paused; `generation` that of the task configs.
    """

    attempt: int
    leader: str
    state: TargetState
    generation: int


@dataclass(frozen=True, slots=True)
class AssignmentSnapshot:
    """The assignments topic. `attempts` holds each task's highest attempt ever, `term` is the
    newest leader's, -1 before the first. `ending` holds attempts that were told to stop and
    whose end is not known, where nothing fences them."""

    tasks: Mapping[TaskId, Assignment] = field(default_factory=dict)
    attempts: Mapping[TaskId, int] = field(default_factory=dict)
    offset: int = 0
    term: int = -1
    ending: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """One source partition's offset. `key` is the record's key bytes, for later writes."""

    partition: Partition
    offset: Offset
    key: bytes


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """The offsets topic: the newest offset per connector and key bytes, without tombstones."""

    connectors: Mapping[str, Mapping[bytes, SourceOffset]] = field(default_factory=dict)
