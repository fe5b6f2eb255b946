"""Which offsets do connectors have?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind, LedgerState, TopicPartition
from connect_reconciler.plan.offsets.positions import sink_topics
from connect_reconciler.plan.reserved import without_reserved
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Project
from connect_specs.names import sink_group
from connect_specs.offsets import canonical_partition

# Not, for one, a variable that only a worker fills in.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


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
    named = {*desired.connectors, *(spec.renamed_from for spec in desired.connectors.values())}
    for name, state in live.connectors.items():
        owned = ledger.connectors.get(name)
        ours = name in named or (owned and owned.project == desired.project)
        if ours and live_kinds[name] == "sink":
            found[name] = sink_group(name, state.config, project.worker)
    for name, spec in desired.connectors.items():
        if name not in live.connectors and kind_of(spec.config, None, kinds) == "sink":
            found[name] = sink_group(name, _created(spec, live), project.worker)
    return found


def _created(spec: DesiredConnector, live: ConfigSnapshot) -> Mapping[str, str]:
    """The config that it is created with: what the spec ignores comes from its old name."""
    old = live.connectors.get(spec.renamed_from or spec.name)
    return written_config(spec, None if old is None else without_reserved(old.config))


def new_groups(
    project: Project,
    desired: Desired,
    live: ConfigSnapshot,
    groups: Mapping[str, str],
    kinds: Mapping[str, Kind],
) -> dict[str, str]:
    """The consumer group of every live connector whose spec has it read with another one."""
    found: dict[str, str] = {}
    for name in desired.connectors.keys() & live.connectors.keys():
        written = _written(name, desired, live)
        group = sink_group(name, written, project.worker)
        elsewhere = "consumer.override.bootstrap.servers" in written
        if kind_of(written, None, kinds) == "sink" and group != groups.get(name) and not elsewhere:
            found[name] = group
    return found


def left_as_source(
    desired: Desired,
    live: ConfigSnapshot,
    groups: Mapping[str, str],
    kinds: Mapping[str, Kind],
    stored: OffsetSnapshot,
) -> dict[str, tuple[OffsetEntry, ...]]:
    """What sinks that are to become sources left when they were sources before."""
    return {
        name: _source_offsets(stored, name)
        for name in desired.connectors.keys() & live.connectors.keys() & stored.connectors.keys()
        if name in groups and kind_of(_written(name, desired, live), None, kinds) == "source"
    }


def _written(name: str, desired: Desired, live: ConfigSnapshot) -> Mapping[str, str]:
    config = live.connectors[name].config
    return written_config(desired.connectors[name], without_reserved(config))


def topics_of_sinks(
    groups: Iterable[str], desired: Desired, live: ConfigSnapshot
) -> tuple[str, ...]:
    """The topics that these sinks name, in what they run with and in their specs."""
    configs = [live.connectors[name].config for name in groups if name in live.connectors]
    configs += [desired.connectors[name].config for name in groups if name in desired.connectors]
    named = {topic for config in configs for topic in sink_topics(config, ())}
    return tuple(sorted(topic for topic in named if _TOPIC_NAME.fullmatch(topic)))


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
        offsets[name] = group_entries(committed.get(group, {}))
    return offsets


def group_entries(committed: Mapping[TopicPartition, int]) -> tuple[OffsetEntry, ...]:
    """What a group has committed, as entries of offsets."""
    return tuple(
        OffsetEntry({"kafka_topic": topic, "kafka_partition": number}, {"kafka_offset": at})
        for (topic, number), at in sorted(committed.items())
    )


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
