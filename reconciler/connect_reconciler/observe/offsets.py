"""Which offsets do connectors have, and what must be known of the logs that they point into?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler.observe.kafka_view import Moment
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind, LedgerState, LogRange, TopicPartition
from connect_reconciler.plan.offset_moves import sink_offset, sink_partition
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import Desired, OffsetEntry, Project
from connect_specs.names import sink_group
from connect_specs.offsets import canonical_partition


def sink_groups(
    project: Project,
    desired: Desired,
    live: ConfigSnapshot,
    live_kinds: Mapping[str, Kind],
    kinds: Mapping[str, Kind],
    ledger: LedgerState,
) -> dict[str, str]:
    """The consumer group of every sink that a spec names or this project owns.

    Of one that does not exist yet too: a group can be left from before.
    """
    found: dict[str, str] = {}
    for name, state in live.connectors.items():
        owned = ledger.connectors.get(name)
        ours = name in desired.connectors or (owned and owned.project == desired.project)
        if ours and live_kinds[name] == "sink":
            found[name] = sink_group(name, state.config, project.worker)
    for name, spec in desired.connectors.items():
        if name not in live.connectors and kind_of(spec.config, None, kinds) == "sink":
            found[name] = sink_group(name, spec.config, project.worker)
    return found


def offsets_of(
    stored: OffsetSnapshot,
    kinds: Mapping[str, Kind],
    groups: Mapping[str, str],
    committed: Mapping[str, Mapping[TopicPartition, int]],
) -> dict[str, tuple[OffsetEntry, ...]]:
    """By connector; also those that a deleted connector left behind."""
    offsets: dict[str, tuple[OffsetEntry, ...]] = {}
    for name in stored.connectors:
        if kinds.get(name, "source") != "sink" and name not in groups:
            offsets[name] = _source_offsets(stored, name)
    for name, group in groups.items():
        offsets[name] = tuple(
            OffsetEntry({"kafka_topic": topic, "kafka_partition": number}, {"kafka_offset": at})
            for (topic, number), at in sorted(committed.get(group, {}).items())
        )
    return offsets


def _source_offsets(snapshot: OffsetSnapshot, name: str) -> tuple[OffsetEntry, ...]:
    """One entry a partition, also where records exist under several orders of its fields."""
    partitions = {
        canonical_partition(each.partition): each.partition
        for each in snapshot.connectors[name].values()
    }
    return tuple(
        OffsetEntry(partition, offsets_topic.offset_of(snapshot, name, partition))
        for _, partition in sorted(partitions.items())
    )


def named_partitions(
    desired: Desired, offsets: Mapping[str, tuple[OffsetEntry, ...]]
) -> set[TopicPartition]:
    """Topic partitions in sinks' offsets and in pins."""
    entries = [entry for each in offsets.values() for entry in each]
    for spec in desired.connectors.values():
        if spec.pin is not None:
            entries.extend(spec.pin.set)
    found = (sink_partition(entry.partition) for entry in entries)
    return {at for at in found if at is not None}


def moments_of(
    desired: Desired,
    ledger: LedgerState,
    offsets: Mapping[str, tuple[OffsetEntry, ...]],
    logs: Mapping[TopicPartition, LogRange],
) -> Iterator[Moment]:
    """The records between which a pin that is still to be applied moves a sink."""
    for name, spec in desired.connectors.items():
        if spec.pin is None or (name, spec.pin.id) in ledger.pins:
            continue
        for entry in (*spec.pin.set, *offsets.get(name, ())):
            at, offset = sink_partition(entry.partition), sink_offset(entry.offset)
            log = logs.get(at) if at is not None else None
            if at is None or log is None or offset is None:
                continue
            first = max(offset, log.earliest)
            if first < log.latest:
                yield (*at, first)
