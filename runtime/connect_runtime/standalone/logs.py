"""Keeps a standalone worker's topics: offsets in a file, all others in memory, as Apache's do.

To the herder they are topics like any others. Topics in memory are forgotten at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from connect_runtime.storage.log import (
    BackgroundWriter,
    InternalTopic,
    LogReader,
    LogRecord,
    LogWriter,
    NewRecord,
    OffsetsNotWritten,
)
from connect_runtime.storage.memory import MemoryLogs
from connect_runtime.storage.offset_file import Entries, OffsetFile
from connect_specs.names import ClusterTopics

_log = logging.getLogger(__name__)

# Readers are never that far behind. A task that fails every minute writes for months.
_KEPT: Final = 1_000


class StandaloneLogs:
    """Implements Logs. `file` belongs to these logs, and is closed with them."""

    def __init__(self, topics: ClusterTopics, file: OffsetFile, cluster_id: str) -> None:
        self._file = file
        self._offsets = topics.offsets
        self._cluster_id = cluster_id
        self._memory = MemoryLogs(kept=_KEPT)
        for topic in (topics.config, topics.status, topics.assignments):
            self._memory.create_topic(topic)
        self._of_tasks = self._memory.writer("tasks")

    @property
    def problem(self) -> str | None:
        """Returns why offsets cannot be written now."""
        return self._file.problem

    def cluster_id(self) -> str:
        return self._cluster_id

    def reader(self, topic: str) -> LogReader:
        if topic == self._offsets:
            return _FileReader(topic, self._file)
        return self._memory.reader(topic)

    def writer(self, transactional_id: str) -> LogWriter:
        return _Writer(self._memory.writer(transactional_id), self._offsets, self._file)

    def background_writer(self) -> BackgroundWriter:
        return self._memory.background_writer()

    def write_for_task(self, records: Sequence[NewRecord], check: Callable[[], None]) -> None:
        """Writes as a writer does, unless `check` raises once earlier writes of offsets are over: a
        task that no longer waits for its commit may have been taken for ended."""
        _Writer(self._of_tasks, self._offsets, self._file, check).write(records)

    def wait(self, reader: LogReader, timeout_s: float) -> Sequence[LogRecord]:
        """Returns what `reader` has not read yet; waits for it if there is nothing."""
        changed = self._memory.changed
        with changed:
            records = reader.poll()
            if not records:
                changed.wait(timeout_s)
                records = reader.poll()
            return records

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fences nobody: sources write without transactions."""

    def ensure_compacted(self, topic: InternalTopic) -> None:
        """Does nothing: all topics exist."""

    def close(self) -> None:
        self._file.close()


class _Writer:
    """Implements LogWriter. Offsets are on the disk before anything else of a write is done."""

    def __init__(
        self,
        memory: LogWriter,
        offsets: str,
        file: OffsetFile,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._memory = memory
        self._offsets = offsets
        self._file = file
        self._check = check

    @property
    def usable(self) -> bool:
        return self._memory.usable

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        offsets: dict[bytes | None, bytes | None] = {
            record.key: record.value for record in records if record.topic == self._offsets
        }
        if offsets:
            try:
                self._file.write(offsets, self._check)
            except OffsetsNotWritten as error:
                problem = error.diagnostics[0]
                _log.error("%s (%s): %s", error, problem.code, problem.why)
                raise
        in_memory = [record for record in records if record.topic != self._offsets]
        return [*_as_records(self._offsets, offsets), *self._memory.write(in_memory)]

    def close(self) -> None:
        self._memory.close()


class _FileReader:
    """Implements LogReader: each read returns what has changed since the last one."""

    led_anew = False

    def __init__(self, topic: str, file: OffsetFile) -> None:
        self._topic = topic
        self._file = file
        self._seen: Entries = {}
        self.left_out: dict[tuple[str, int], str] = {}
        self.positions: dict[int, int] = {}

    def poll(self) -> Sequence[LogRecord]:
        earlier, self._seen = self._seen, self._file.entries
        removed = dict.fromkeys(earlier.keys() - self._seen.keys())
        changed = {key: value for key, value in self._seen.items() if earlier.get(key) != value}
        return _as_records(self._topic, removed | changed)

    def read_to_end(self, timeout_s: float) -> Sequence[LogRecord]:
        return self.poll()

    def read_available(self, timeout_s: float) -> Sequence[LogRecord]:
        return self.poll()

    def read_through(self, partition: int, offset: int, timeout_s: float) -> Sequence[LogRecord]:
        return self.poll()

    def close(self) -> None:
        """Closes nothing."""


def _as_records(topic: str, entries: Entries) -> list[LogRecord]:
    """Returns entries as records. A file knows no order and no times."""
    return [
        LogRecord(topic, partition=0, offset=at, timestamp_ms=0, key=key, value=value)
        for at, (key, value) in enumerate(entries.items())
    ]
