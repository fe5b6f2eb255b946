"""Implements logs in memory: the twin of `connect_runtime.kafka.log`, for standalone mode and
tests.

Reproduces what readers of a real topic notice: offsets of transaction markers, records hidden by
open transactions, writers fenced by transactional id. All users of one MemoryLogs share one
cluster. Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from threading import Condition
from typing import Final
from zlib import crc32

from connect_runtime.storage.log import (
    Fenced,
    InternalTopic,
    LogBlocked,
    LogRecord,
    NewRecord,
    WriteFailed,
)
from connect_specs.diagnostics import Diagnostic, Failed

# `read_available` waits this long for a transaction that is open
_STALLED_S: Final = 0.05


class _Fate(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True, eq=False)
class _Transaction:
    transactional_id: str
    fate: _Fate = _Fate.OPEN
    touched: list[list[_Entry]] = field(default_factory=list)

    def end(self, fate: _Fate) -> None:
        """Ends the transaction once. The marker takes an offset of its own, as on a broker."""
        if self.fate is _Fate.OPEN:
            self.fate = fate
            for partition in self.touched:
                partition.append(_Entry(None, self))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry at one offset; `record` None is a transaction's marker."""

    record: LogRecord | None
    transaction: _Transaction


@dataclass(frozen=True, slots=True)
class _Topic:
    partitions: tuple[list[_Entry], ...]
    policy: str


class MemoryLogs:
    """Logs on a cluster in memory. `now_s` gives the records' timestamps. With `kept`, records
    are compacted, all but a partition's newest so many; else never."""

    def __init__(self, *, now_s: Callable[[], float] = time.time, kept: int | None = None) -> None:
        self.changed = Condition()
        self._now_s = now_s
        self._topics: dict[str, _Topic] = {}
        self._epochs: dict[str, int] = {}
        self._open: list[_Transaction] = []
        self._kept = kept
        # the offset of a key's newest record, by topic and partition
        self._newest: dict[tuple[str, int], dict[bytes | None, int]] = {}

    def cluster_id(self) -> str:
        return str(id(self))

    def reader(self, topic: str) -> MemoryLogReader:
        return MemoryLogReader(topic, self.partitions(topic), self.changed)

    def writer(self, transactional_id: str) -> MemoryLogWriter:
        with self.changed:
            return MemoryLogWriter(self, transactional_id, self.take_over(transactional_id))

    def background_writer(self) -> MemoryBackgroundWriter:
        return MemoryBackgroundWriter(self)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        with self.changed:
            for transactional_id in transactional_ids:
                self.take_over(transactional_id)

    def ensure_compacted(self, topic: InternalTopic) -> None:
        """Implements Logs; replication and further topic settings are ignored."""
        with self.changed:
            if topic.name not in self._topics:
                self.create_topic(topic.name, topic.partitions)
        shape = self._topics[topic.name]
        topic.check_partitions(len(shape.partitions))
        topic.check_compacted(shape.policy)

    def close(self) -> None:
        """Closes nothing; written records stay, as on a broker."""

    def create_topic(self, topic: str, partitions: int = 1, policy: str = "compact") -> None:
        """Creates a topic as another program might have."""
        with self.changed:
            self._topics[topic] = _Topic(tuple([] for _ in range(partitions)), policy)

    def partitions(self, topic: str) -> tuple[list[_Entry], ...]:
        """Returns the live partitions. Raises Failed if the topic does not exist."""
        existing = self._topics.get(topic)
        if existing is None:
            raise Failed(Diagnostic("topic.missing", "There is no such topic", topic))
        return existing.partitions

    def epoch(self, transactional_id: str) -> int:
        """Returns the epoch of the id's newest writer."""
        return self._epochs[transactional_id]

    def append(
        self, transactional_id: str, records: Iterable[NewRecord]
    ) -> tuple[_Transaction, list[LogRecord]]:
        """Appends in a transaction that stays open. Call only while holding `changed`."""
        placed = [(record, self.partitions(record.topic)) for record in records]
        transaction = _Transaction(transactional_id)
        self._open.append(transaction)
        appended_records = []
        for record, partitions in placed:
            number = crc32(record.key) % len(partitions)
            entries = partitions[number]
            appended = LogRecord(
                topic=record.topic,
                partition=number,
                offset=len(entries),
                timestamp_ms=int(self._now_s() * 1000),
                key=record.key,
                value=record.value,
            )
            entries.append(_Entry(appended, transaction))
            # by identity: empty lists are equal
            if not any(entries is touched for touched in transaction.touched):
                transaction.touched.append(entries)
            appended_records.append(appended)
        return transaction, appended_records

    def append_plain(self, records: Iterable[NewRecord]) -> list[LogRecord]:
        """Appends without a transaction, and so without a marker. Call only while holding
        `changed`."""
        transaction, appended = self.append("", records)
        transaction.fate = _Fate.COMMITTED
        self._open.remove(transaction)
        self.compact(appended)
        self.changed.notify_all()
        return appended

    def end(self, transaction: _Transaction, *, commit: bool) -> None:
        """Ends a transaction and wakes its waiters. Call only while holding `changed`."""
        transaction.end(_Fate.COMMITTED if commit else _Fate.ABORTED)
        self._open = [pending for pending in self._open if pending is not transaction]
        self.changed.notify_all()

    def compact(self, appended: Iterable[LogRecord]) -> None:
        """Forgets old records that these replace, which are committed, or that others replace that
        have become old with these. Call only while holding `changed`."""
        if self._kept is None:
            return
        for record in appended:
            entries = self._topics[record.topic].partitions[record.partition]
            newest = self._newest.setdefault((record.topic, record.partition), {})
            replaced = newest.get(record.key, record.offset)
            newest[record.key] = record.offset
            horizon = record.offset - self._kept
            if replaced < horizon:
                entries[replaced] = replace(entries[replaced], record=None)
            # a marker follows each record
            for offset in range(max(horizon - 2, 0), horizon):
                existing = entries[offset].record
                if existing is not None and newest.get(existing.key, offset) != offset:
                    entries[offset] = replace(entries[offset], record=None)

    def take_over(self, transactional_id: str) -> int:
        """Fences the id's writers; returns the epoch of its next one. Call only while holding
        `changed`."""
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        for transaction in list(self._open):
            if transaction.transactional_id == transactional_id:
                self.end(transaction, commit=False)
        return self._epochs[transactional_id]


class MemoryLogWriter:
    """Implements LogWriter."""

    def __init__(self, logs: MemoryLogs, transactional_id: str, epoch: int) -> None:
        self._logs = logs
        self._id = transactional_id
        self._epoch = epoch
        self._closed = False
        self._fenced = False

    @property
    def usable(self) -> bool:
        return not (self._closed or self._fenced)

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        if self._closed:
            raise WriteFailed(Diagnostic("write.writer-ended", "This writer has ended", self._id))
        if not records:
            return ()
        with self._logs.changed:
            if self._logs.epoch(self._id) != self._epoch:
                self._fenced = True
                raise Fenced(Diagnostic("write.fenced", "A newer writer has taken over", self._id))
            try:
                transaction, appended = self._logs.append(self._id, records)
            except Failed as error:
                raise WriteFailed(*error.diagnostics) from None
            self._logs.end(transaction, commit=True)
            self._logs.compact(appended)
            return appended

    def close(self) -> None:
        self._closed = True


class MemoryBackgroundWriter:
    """Implements BackgroundWriter; what it takes is written at once."""

    problem: str | None = None

    def __init__(self, logs: MemoryLogs) -> None:
        self._logs = logs

    def write(self, records: Sequence[NewRecord]) -> None:
        with self._logs.changed:
            self._logs.append_plain(records)

    def flush(self, timeout_s: float) -> bool:
        return self.problem is None

    def drop(self) -> None:
        """Gives up nothing: everything is written."""

    def close(self) -> None:
        """Closes nothing."""


class MemoryLogReader:
    """Implements LogReader."""

    led_anew = False

    def __init__(self, topic: str, partitions: Sequence[list[_Entry]], changed: Condition) -> None:
        self._topic = topic
        self._partitions = partitions
        self._changed = changed
        self._next = [0] * len(partitions)
        self.left_out: dict[tuple[str, int], str] = {}

    @property
    def positions(self) -> Mapping[int, int]:
        return dict(enumerate(self._next))

    def poll(self) -> Sequence[LogRecord]:
        with self._changed:
            return self._taken()

    def read_to_end(self, timeout_s: float) -> Sequence[LogRecord]:
        with self._changed:
            ends = {number: len(entries) for number, entries in enumerate(self._partitions)}
            return self._read_until(ends, timeout_s)

    def read_available(self, timeout_s: float) -> Sequence[LogRecord]:
        try:
            self.left_out = {}
            return self.read_to_end(min(timeout_s, _STALLED_S))
        except LogBlocked as blocked:
            self.left_out = {(self._topic, 0): str(blocked)}
            return self.poll()

    def read_through(self, partition: int, offset: int, timeout_s: float) -> Sequence[LogRecord]:
        with self._changed:
            return self._read_until({partition: offset + 1}, timeout_s)

    def close(self) -> None:
        """Closes nothing."""

    def _read_until(self, ends: Mapping[int, int], timeout_s: float) -> list[LogRecord]:
        def behind() -> list[int]:
            return [number for number, end in ends.items() if self._stable_end(number) < end]

        if not self._changed.wait_for(lambda: not behind(), timeout_s):
            number = behind()[0]
            raise LogBlocked(
                Diagnostic(
                    "topic.blocked",
                    "A transaction that is still open hides the records from offset "
                    f"{self._stable_end(number)} on",
                    f"{self._topic}-{number}",
                )
            )
        return self._taken()

    def _stable_end(self, number: int) -> int:
        """Returns the first offset that an open transaction holds, or the end."""
        entries = self._partitions[number]
        for offset in range(self._next[number], len(entries)):
            if entries[offset].transaction.fate is _Fate.OPEN:
                return offset
        return len(entries)

    def _taken(self) -> list[LogRecord]:
        records: list[LogRecord] = []
        for number, entries in enumerate(self._partitions):
            end = self._stable_end(number)
            records += [
                entry.record
                for entry in entries[self._next[number] : end]
                if entry.record is not None and entry.transaction.fate is _Fate.COMMITTED
            ]
            self._next[number] = end
        return records
