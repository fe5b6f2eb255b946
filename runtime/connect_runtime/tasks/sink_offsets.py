"""Which offsets has a sink task been given, which may be committed, and where does a rewind go?

Pure bookkeeping per partition. One commit is in flight at most; it is remembered until Kafka
answers or its time is over. Nothing is committed twice, and nothing beyond what was delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from connect_runtime.api import TopicPartition

_log = logging.getLogger(__name__)


class SinkOffsets:
    """Next offsets to read, of the partitions that a task has.

    Each partition has a base: what Kafka has as committed or, until the first commit, where the
    task started reading. A rewind goes to the base, and the base is never committed again.
    """

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()
        self._delivered: dict[TopicPartition, int] = {}
        self._base: dict[TopicPartition, int] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._sent_s = 0.0

    def gain(self, starts: Mapping[TopicPartition, int]) -> None:
        """Partitions that are now ours, and where each starts."""
        self.assigned.update(starts)
        self._delivered.update(starts)
        self._base.update(starts)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are no longer ours."""
        for partition in partitions:
            self.assigned.discard(partition)
            for offsets in (self._delivered, self._base, self._in_flight):
                offsets.pop(partition, None)

    def deliver(self, positions: Mapping[TopicPartition, int]) -> None:
        """A batch was put: these are the next offsets."""
        self._delivered.update(self._ours(positions))

    def base(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where a rewind of these partitions goes."""
        return {p: self._base[p] for p in of if p in self._base}

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reading goes on from these offsets.

        They become the base, unless something was put since the base that is not committed: then
        the base only moves back. A commit in flight no longer counts: its answer would move the
        base past what comes again.
        """
        for partition, offset in self._ours(offsets).items():
            base = self._base[partition]
            if self._delivered[partition] != base:
                base = min(base, offset)
            else:
                base = offset
            self._base[partition], self._delivered[partition] = base, offset
            self._in_flight.pop(partition, None)

    def current(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What was delivered of these partitions."""
        return {p: self._delivered[p] for p in of if p in self._delivered}

    def committable(
        self, current: Mapping[TopicPartition, int], allowed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Of what the task's `pre_commit` returned, what is worth committing."""
        wanted = {}
        for partition, offset in allowed.items():
            if partition not in self.assigned:
                _log.warning("Offset of %s is ignored: the partition is not assigned", partition)
            elif offset > current.get(partition, -1):
                _log.warning("Offset %d of %s is ignored: not delivered yet", offset, partition)
            elif offset != self._base.get(partition):
                wanted[partition] = offset
        return wanted

    # the commit in flight

    @property
    def in_flight(self) -> bool:
        """Whether a commit waits for its answer."""
        return bool(self._in_flight)

    def sent(self, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        """A commit was sent; answers to earlier ones no longer count."""
        self._in_flight, self._sent_s = dict(offsets), now_s

    def answered(
        self, asked: Mapping[TopicPartition, int], accepted: Collection[TopicPartition]
    ) -> None:
        """Kafka answered the commit of `asked`. Answers to earlier commits change nothing."""
        if self._in_flight.items() <= asked.items():
            self._base.update((p, o) for p, o in self._in_flight.items() if p in accepted)
            self._in_flight = {}

    def is_overdue(self, now_s: float, patience_s: float) -> bool:
        """Whether the commit in flight has waited too long; if so, it is waited for no longer."""
        overdue = self.in_flight and now_s - self._sent_s > patience_s
        if overdue:
            self._in_flight = {}
        return overdue

    def _ours(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {p: o for p, o in offsets.items() if p in self.assigned}
