"""Defines a sink's records as read, and as its task gets them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import SinkBatch, TopicPartition


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages as read, and each partition's next offset after them."""

    messages: list[Any]
    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class PutBatch:
    """Records to put, and each partition's next offset after what was read for them."""

    records: SinkBatch
    positions: Mapping[TopicPartition, int]

    def without(self, partitions: Collection[TopicPartition]) -> PutBatch:
        """Returns this batch without these partitions' records and positions."""
        kept = (
            r for r in self.records if (r.original_topic, r.original_partition) not in partitions
        )
        return PutBatch(
            SinkBatch.of(list(kept)),
            {p: o for p, o in self.positions.items() if p not in partitions},
        )

    def then(self, later: PutBatch) -> PutBatch:
        """Returns this batch followed by a later one."""
        if not later.positions:
            return self
        return PutBatch(
            SinkBatch.of([*self.records, *later.records]), {**self.positions, **later.positions}
        )
