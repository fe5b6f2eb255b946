"""How many records is a sink behind? From its committed offsets and the ends of their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from connect_reconciler.cluster.port import Cluster
from connect_reconciler.plan.live import LogRange, TopicPartition
from connect_reconciler.plan.offset_moves import sink_offset, sink_partition
from connect_specs.diagnostics import ConnectError

LogRanges = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, LogRange]]


def lag_of(cluster: Cluster, log_ranges: LogRanges) -> Callable[[str], int | None]:
    """Tells a sink's lag; None where it has committed nothing, or nobody says."""

    def lag(name: str) -> int | None:
        try:
            committed = {
                at: offset
                for entry in cluster.offsets(name)
                if (at := sink_partition(entry.partition)) is not None
                and (offset := sink_offset(entry.offset)) is not None
            }
            logs = log_ranges(committed)
        except ConnectError:
            return None
        behind = [logs[at].latest - offset for at, offset in committed.items() if at in logs]
        return sum(max(0, each) for each in behind) if behind else None

    return lag
