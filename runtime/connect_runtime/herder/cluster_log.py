"""Reads the config, status and assignments topics, and writes to them as the leader.

All state comes from the topics, even records that were just written: after a write, the readers of
configs and assignments read on until they have seen it. Levels of loggers are applied as they are
read. Used by the herder's thread only.

Statuses are no state that anything waits for: a partition of theirs that cannot be read or written
concerns the statuses in it alone. They are written in the background, and count at once, before
Kafka has them. A former leader may still write: of two statuses of one task, `status_topic` keeps
the newer attempt's; what else a late record replaced is restored while this runtime leads, and
written again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connect_runtime.engine import java_loggers
from connect_runtime.logs.logger_levels import ClusterLevels
from connect_runtime.storage import assignments_topic, config_topic, status_topic
from connect_runtime.storage.log import (
    BackgroundWriter,
    LogReader,
    LogRecord,
    Logs,
    LogWriter,
    NewRecord,
    WriteFailed,
    unread_text,
)
from connect_runtime.storage.snapshots import (
    Assignment,
    AssignmentSnapshot,
    ConfigSnapshot,
    StatusSnapshot,
    TaskId,
)
from connect_specs.diagnostics import ConnectError, Diagnostic
from connect_specs.names import ClusterTopics

READ_TIMEOUT_S = 30.0
_log = logging.getLogger(__name__)

# Without anything new for so long, a read leaves out what is missing
_READ_S: Final = 30.0
_REOPEN_S: Final = 10.0
# So many values of a key may be on their way to the topic and back
_ECHOES: Final = 4

Assigned = Callable[[], Mapping[TaskId, Assignment]]


class ClusterLog:
    """Readers of three topics and, while this runtime leads, one transactional writer of configs
    and assignments. `statuses` is the status topic."""

    def __init__(self, logs: Logs, topics: ClusterTopics) -> None:
        self._logs = logs
        self._topics = topics
        self._readers: dict[str, LogReader] = {}
        self._writer: LogWriter | None = None
        self._logger_levels = ClusterLevels(java_loggers.set_level_soon)
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
        """Returns whether the writer still works; if not, `claim` must be called again."""
        return self._writer is not None and self._writer.usable

    def follow(self) -> None:
        """Stops writing: another runtime leads."""
        self._release()
        self.statuses.follow()

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        """Writes all of `records` or none, but for statuses, which follow in the background; reads
        the others back and returns them. Raises Fenced or WriteFailed."""
        if self._writer is None:
            problem = "Kafka has not confirmed yet that this worker leads"
            raise WriteFailed(Diagnostic("write.no-writer", problem))
        statuses = [record for record in records if record.topic == self._topics.status]
        transactional = [record for record in records if record.topic != self._topics.status]
        committed = self._writer.write(transactional) if transactional else ()
        ends: dict[tuple[str, int], int] = {}
        for record in committed:
            ends[record.topic, record.partition] = record.offset
        for (topic, partition), offset in ends.items():
            if topic in self._readers:
                self._fold[topic](
                    self._readers[topic].read_through(partition, offset, READ_TIMEOUT_S)
                )
        self.statuses.write(statuses)
        return committed

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


class StatusLog:
    """Used by the herder's thread only, but for `problem`. `assigned` returns the assignments."""

    def __init__(self, logs: Logs, topic: str, assigned: Assigned) -> None:
        self._logs = logs
        self._topic = topic
        self._assigned = assigned
        self._reader: LogReader | None = None
        self._reopen_at = 0.0
        self._unread: str | None = None
        self._writer: BackgroundWriter | None = None
        # Values that were written and not read back yet, by key
        self._echoes: dict[bytes, list[bytes | None]] = {}
        self._term: int | None = None
        # The topic may lack statuses that were applied here
        self._ahead = False
        self.snapshot = StatusSnapshot()

    @property
    def problem(self) -> str | None:
        """Returns which statuses cannot be written or read now, and why."""
        unwritten = None if self._writer is None else self._writer.problem
        if unwritten is not None:
            return f"Statuses cannot be written: {unwritten}"
        reader = self._reader
        reason = self._unread if reader is None else unread_text(reader.left_out)
        return None if reason is None else f"Statuses cannot be read: {reason}"

    def read(self) -> None:
        """Reads to the end, as far as that is possible; from the beginning, if the topic lacks
        statuses that were applied here. Never raises ConnectError."""
        if self._ahead:
            self._ahead = False
            self._close_reader()
        self._take(lambda reader: reader.read_available(_READ_S))

    def poll(self) -> None:
        """Applies records that have arrived, without waiting. Never raises ConnectError."""
        self._take(lambda reader: reader.poll())

    def lead(self, term: int) -> None:
        """Statuses of earlier terms cannot replace those of this term's attempts any more."""
        self._term = term

    def write(self, records: Sequence[NewRecord]) -> None:
        """Applies statuses, and writes them in the background."""
        if not records:
            return
        for record in records:
            echoes = self._echoes.setdefault(record.key, [])
            echoes.append(record.value)
            del echoes[:-_ECHOES]
        if self._writer is None:
            self._writer = self._logs.background_writer()
        self._writer.write(records)
        # as they will be read, somewhere
        unplaced = [LogRecord(r.topic, -1, -1, 0, r.key, r.value) for r in records]
        self.snapshot = status_topic.reduce_all(self.snapshot, unplaced)

    def flush(self, timeout_s: float) -> None:
        """Waits for statuses that can be written."""
        if self._writer is not None:
            self._writer.flush(timeout_s)

    def follow(self) -> None:
        """Gives up statuses that are not written: another runtime leads."""
        self._term = None
        self._echoes.clear()
        if self._writer is not None:
            self._ahead = not self._writer.flush(0.0) or self._ahead
            self._writer.drop()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._close_reader()

    # --- reading ---

    def _take(self, read_records: Callable[[LogReader], Sequence[LogRecord]]) -> None:
        try:
            if self._reader is None:
                if time.monotonic() < self._reopen_at:
                    return
                self._reader = self._logs.reader(self._topic)
                records = self._reader.read_available(_READ_S)
            else:
                records = read_records(self._reader)
        except ConnectError as error:
            # refused, or the topic is gone: a recreated one begins at other offsets
            self._unread = error.explained
            _log.warning("Statuses cannot be read: %s", self._unread)
            self._close_reader()
            self._reopen_at = time.monotonic() + _REOPEN_S
            return
        self._unread = None
        self._apply([record for record in records if not self._is_echo(record)])

    def _is_echo(self, record: LogRecord) -> bool:
        """Returns whether it was applied when it was written, and nothing else about its key came
        since."""
        echoes = self._echoes.get(record.key or b"")
        if echoes is None:
            return False
        if record.value not in echoes:
            del self._echoes[record.key or b""]
            return False
        del echoes[: echoes.index(record.value) + 1]
        if not echoes:
            del self._echoes[record.key or b""]
        return True

    def _apply(self, records: Sequence[LogRecord]) -> None:
        if self._term is None:
            if records:
                self.snapshot = status_topic.reduce_all(self.snapshot, records)
            return
        for batch in _of_different_keys(records):
            current = self.snapshot
            reduced = status_topic.reduce_all(current, batch)
            tasks = {status_topic.task_of(record.key) for record in batch}
            self.snapshot = without_late(current, reduced, tasks, self._assigned(), self._term)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def without_late(
    current: StatusSnapshot,
    reduced: StatusSnapshot,
    tasks: Iterable[TaskId | None],
    assigned: Mapping[TaskId, Assignment],
    term: int,
) -> StatusSnapshot:
    """Returns `reduced` with the statuses of assigned attempts that a removal, or a record without
    an attempt, replaced; the leader writes them again. Such a record is late: written by a former
    leader, or by this one before the attempt began. A status that still holds is written again."""
    restored = {}
    for task in tasks:
        status = None if task is None else current.tasks.get(task)
        if task is None or status is None or status.attempt is None or task not in assigned:
            continue
        replacement = reduced.tasks.get(task)
        late = replacement is None or (
            replacement.attempt is None and replacement.generation <= term
        )
        if late and status.attempt == assigned[task].attempt:
            restored[task] = status
    if not restored:
        return reduced
    outdated = reduced.outdated | restored.keys()
    return replace(reduced, tasks={**reduced.tasks, **restored}, outdated=outdated)


def _of_different_keys(records: Sequence[LogRecord]) -> list[list[LogRecord]]:
    """Splits records, in order, so that no batch has two of one key: the second is compared with a
    snapshot that holds the first."""
    batches: list[list[LogRecord]] = []
    keys: set[bytes | None] = set()
    for record in records:
        if not batches or record.key in keys:
            batches.append([])
            keys.clear()
        keys.add(record.key)
        batches[-1].append(record)
    return batches
