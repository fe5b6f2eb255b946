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
        """The partition with its offset; None where it has none."""
        return self._entries.get(partition_key(partition))

    def at(self, partition: Partition) -> Offset | None:
        """The partition's offset; None where it has none."""
        entry = self.entry(partition)
        return None if entry is None else entry.offset

    def differences(self, other: Offsets) -> frozenset[PartitionKey]:
        """The partitions that do not have the same offset in both."""
        changed = [*other, *(each for each in self.removed() if each.partition not in other)]
        moved = (each.partition for each in changed if not self.hold((each,)))
        return frozenset(map(partition_key, moved))

    def after(self, changes: Iterable[OffsetEntry]) -> Offsets:
        """The offsets once these changes are made."""
        changed = Offsets()
        changed._entries.update(_changed(self._entries, changes))
        return changed

    def hold(self, changes: Iterable[OffsetEntry]) -> bool:
        """Whether these changes would change nothing."""
        return all(same_offset(self.at(each.partition), each.offset) for each in changes)

    def removed(self) -> tuple[OffsetEntry, ...]:
        """The changes that remove every offset."""
        return tuple(OffsetEntry(each.partition, None) for each in self)


def same_offset(one: Offset | None, other: Offset | None) -> bool:
    """Whether two offsets of a partition are equal: 1 and 1.0 are, 1 and true or "1" are not."""
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)


def _same(one: JsonScalar, other: JsonScalar) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _changed(
    entries: dict[PartitionKey, OffsetEntry], changes: Iterable[OffsetEntry]
) -> dict[PartitionKey, OffsetEntry]:
    found = dict(entries)
    for change in changes:
        key = partition_key(change.partition)
        if change.offset is None:
            found.pop(key, None)
        else:
            found[key] = change
    return found


def sink_partition(partition: Partition) -> TopicPartition | None:
    """The partition of a topic that a sink's entry names, or None if it is of another shape."""
    if not is_sink_partition(partition):
        return None
    topic, number = partition["kafka_topic"], _whole(partition["kafka_partition"])
    return None if topic is None or number is None else (str(topic), number)


def sink_offset(offset: Offset | None) -> int | None:
    """The number in a sink's offset."""
    return None if offset is None else _whole(offset.get("kafka_offset"))


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        return None
