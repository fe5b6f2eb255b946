"""Tracks a source's offsets: read before the task starts, written in each commit.

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
    check_map,
    offset_of,
    partition_keys,
    source_partition_key,
)
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.java_map import offset_key_bytes, offset_value_bytes
from connect_specs.partitions import PartitionKey


class TaskOffsets:
    """The offsets of one connector as its task sees them: an `OffsetStorageReader`.

    They are the offsets committed before the task started and by it since; never offsets that are
    only sent.
    """

    def __init__(self, connector: str, topic: str, snapshot: OffsetSnapshot) -> None:
        self._connector = connector
        self._topic = topic
        self._snapshot = snapshot
        self._keys = partition_keys(snapshot, connector)
        self._committed: dict[bytes, bytes | None] = {}

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Returns the last committed offset."""
        check_map(partition)
        own = offset_key_bytes(self._connector, partition)
        for key in (own, *self._keys.get(self.key(partition), ())):
            if key in self._committed:
                value = self._committed[key]
                return None if value is None else orjson.loads(value)
        return offset_of(self._snapshot, self._connector, partition)

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Returns the last committed offsets of several partitions."""
        return [self.offset(partition) for partition in partitions]

    def key(self, partition: SourcePartition) -> PartitionKey:
        """Returns the key that equal partitions share. Raises with Connect's text for invalid
        partitions."""
        check_map(partition)
        return source_partition_key(partition)

    def records(
        self, offsets: Iterable[tuple[SourcePartition, SourceOffset | None]]
    ) -> list[NewRecord]:
        """Returns the records to write; None removes an offset. Raises with Connect's text for
        invalid offset maps."""
        return [
            NewRecord(self._topic, key, offset_value_bytes(offset))
            for partition, offset in offsets
            for key in self._keys_of(partition, offset)
        ]

    def committed(self, records: Iterable[NewRecord]) -> None:
        """Applies records that are now committed."""
        for record in records:
            self._committed[record.key] = record.value

    def _keys_of(self, partition: Any, offset: Any) -> tuple[bytes, ...]:
        check_map(offset)
        key = self.key(partition)
        if key not in self._keys:
            self._keys[key] = (offset_key_bytes(self._connector, partition),)
        return self._keys[key]
