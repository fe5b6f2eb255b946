"""Tracks a sink task's delivered and committed offsets, and its rewinds.

Pure bookkeeping per partition. A rewind is asked for by the task or follows a failed flush; it
waits until the task can be given other records, and until then nothing beyond it is committed. At
most one commit is in flight; it is remembered until Kafka answers or it times out. Nothing is
committed twice, and nothing beyond what was delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import ConnectorError, SinkBatch, TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadBatch:
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
        records = (
            r for r in self.records if (r.original_topic, r.original_partition) not in partitions
        )
        return PutBatch(
            SinkBatch.of(list(records)),
            {p: o for p, o in self.positions.items() if p not in partitions},
        )

    def then(self, later: PutBatch) -> PutBatch:
        """Returns this batch followed by a later one."""
        if not later.positions:
            return self
        return PutBatch(
            SinkBatch.of([*self.records, *later.records]), {**self.positions, **later.positions}
        )


class SinkOffsets:
    """The next offsets to read, of the partitions that a task has.

    Each partition has a base: the committed offset or, until the first commit, where the task
    started reading. A rewind goes to the base, and the base is never committed again.
    """

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()
        self._delivered: dict[TopicPartition, int] = {}
        self._base: dict[TopicPartition, int] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._rewinds: dict[TopicPartition, int] = {}
        self._sent_s = 0.0
        # The offsets that a task which keeps them itself has flushed. None: it lets some be
        # committed.
        self._stored_by_task: dict[TopicPartition, int] | None = {}

    def gain(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds assigned partitions, and where each starts."""
        self.assigned.update(starts)
        self._delivered.update(starts)
        self._base.update(starts)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Removes revoked partitions."""
        for partition in partitions:
            self.assigned.discard(partition)
            for offsets in (self._delivered, self._base, self._in_flight, self._rewinds):
                offsets.pop(partition, None)

    def deliver(self, positions: Mapping[TopicPartition, int]) -> None:
        """Sets the next offsets after a batch was put."""
        self._delivered.update(self._ours(positions))

    def base(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns where a rewind of these partitions goes."""
        return {p: self._base[p] for p in of if p in self._base}

    def current(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the next offset after what was delivered, for these partitions; no further than
        where a rewind goes."""
        delivered = {p: self._delivered[p] for p in of if p in self._delivered}
        return {p: min(offset, self._rewinds.get(p, offset)) for p, offset in delivered.items()}

    # rewinds

    def request_rewinds(self, rewinds: Mapping[TopicPartition, int]) -> None:
        """Notes offsets that the task wants to read from, also of partitions that it gets later.
        Raises ConnectorError for negative offsets, which mean the ends of partitions to Kafka's
        client."""
        for partition, offset in rewinds.items():
            if offset < 0:
                raise ConnectorError(
                    f"seek offset must not be a negative number: {offset} of {partition}"
                )
        self._rewinds.update(rewinds)

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Rewinds partitions to their bases, or further back if the task asked for it."""
        for partition, base in self.base(partitions).items():
            self._rewinds[partition] = min(base, self._rewinds.get(partition, base))

    def take_rewinds(self, of: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Removes and returns the rewinds of these partitions, and moves their positions there."""
        rewinds = {p: offset for p, offset in self._rewinds.items() if p in of}
        for partition in rewinds:
            del self._rewinds[partition]
        self._move(rewinds)
        return rewinds

    def forget_rewinds(self) -> None:
        """Drops rewinds of partitions that the task does not have."""
        self._rewinds.clear()

    def _move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets where reading continues.

        These offsets become the base, unless something put after the base is not committed: then
        the base only moves back. A commit in flight no longer counts: its answer would move the
        base past redelivered records.
        """
        for partition, offset in self._ours(offsets).items():
            base = self._base[partition]
            if self._delivered[partition] != base:
                base = min(base, offset)
            else:
                base = offset
            self._base[partition], self._delivered[partition] = base, offset
            self._in_flight.pop(partition, None)

    def committable(
        self, current: Mapping[TopicPartition, int], allowed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Returns the offsets to commit, from what the task's `pre_commit` allowed."""
        committable = {}
        for partition, offset in allowed.items():
            if partition not in self.assigned:
                _log.warning("Offset of %s is ignored: the partition is not assigned", partition)
            elif offset < 0:
                _log.warning("Offset %d of %s is ignored: it is negative", offset, partition)
            elif offset > current.get(partition, -1):
                _log.warning("Offset %d of %s is ignored: not delivered yet", offset, partition)
            elif offset != self._base.get(partition):
                committable[partition] = offset
        return committable

    def flushed(
        self, current: Mapping[TopicPartition, int], allowed: Mapping[TopicPartition, int]
    ) -> None:
        """Notes that the task flushed these offsets, and which it allows to commit. If it never
        allows any, it keeps them itself."""
        if allowed:
            self._stored_by_task = None
        elif self._stored_by_task is not None:
            self._stored_by_task.update(current)

    @property
    def uncommitted(self) -> int:
        """Returns how many offsets were delivered after the bases, or after what the task keeps."""
        stored = self._stored_by_task or {}
        return sum(
            max(0, delivered - max(self._base[partition], stored.get(partition, 0)))
            for partition, delivered in self._delivered.items()
        )

    # the commit in flight

    @property
    def in_flight(self) -> bool:
        """Returns True while a commit waits for its answer."""
        return bool(self._in_flight)

    def sent(self, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        """Records a sent commit; answers to earlier ones no longer count."""
        self._in_flight, self._sent_s = dict(offsets), now_s

    def answered(
        self, offsets: Mapping[TopicPartition, int], accepted: Collection[TopicPartition]
    ) -> None:
        """Handles Kafka's answer to the commit of `offsets`. Answers to earlier commits change
        nothing."""
        if self._in_flight.items() <= offsets.items():
            self._base.update((p, o) for p, o in self._in_flight.items() if p in accepted)
            self._in_flight = {}

    def waited_s(self, now_s: float) -> float:
        """Returns how long ago the newest commit was sent."""
        return now_s - self._sent_s

    def is_overdue(self, now_s: float, patience_s: float) -> bool:
        """Returns True once the commit in flight has timed out, and stops waiting for it."""
        overdue = self.in_flight and now_s - self._sent_s > patience_s
        if overdue:
            self._in_flight = {}
        return overdue

    def _ours(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {p: o for p, o in offsets.items() if p in self.assigned}
