"""Follows the status topic as far as it can be read, and writes to it in the background.

A partition that cannot be read or written concerns the statuses in it alone: nothing waits for it.
What the leader writes counts at once, before Kafka has it. A former leader may still write: of two
statuses of one task, `status_topic` keeps the newer attempt's; what else a late record replaced is
restored here while this runtime leads, and written again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connect_runtime.storage import status_topic
from connect_runtime.storage.log import (
    BackgroundWriter,
    LogReader,
    LogRecord,
    Logs,
    NewRecord,
    unread,
)
from connect_runtime.storage.snapshots import Assignment, StatusSnapshot, TaskId
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# Without anything new for so long, a read leaves out what is missing
_READ_S: Final = 30.0
_REOPEN_S: Final = 10.0
# How many values of a key may be on their way to the topic and back
_ECHOES: Final = 4

Assigned = Callable[[], Mapping[TaskId, Assignment]]


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
        # What was written and not read back yet, by key
        self._echoes: dict[bytes, list[bytes | None]] = {}
        self._term: int | None = None
        # Whether the topic lacks statuses that were applied here
        self._ahead = False
        self.snapshot = StatusSnapshot()

    @property
    def problem(self) -> str | None:
        """Returns which statuses cannot be written or read now, and why."""
        unwritten = None if self._writer is None else self._writer.problem
        if unwritten is not None:
            return f"Statuses cannot be written: {unwritten}"
        reader = self._reader
        why = self._unread if reader is None else unread(reader.left_out)
        return None if why is None else f"Statuses cannot be read: {why}"

    def read(self) -> None:
        """Reads to the end, as far as that is possible; from the beginning, if the topic lacks
        what was applied here. Never raises ConnectError."""
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
        self.snapshot = status_topic.reduce_all(self.snapshot, map(_unplaced, records))

    def flush(self, timeout_s: float) -> None:
        """Waits for what can be written."""
        if self._writer is not None:
            self._writer.flush(timeout_s)

    def follow(self) -> None:
        """Gives up what is not written: another runtime leads."""
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

    def _take(self, read: Callable[[LogReader], Sequence[LogRecord]]) -> None:
        try:
            if self._reader is None:
                if time.monotonic() < self._reopen_at:
                    return
                self._reader = self._logs.reader(self._topic)
                records = self._reader.read_available(_READ_S)
            else:
                records = read(self._reader)
        except ConnectError as error:
            # refused, or the topic is gone: made anew, it begins at other offsets
            why = "; ".join(filter(None, (each.why for each in error.diagnostics)))
            self._unread = f"{error}{f' ({why})' if why else ''}"
            _log.warning("Statuses cannot be read: %s", self._unread)
            self._close_reader()
            self._reopen_at = time.monotonic() + _REOPEN_S
            return
        self._unread = None
        self._apply([record for record in records if not self._is_echo(record)])

    def _is_echo(self, record: LogRecord) -> bool:
        """Whether it was applied when it was written, and nothing else about its key came since."""
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
        for part in _of_different_keys(records):
            before = self.snapshot
            after = status_topic.reduce_all(before, part)
            tasks = {status_topic.task_of(record.key) for record in part}
            self.snapshot = without_late(before, after, tasks, self._assigned(), self._term)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def without_late(
    before: StatusSnapshot,
    after: StatusSnapshot,
    tasks: Iterable[TaskId | None],
    assigned: Mapping[TaskId, Assignment],
    term: int,
) -> StatusSnapshot:
    """Returns `after` with the statuses of assigned attempts that a removal, or a record without an
    attempt, replaced; the leader writes them again. Such a record is late: written by a former
    leader, or by this one before the attempt began. What it has to say now, it says again."""
    restored = {}
    for task in tasks:
        known = None if task is None else before.tasks.get(task)
        if task is None or known is None or known.attempt is None or task not in assigned:
            continue
        now = after.tasks.get(task)
        late = now is None or (now.attempt is None and now.generation <= term)
        if late and known.attempt == assigned[task].attempt:
            restored[task] = known
    if not restored:
        return after
    outdated = after.outdated | restored.keys()
    return replace(after, tasks={**after.tasks, **restored}, outdated=outdated)


def _of_different_keys(records: Sequence[LogRecord]) -> list[list[LogRecord]]:
    """Splits records, in order, so that no part has two of one key: what the first of them says
    would not be known when the second is looked at."""
    parts: list[list[LogRecord]] = []
    keys: set[bytes | None] = set()
    for record in records:
        if not parts or record.key in keys:
            parts.append([])
            keys.clear()
        keys.add(record.key)
        parts[-1].append(record)
    return parts


def _unplaced(record: NewRecord) -> LogRecord:
    """Returns a record as it will be read, somewhere."""
    return LogRecord(record.topic, -1, -1, 0, record.key, record.value)
