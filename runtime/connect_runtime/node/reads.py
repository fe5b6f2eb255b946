"""Reads a topic to its end for tasks that start or wake up, and keeps what it has read.

An answer holds all that was committed before the task asked: the topic's end is asked for after
that. Kept are the newest records of each key, tombstones included; they take some 400 bytes each
until nobody has asked for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.log_reader import KafkaLogReader
from connect_runtime.node.door import ReadAssignment, ReadOffsets
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.offsets_topic import subject
from connect_runtime.storage.served_messages import records_line
from connect_specs.diagnostics import Unreachable

# A transaction that hides the end for longer, or a silent Kafka, are for each task to report
_SILENCE_S: Final = 5.0

Read: TypeAlias = ReadAssignment | ReadOffsets


def task_of(key: bytes) -> str | None:
    """Returns whom a record of the assignments topic is for."""
    return key.decode(errors="replace")


def connector_of(key: bytes) -> str | None:
    """Returns whom a record of the offsets topic is for; None if Connect never wrote it."""
    found = subject(key)
    return None if found is None else found[0]


class Reads:
    """Implements Answers, of one topic. `owner` says whom a key is for."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], owner: Callable[[bytes], str | None]
    ) -> None:
        self._topic = topic
        self._owner = owner
        self._logs = KafkaLogs(properties)
        self._identity: object = None
        self._reader: KafkaLogReader | None = None
        self._held: dict[str, dict[bytes, LogRecord]] = {}

    def of(self, requests: Sequence[Read]) -> Sequence[bytes]:
        self._catch_up()
        return [records_line(list(self._held.get(_wanted(each), {}).values())) for each in requests]

    def close(self) -> None:
        self._logs.close()

    def _catch_up(self) -> None:
        identity = self._logs.identity(self._topic)
        if self._reader is None or identity != self._identity:
            # made anew, where offsets mean other records, or with more partitions
            if self._reader is not None:
                self._reader.close()
            self._held.clear()
            self._reader, self._identity = self._logs.reader(self._topic), identity
        while True:
            try:
                self._hold(self._reader.read_to_end(_SILENCE_S))
                return
            except Unreachable:
                arrived = self._reader.poll()
                self._hold(arrived)
                if not arrived:
                    raise

    def _hold(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            owner = None if record.key is None else self._owner(record.key)
            if owner is not None and record.key is not None:
                held = self._held.setdefault(owner, {})
                held.pop(record.key, None)  # in the order of the last writes
                held[record.key] = record


def _wanted(read: Read) -> str:
    match read:
        case ReadAssignment(key=key):
            return key
        case ReadOffsets(connector=connector):
            return connector
