"""Reads a topic to its end for tasks that start or wake up, and keeps what it has read.

An answer holds all that was committed before the task asked: the topic's end is asked for after
that. Kept are the newest records of each key, tombstones included, without those that change
nothing; they take some 400 bytes each until nobody has asked for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.log_reader import KafkaLogReader
from connect_runtime.node.door import ReadAssignment, ReadOffsets
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.served_messages import records_line
from connect_specs.diagnostics import Unreachable

# A transaction that hides the end for longer, or a silent Kafka, are for each task to report
_SILENCE_S: Final = 5.0

Read: TypeAlias = ReadAssignment | ReadOffsets


def changed_task(record: LogRecord) -> str | None:
    """Returns whom a record of the assignments topic is for."""
    return None if record.key is None else record.key.decode(errors="replace")


class Reads:
    """Implements Answers, of one topic. `owner` returns the reader of a record, or None."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], owner: Callable[[LogRecord], str | None]
    ) -> None:
        self._topic = topic
        self._owner = owner
        self._logs = KafkaLogs(properties)
        self._identity: object = None
        self._reader: KafkaLogReader | None = None
        self._held: dict[str, dict[bytes, LogRecord]] = {}

    def of(self, requests: Sequence[Read]) -> Iterable[bytes]:
        self._catch_up()
        return (
            records_line(list(self._held.get(_owner_of(request), {}).values()))
            for request in requests
        )

    def close(self) -> None:
        self._logs.close()

    def _catch_up(self) -> None:
        identity = self._logs.identity(self._topic)
        if identity != self._identity:
            # made anew, where offsets mean other records, or with more partitions
            self._forget()
        self._identity = identity
        while True:
            if self._reader is None:
                self._reader = self._logs.reader(self._topic)
            self._read_to_end(self._reader)
            if not self._reader.led_anew:
                return
            self._forget()

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._held.clear()

    def _read_to_end(self, reader: KafkaLogReader) -> None:
        while True:
            try:
                self._hold(reader.read_to_end(_SILENCE_S))
                return
            except Unreachable:
                arrived = reader.poll()
                self._hold(arrived)
                if not arrived:
                    raise

    def _hold(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            owner = self._owner(record)
            if owner is not None and record.key is not None:
                newest = self._held.setdefault(owner, {})
                newest.pop(record.key, None)  # in the order of the last writes
                newest[record.key] = record


def _owner_of(request: Read) -> str:
    match request:
        case ReadAssignment(key=key):
            return key
        case ReadOffsets(connector=connector):
            return connector
