"""Reads the config, status and assignments topics, and writes to them as the leader.

All state comes from the topics, even records that were just written: after a write, the readers
read on until they have seen it. Levels of loggers are applied as they are read. Used by the
herder's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from connect_runtime.logs.logger_levels import ClusterLevels
from connect_runtime.storage import assignments_topic, config_topic, status_topic
from connect_runtime.storage.log import LogReader, LogRecord, Logs, LogWriter, NewRecord
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    ConfigSnapshot,
    StatusSnapshot,
)
from connect_specs.names import ClusterTopics

READ_TIMEOUT_S = 30.0


class ClusterLog:
    """Readers of three topics and, while this runtime leads, one transactional writer."""

    def __init__(self, logs: Logs, topics: ClusterTopics) -> None:
        self._logs = logs
        self._topics = topics
        self._readers: dict[str, LogReader] = {}
        self._writer: LogWriter | None = None
        self._logger_levels = ClusterLevels()
        self.config = ConfigSnapshot()
        self.status = StatusSnapshot()
        self.assignments = AssignmentSnapshot()
        self._fold: dict[str, Callable[[Iterable[LogRecord]], None]] = {
            topics.config: self._fold_config,
            topics.status: self._fold_status,
            topics.assignments: self._fold_assignments,
        }

    def open(self) -> None:
        """Opens the readers and reads each topic to its end. Raises LogBlocked."""
        for topic in self._fold:
            self._readers[topic] = self._logs.reader(topic)
        self.read_to_end()
        self._logger_levels.start(self.config)

    def read_to_end(self) -> None:
        """Reads up to the current ends of the topics."""
        for topic, reader in self._readers.items():
            self._fold[topic](reader.read_to_end(READ_TIMEOUT_S))

    def poll(self) -> None:
        """Applies records that have arrived, without waiting."""
        for topic, reader in self._readers.items():
            records = reader.poll()
            if records:
                self._fold[topic](records)

    def claim(self, transactional_id: str) -> None:
        """Fences the previous leader and reads everything that it wrote."""
        self.release()
        self._writer = self._logs.writer(transactional_id)
        self.read_to_end()

    @property
    def usable(self) -> bool:
        """Whether the writer still works; if not, `claim` must be called again."""
        return self._writer is not None and self._writer.usable

    def release(self) -> None:
        """Closes the writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        """Writes all of `records` or none, and reads them back. Raises Fenced or WriteFailed.

        Statuses are applied as written; reading them again later changes nothing. A task of an
        earlier version of this runtime may have left a transaction open in the status topic, and
        waiting for it would take longer than the leader's session lasts.
        """
        assert self._writer is not None, "only a leader writes"
        written = self._writer.write(records)
        ends: dict[tuple[str, int], int] = {}
        self._fold_status(record for record in written if record.topic == self._topics.status)
        for record in written:
            ends[record.topic, record.partition] = record.offset
        for (topic, partition), offset in ends.items():
            if topic in (self._topics.config, self._topics.assignments):
                self._fold[topic](
                    self._readers[topic].read_through(partition, offset, READ_TIMEOUT_S)
                )
        return written

    def close(self) -> None:
        """Closes readers and writer."""
        self.release()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _fold_config(self, records: Iterable[LogRecord]) -> None:
        self.config = config_topic.reduce_all(self.config, records)
        self._logger_levels.follow(self.config)

    def _fold_status(self, records: Iterable[LogRecord]) -> None:
        self.status = status_topic.reduce_all(self.status, records)

    def _fold_assignments(self, records: Iterable[LogRecord]) -> None:
        self.assignments = assignments_topic.reduce_all(self.assignments, records)
