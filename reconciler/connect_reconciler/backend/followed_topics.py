"""Follows the config topic and the status topic: what is asked of connectors, and what they do.

Both are read before and after each action, so reading must be cheap. The topics are the truth on
our runtime and on Apache's clusters: Connect's REST API reports no target states, and only the
status topic has the order in which workers reported.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.herder.verbs import InstanceStatus
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.log import LogReader, LogRecord, unread_text
from connect_runtime.storage.snapshots import ConfigSnapshot, State, Status, StatusSnapshot, TaskId
from connect_specs.desired import TargetState
from connect_specs.diagnostics import ConnectError

# The number of records that were read before
Position: TypeAlias = int

_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class StoredConnector:
    """A connector that is there. `tasks_current`: its tasks were made from this very config. Each
    set of task configs has its own `generation`, and each write of the config its own `written_at`;
    over REST alone neither is known."""

    config: Mapping[str, str]
    target: TargetState
    tasks: int = 0
    tasks_current: bool = True
    generation: int = 0
    written_at: int = -1


class ConfigTopic:
    """Follows the config topic, for many threads. Implements `ReadConnector`.

    Threads that wait while a read fails fail at once: they do not wait one after another
    for a Kafka that is gone.
    """

    def __init__(self, reader: LogReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._snapshot = ConfigSnapshot()
        self._written: dict[str, int] = {}
        self._reading = threading.Lock()
        self._failed: tuple[float, ConnectError] | None = None

    def __call__(self, name: str) -> StoredConnector | None:
        self.read()
        return self.known(name)

    def read(self) -> None:
        """Reads to the end. Raises ConnectError."""
        asked_at = self._clock()
        with self._reading:
            if self._failed is not None and self._failed[0] > asked_at:
                raise self._failed[1]
            try:
                records = self._reader.read_to_end(_READ_TIMEOUT_S)
            except ConnectError as error:
                self._failed = (self._clock(), error)
                raise
            for record in records:
                about = config_topic.subject(record.key)
                if about is not None and about[0] == "config":
                    self._written[about[1]] = record.offset
            if records:
                self._snapshot = config_topic.reduce_all(self._snapshot, records)

    def known(self, name: str) -> StoredConnector | None:
        """Returns the connector as it was read last."""
        state = self._snapshot.connectors.get(name)
        if state is None:
            return None
        up_to_date = state.applied_config == state.config and not state.inconsistent
        tasks, offset = len(state.task_configs), self._written.get(name, -1)
        return StoredConnector(
            state.config, state.target, tasks, up_to_date, state.generation, offset
        )

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True, slots=True)
class ReportedStatuses:
    """The statuses of one connector and, by number, of its tasks. `polled` holds the tasks that
    have polled, or put records, since they run."""

    connector: InstanceStatus | None = None
    tasks: Mapping[int, InstanceStatus] = field(default_factory=dict)
    polled: frozenset[int] = frozenset()


class StatusTopic:
    """Follows the status topic, for many threads."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._position: Position = 0
        self._begun = False
        self._all: dict[str, StatusSnapshot] = {}
        # Records after the first reading: positions before it are never used
        self._later: dict[str, list[tuple[Position, LogRecord]]] = defaultdict(list)

    def read(self) -> Position:
        """Reads to the end, as far as that can be read. Records that were written before this call
        are before the position returned. Raises ConnectError."""
        with self._lock:
            by_name: dict[str, list[LogRecord]] = defaultdict(list)
            missed = set(self._reader.left_out)
            for record in self._reader.read_available(_READ_TIMEOUT_S):
                name = status_topic.subject(record.key)
                if name is not None:
                    by_name[name].append(record)
                    # records of a partition that is back may be from any time
                    if self._begun and (record.topic, record.partition) not in missed:
                        self._later[name].append((self._position, record))
                self._position += 1
            self._begun = True
            for name, records in by_name.items():
                earlier = self._all.get(name, StatusSnapshot())
                self._all[name] = status_topic.reduce_all(earlier, records)
            return self._position

    @property
    def unread(self) -> str | None:
        """Returns why statuses could not be read, which may be any connector's."""
        return unread_text(self._reader.left_out)

    def statuses_of(self, name: str) -> ReportedStatuses:
        """Returns the newest statuses that were read."""
        with self._lock:
            return _reported(name, self._all.get(name, StatusSnapshot()))

    def statuses_since(self, name: str, position: Position) -> ReportedStatuses:
        """Returns the statuses from that position on, as if there were none before it."""
        with self._lock:
            later = [record for at, record in self._later.get(name, ()) if at >= position]
        return _reported(name, status_topic.reduce_all(StatusSnapshot(), later))

    def restarted_since(self, name: str, position: Position) -> frozenset[int]:
        """Returns the tasks that were stopped from that position on, and whose worker reported
        again."""
        with self._lock:
            later = [record for at, record in self._later.get(name, ()) if at >= position]
        stopped: set[tuple[TaskId, str]] = set()
        restarted: set[int] = set()
        for record in later:
            # each record by itself: the reducer leaves out stops that come late
            for task, status in status_topic.reduce_all(StatusSnapshot(), (record,)).tasks.items():
                by = (task, status.worker_id)
                if status.state is State.UNASSIGNED:
                    stopped.add(by)
                if status.state is not State.UNASSIGNED and by in stopped:
                    restarted.add(task.task)
                else:
                    restarted.discard(task.task)
        return frozenset(restarted)

    def close(self) -> None:
        self._reader.close()


def _reported(name: str, snapshot: StatusSnapshot) -> ReportedStatuses:
    connector = snapshot.connectors.get(name)
    tasks = {task.task: _instance_status(status) for task, status in snapshot.tasks.items()}
    polled = frozenset(task.task for task, status in snapshot.tasks.items() if status.polled)
    return ReportedStatuses(
        None if connector is None else _instance_status(connector), tasks, polled
    )


def _instance_status(status: Status) -> InstanceStatus:
    return InstanceStatus(status.state, status.worker_id, status.trace, status.version)
