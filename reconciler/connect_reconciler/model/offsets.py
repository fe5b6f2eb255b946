"""The offsets of one connector by partition, with the one equality that every comparison uses.

A sink's partitions are those of topics, a source's are JSON objects of its own (KIP-875). A change
of offsets is a list of `OffsetEntry`, where `None` as the offset removes the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from connect_specs.desired import (
    JsonScalar,
    Offset,
    OffsetEntry,
    Partition,
    PartitionKey,
    is_sink_partition,
    partition_key,
)

TopicPartition: TypeAlias = tuple[str, int]


class Offsets:
    """The offset of each partition that has one, in the order given. Immutable.

    Two are equal if they have equal offsets for the same partitions, in whichever order.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[OffsetEntry] = ()) -> None:
        self._entries: Final = _changed({}, entries)

    def __iter__(self) -> Iterator[OffsetEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offsets):
            return NotImplemented
        return not self.differences(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Offsets({list(self)})"

    def __contains__(self, partition: Partition) -> bool:
        return partition_key(partition) in self._entries

    def entry(self, partition: Partition) -> OffsetEntry | None:
        """Returns the partition with its offset; None if it has none."""
        return self._entries.get(partition_key(partition))

    def at(self, partition: Partition) -> Offset | None:
        """Returns the partition's offset; None if it has none."""
        entry = self.entry(partition)
        return None if entry is None else entry.offset

    def differences(self, offsets: Offsets) -> frozenset[PartitionKey]:
        """Returns the partitions that do not have the same offset in both."""
        changed = [*offsets, *(entry for entry in self.removed() if entry.partition not in offsets)]
        partitions = (entry.partition for entry in changed if not self.hold((entry,)))
        return frozenset(map(partition_key, partitions))

    def after(self, changes: Iterable[OffsetEntry]) -> Offsets:
        """Returns the offsets once these changes are made."""
        changed = Offsets()
        changed._entries.update(_changed(self._entries, changes))
        return changed

    def hold(self, changes: Iterable[OffsetEntry]) -> bool:
        """Returns whether these changes would change nothing."""
        return all(same_offset(self.at(change.partition), change.offset) for change in changes)

    def removed(self) -> tuple[OffsetEntry, ...]:
        """Returns the changes that remove every offset."""
        return tuple(OffsetEntry(entry.partition, None) for entry in self)


def same_offset(first: Offset | None, second: Offset | None) -> bool:
    """Returns whether two offsets of a partition are equal: 1 and 1.0 are, 1 and true or "1" are
    not."""
    if first is None or second is None:
        return first is second
    return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)


def _equal(first: JsonScalar, second: JsonScalar) -> bool:
    return isinstance(first, bool) is isinstance(second, bool) and first == second


def _changed(
    entries: dict[PartitionKey, OffsetEntry], changes: Iterable[OffsetEntry]
) -> dict[PartitionKey, OffsetEntry]:
    changed = dict(entries)
    for change in changes:
        key = partition_key(change.partition)
        if change.offset is None:
            changed.pop(key, None)
        else:
            changed[key] = change
    return changed


def sink_partition(partition: Partition) -> TopicPartition | None:
    """Returns the topic's partition that a sink's entry names; None if it is of another shape."""
    if not is_sink_partition(partition):
        return None
    topic, number = partition["kafka_topic"], _integer(partition["kafka_partition"])
    return None if topic is None or number is None else (str(topic), number)


def sink_offset(offset: Offset | None) -> int | None:
    """Returns the number in a sink's offset."""
    return None if offset is None else _integer(offset.get("kafka_offset"))


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        return None
