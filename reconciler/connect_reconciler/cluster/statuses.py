"""What do the workers say of one connector, and what of it after a certain moment?

Read from the status topic, the only place that tells in which order they spoke: an answer over REST
may be from before a change, and looks the same.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.herder.values import InstanceStatus
from connect_runtime.storage import status_topic
from connect_runtime.storage.log import LogReader, LogRecord
from connect_runtime.storage.snapshots import Status, StatusSnapshot

# How many records were read before
Position: TypeAlias = int

_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Told:
    """The statuses of one connector and, by number, of its tasks."""

    connector: InstanceStatus | None = None
    tasks: Mapping[int, InstanceStatus] = field(default_factory=dict)


class StatusTopic:
    """Follows the status topic, for many threads."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._position: Position = 0
        self._begun = False
        self._all: dict[str, StatusSnapshot] = {}
        # What came after the first reading: nobody asks for positions before it
        self._later: dict[str, list[tuple[Position, LogRecord]]] = defaultdict(list)

    def read(self) -> Position:
        """Reads to the end. What was written before this call is before the position returned.

        Raises ConnectError.
        """
        with self._lock:
            by_name: dict[str, list[LogRecord]] = defaultdict(list)
            for record in self._reader.read_to_end(_READ_TIMEOUT_S):
                name = status_topic.subject(record.key)
                if name is not None:
                    by_name[name].append(record)
                    if self._begun:
                        self._later[name].append((self._position, record))
                self._position += 1
            self._begun = True
            for name, records in by_name.items():
                before = self._all.get(name, StatusSnapshot())
                self._all[name] = status_topic.reduce_all(before, records)
            return self._position

    def told(self, name: str) -> Told:
        """The newest statuses that were read."""
        with self._lock:
            return _told(name, self._all.get(name, StatusSnapshot()))

    def told_since(self, name: str, position: Position) -> Told:
        """What was said from that position on, as if there were nothing before it."""
        with self._lock:
            later = [record for at, record in self._later.get(name, ()) if at >= position]
        return _told(name, status_topic.reduce_all(StatusSnapshot(), later))

    def close(self) -> None:
        """Closes the reader."""
        self._reader.close()


def _told(name: str, snapshot: StatusSnapshot) -> Told:
    connector = snapshot.connectors.get(name)
    tasks = {task.task: _part(status) for task, status in snapshot.tasks.items()}
    return Told(None if connector is None else _part(connector), tasks)


def _part(status: Status) -> InstanceStatus:
    return InstanceStatus(status.state, status.worker_id, status.trace, status.version)
