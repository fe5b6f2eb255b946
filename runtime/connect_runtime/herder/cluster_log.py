"""Reads the config, status and assignments topics, and writes to them as the leader.

All state comes from the topics, even records that were just written: after a write, the readers of
configs and assignments read on until they have seen it. Statuses are no state that anything waits
for (`status_log`). Levels of loggers are applied as they are read. Used by the herder's thread
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from connect_runtime.herder.status_log import StatusLog
from connect_runtime.logs.logger_levels import ClusterLevels
from connect_runtime.storage import assignments_topic, config_topic, status_topic
from connect_runtime.storage.log import (
    LogReader,
    LogRecord,
    Logs,
    LogWriter,
    NewRecord,
    WriteFailed,
)
from connect_runtime.storage.snapshots import AssignmentSnapshot, ConfigSnapshot, StatusSnapshot
from connect_specs.diagnostics import Diagnostic
from connect_specs.names import ClusterTopics

READ_TIMEOUT_S = 30.0


class ClusterLog:
    """Readers of three topics and, while this runtime leads, one transactional writer of configs
    and assignments. `statuses` is the status topic."""

    def __init__(self, logs: Logs, topics: ClusterTopics) -> None:
        self._logs = logs
        self._topics = topics
        self._readers: dict[str, LogReader] = {}
        self._writer: LogWriter | None = None
        self._logger_levels = ClusterLevels()
        self.config = ConfigSnapshot()
        self.assignments = AssignmentSnapshot()
        self.statuses = StatusLog(logs, topics.status, lambda: self.assignments.tasks)
        self._fold: dict[str, Callable[[Iterable[LogRecord]], None]] = {
            topics.config: self._fold_config,
            topics.assignments: self._fold_assignments,
        }

    @property
    def status(self) -> StatusSnapshot:
        """Returns the statuses, as far as they can be read."""
        return self.statuses.snapshot

    def open(self) -> None:
        """Opens the readers and reads each topic to its end. Raises LogBlocked."""
        for topic in self._fold:
            if topic not in self._readers:
                self._readers[topic] = self._logs.reader(topic)
        self.read_to_end()
        self._logger_levels.start(self.config)

    def read_to_end(self) -> None:
        """Reads up to the current ends of the topics."""
        for topic, reader in self._readers.items():
            self._fold[topic](reader.read_to_end(READ_TIMEOUT_S))
        self.statuses.read()

    def poll(self) -> None:
        """Applies records that have arrived, without waiting."""
        for topic, reader in self._readers.items():
            records = reader.poll()
            if records:
                self._fold[topic](records)
        self.statuses.poll()

    def claim(self, transactional_id: str) -> None:
        """Fences the previous leader and reads everything that it wrote."""
        self._release()
        self._writer = self._logs.writer(transactional_id)
        self.read_to_end()

    def begin_term(self, leader: str) -> int:
        """Returns a number larger than every earlier leader's, and records it: statuses alone could
        not be read one day. Raises as `write` does."""
        term = 1 + max(self.assignments.term, status_topic.newest_generation(self.status))
        self.write([assignments_topic.term_record(self._topics.assignments, term, leader)])
        self.statuses.lead(term)
        return term

    @property
    def usable(self) -> bool:
        """Whether the writer still works; if not, `claim` must be called again."""
        return self._writer is not None and self._writer.usable

    def follow(self) -> None:
        """Stops writing: another runtime leads."""
        self._release()
        self.statuses.follow()

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        """Writes all of `records` or none, but for statuses, which follow in the background; reads
        the others back and returns them. Raises Fenced or WriteFailed."""
        if self._writer is None:
            what = "Kafka has not confirmed yet that this worker leads"
            raise WriteFailed(Diagnostic("write.no-writer", what))
        statuses = [record for record in records if record.topic == self._topics.status]
        others = [record for record in records if record.topic != self._topics.status]
        written = self._writer.write(others) if others else ()
        ends: dict[tuple[str, int], int] = {}
        for record in written:
            ends[record.topic, record.partition] = record.offset
        for (topic, partition), offset in ends.items():
            if topic in self._readers:
                self._fold[topic](
                    self._readers[topic].read_through(partition, offset, READ_TIMEOUT_S)
                )
        self.statuses.write(statuses)
        return written

    def close(self) -> None:
        """Closes readers and writers."""
        self._release()
        self.statuses.close()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _release(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _fold_config(self, records: Iterable[LogRecord]) -> None:
        self.config = config_topic.reduce_all(self.config, records)
        self._logger_levels.follow(self.config)

    def _fold_assignments(self, records: Iterable[LogRecord]) -> None:
        self.assignments = assignments_topic.reduce_all(self.assignments, records)
