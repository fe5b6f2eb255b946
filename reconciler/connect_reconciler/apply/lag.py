"""How far is a sink behind, and does it fall further behind?

Offsets are committed now and then, so that a sink which keeps up seems to stand still in between.
What counts is whether it gets as far as its logs reached at first, and only where it does not, how
many records it is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.readback import ReadBack
from connect_reconciler.observe.kafka_view import View
from connect_reconciler.plan.consequences.setting import sink_start
from connect_reconciler.plan.live import TopicPartition
from connect_reconciler.plan.offsets.moves import sink_offset, sink_partition
from connect_reconciler.plan.offsets.positions import sink_partitions


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a sink is in one partition: the first offset that it has not committed to have
    delivered, and the log's end."""

    at: int
    end: int

    @property
    def behind(self) -> int:
        """Records, or markers of transactions, which nobody can commit past."""
        return max(0, self.end - self.at)


Standings: TypeAlias = Mapping[TopicPartition, Standing]


def growth(first: Standings, now: Standings) -> str:
    """How the lag grew, in words; empty if it did not.

    Only the partitions count whose logs the sink has not read as far as they reached at first: one
    that is stuck is not hidden by others, and one whose turn has not come yet is no alarm while
    others catch up.
    """
    left = [at for at, then in first.items() if at in now and now[at].at < then.end]
    before, after = (sum(each[at].behind for at in left) for each in (first, now))
    if after <= before:
        return ""
    worst = max(left, key=lambda at: now[at].behind)
    where = f"most of it in {worst[0]}-{worst[1]}" if len(left) > 1 else f"{worst[0]}-{worst[1]}"
    stands = all(first[at].at == now[at].at for at in left)
    commits = "it commits nothing" if stands else "it commits less than is written"
    return f"lag grows: {before:,} → {after:,} records ({where}); {commits}"


def standings_of(
    cluster: Cluster,
    view_of: Callable[[str, Mapping[str, str]], View],
    read_back: ReadBack,
    worker: Mapping[str, str],
) -> Callable[[str], Standings]:
    """Tells a sink's standings, as far as partitions exist. `view_of` leads to the Kafka cluster
    that a sink reads, by its name and config. Raises ConnectError.

    In a partition without an offset a sink begins at the log's start, or it is left out where it
    begins elsewhere: only its tasks know where that was.
    """

    def standings(name: str) -> Standings:
        committed = {
            at: offset
            for entry in cluster.offsets(name)
            if (at := sink_partition(entry.partition)) is not None
            and (offset := sink_offset(entry.offset)) is not None
        }
        found = read_back(name)
        config = {} if found is None else found.config
        view = view_of(name, config)
        reads = set(committed)
        if sink_start(config, worker) == "earliest":
            reads |= sink_partitions(config, view.topics())
        # What was deleted by age cannot be read any more
        return {
            at: Standing(max(committed.get(at, 0), log.earliest), log.latest)
            for at, log in view.log_ranges(reads).items()
        }

    return standings
