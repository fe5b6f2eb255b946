"""Which offsets has a sink task been given, which may be committed, and which are?

Pure bookkeeping per partition; a commit in flight is remembered until Kafka answers or too much
time has passed. Nothing is committed twice, and nothing beyond what was delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from connect_runtime.api import TopicPartition

_log = logging.getLogger(__name__)


class SinkOffsets:
    """Next offsets to read, of the partitions that a task has."""

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()
        self.delivered: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}

    def gain(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Partitions that are now ours, and where each begins if that is known."""
        self.assigned.update(starts)
        for partition, start in starts.items():
            if start is not None:
                self.delivered[partition] = start
                self.committed[partition] = start

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are no longer ours."""
        for partition in partitions:
            self.assigned.discard(partition)
            self.delivered.pop(partition, None)
            self.committed.pop(partition, None)

    def deliver(self, positions: Mapping[TopicPartition, int]) -> None:
        """A batch was put: these are the next offsets."""
        self.delivered.update((p, o) for p, o in positions.items() if p in self.assigned)

    def rewind(self) -> dict[TopicPartition, int]:
        """Back to what was committed, everywhere; returns where to read on."""
        self.delivered.update(self.committed)
        return dict(self.committed)

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The task asked to be given records from these offsets."""
        self.delivered.update(offsets)

    def current(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What was delivered of these partitions."""
        return {p: self.delivered[p] for p in of if p in self.delivered}

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
            elif offset != self.committed.get(partition):
                wanted[partition] = offset
        return wanted

    def commit_done(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Kafka has these now."""
        self.committed.update((p, o) for p, o in offsets.items() if p in self.assigned)
