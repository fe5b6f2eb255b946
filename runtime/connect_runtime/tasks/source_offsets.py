"""Where a source stands: read once before the task starts, written in each transaction.

A partition that has a record is written under that record's own key bytes, since Connect compares
keys byte by byte; a new one under the bytes that Connect would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from connect_runtime.api import SourceOffset, SourcePartition
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import check_map, offset_of, partition_keys
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.java_map import offset_key_bytes, offset_value_bytes
from connect_specs.offsets import canonical_partition


class SourceOffsets:
    """The offsets of one connector as its task sees them: an `OffsetStorageReader`."""

    def __init__(self, connector: str, topic: str, snapshot: OffsetSnapshot) -> None:
        self._connector = connector
        self._topic = topic
        self._snapshot = snapshot
        self._keys = partition_keys(snapshot, connector)

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """The offset that was committed last before this task started."""
        check_map(partition)
        return offset_of(self._snapshot, self._connector, partition)

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The same for several partitions."""
        return [self.offset(partition) for partition in partitions]

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

    def _keys_of(self, partition: Any, offset: Any) -> tuple[bytes, ...]:
        check_map(partition)
        check_map(offset)
        canonical = canonical_partition(partition)
        if canonical not in self._keys:
            self._keys[canonical] = (offset_key_bytes(self._connector, partition),)
        return self._keys[canonical]
