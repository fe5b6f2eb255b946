"""Where a source stands: read before the task starts, written in each commit.

A partition that has a record is written under that record's own key bytes, since Connect compares
keys byte by byte; a new one under the bytes that Connect would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from connect_runtime.api import SourceOffset, SourcePartition
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import (
    canonical_source_partition,
    check_map,
    offset_of,
    partition_keys,
)
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.java_map import offset_key_bytes, offset_value_bytes


class SourceOffsets:
    """The offsets of one connector as its task sees them: an `OffsetStorageReader`.

    What was committed before the task started, and what it has committed since; never what is only
    sent.
    """

    def __init__(self, connector: str, topic: str, snapshot: OffsetSnapshot) -> None:
        self._connector = connector
        self._topic = topic
        self._snapshot = snapshot
        self._keys = partition_keys(snapshot, connector)
        self._committed: dict[bytes, bytes | None] = {}

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """The offset that was committed last."""
        check_map(partition)
        own = offset_key_bytes(self._connector, partition)
        for key in (own, *self._keys.get(self.place(partition), ())):
            if key in self._committed:
                value = self._committed[key]
                return None if value is None else orjson.loads(value)
        return offset_of(self._snapshot, self._connector, partition)

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The same for several partitions."""
        return [self.offset(partition) for partition in partitions]

    def place(self, partition: SourcePartition) -> str:
        """One text for equal partitions. Raises with Connect's text for what is no partition."""
        check_map(partition)
        return canonical_source_partition(partition)

    def records(
        self, offsets: Iterable[tuple[SourcePartition, SourceOffset | None]]
    ) -> list[NewRecord]:
        """What to write; None removes an offset. Raises with Connect's text for what is no offset
        map."""
        return [
            NewRecord(self._topic, key, offset_value_bytes(offset))
            for partition, offset in offsets
            for key in self._keys_of(partition, offset)
        ]

    def committed(self, records: Iterable[NewRecord]) -> None:
        """These are in Kafka now."""
        for record in records:
            self._committed[record.key] = record.value

    def _keys_of(self, partition: Any, offset: Any) -> tuple[bytes, ...]:
        check_map(offset)
        place = self.place(partition)
        if place not in self._keys:
            self._keys[place] = (offset_key_bytes(self._connector, partition),)
        return self._keys[place]
