"""Layers a source's own offsets topic over the worker's (KIP-618, smooth migration).

An offset in the connector's topic wins; a partition that it lacks is looked up in the worker's. So
a removal needs a tombstone in both. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import offset_records
from connect_runtime.storage.snapshots import OffsetSnapshot, SourceOffset
from connect_specs.desired import JsonScalar
from connect_specs.partitions import partition_key

Entries = Iterable[tuple[Mapping[str, JsonScalar | bytes], Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class OffsetWrites:
    """The records of an offset change, in write order: `removed`, tombstones in the worker's topic,
    which must succeed; `own`, everything in the connector's topic; `copies`, the rest in the
    worker's topic, which may fail. Without a topic of its own there is only `own`."""

    removed: tuple[NewRecord, ...]
    own: tuple[NewRecord, ...]
    copies: tuple[NewRecord, ...]


@dataclass(frozen=True, slots=True)
class LayeredOffsets:
    """One connector's offsets. `underneath` names the worker's topic; None: `topic` is the only
    one."""

    connector: str
    topic: str
    own: OffsetSnapshot
    underneath: str | None = None
    below: OffsetSnapshot = field(default_factory=OffsetSnapshot)

    @property
    def merged(self) -> OffsetSnapshot:
        """Returns the offsets that the connector and its tasks see."""
        if self.underneath is None:
            return self.own
        return _over(self.own, self.below, self.connector)

    @property
    def copied(self) -> OffsetSnapshot:
        """Returns the same partitions, with the worker topic's keys where it has them."""
        return _over(self.below, self.own, self.connector)

    def writes(self, entries: Entries) -> OffsetWrites:
        """Sets the offset of each partition, or removes it if it is None.

        A partition keeps its key bytes, in either topic. Raises Failed with Connect's text for maps
        that it could not hold.
        """
        found = list(entries)
        if self.underneath is None:
            return OffsetWrites((), offset_records(self.topic, self.connector, found, self.own), ())
        below = offset_records(self.underneath, self.connector, found, self.copied)
        return OffsetWrites(
            removed=tuple(each for each in below if each.value is None),
            own=offset_records(self.topic, self.connector, found, self.merged),
            copies=tuple(each for each in below if each.value is not None),
        )


def _over(upper: OffsetSnapshot, lower: OffsetSnapshot, connector: str) -> OffsetSnapshot:
    """Returns the connector's offsets: those of `upper`, and from `lower` the partitions that it
    lacks."""
    first = upper.connectors.get(connector, {})
    hidden = {partition_key(each.partition) for each in first.values()}
    shown: dict[bytes, SourceOffset] = {
        key: each
        for key, each in lower.connectors.get(connector, {}).items()
        if partition_key(each.partition) not in hidden
    }
    shown |= first
    return OffsetSnapshot({connector: shown} if shown else {})
