"""What does the cluster hold now? One frozen value, read once; nothing is created or changed.

Config, status, offsets and ledger topics are read to their ends side by side, then the consumer
groups and logs that they and the specs name. Nothing else on the way to a plan reads a clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from connect_reconciler.kafka_view import KafkaView, Moment, View, fingerprint_key_given
from connect_reconciler.ledger.topic import LedgerSnapshot, with_fingerprint_key
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import (
    Kind,
    LedgerState,
    Live,
    LiveConnector,
    LogRange,
    TopicPartition,
)
from connect_reconciler.plan.offset_moves import sink_offset, sink_partition
from connect_reconciler.validity import check_configs, warn_of_configs
from connect_runtime import plugins
from connect_runtime.api import ConnectorError
from connect_runtime.api.configdef import ConfigType
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    OffsetSnapshot,
    StatusSnapshot,
)
from connect_runtime.worker_config import from_project
from connect_specs.desired import Desired, OffsetEntry, Project
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.names import ClusterTopics, sink_group
from connect_specs.offsets import canonical_partition


@dataclass(frozen=True, slots=True)
class _Topics:
    """The four topics, read to their ends."""

    config: ConfigSnapshot
    status: StatusSnapshot
    offsets: OffsetSnapshot
    ledger: LedgerSnapshot


def observe(project: Project, desired: Desired, client: Mapping[str, str]) -> Live:
    """The cluster as it is now. `client` holds Kafka client properties under Java's names.

    Raises Unreachable within 10 s, LogBlocked where an open transaction hides records.
    """
    if project.target is not None and not client:
        what = "a Connect cluster can be planned for only where its Kafka can be reached"
        hint = "add cluster.kafka with its bootstrap.servers"
        raise Invalid(Diagnostic("project.kafka-needed", what, str(project.file), hint=hint))
    live = observe_view(
        project,
        desired,
        KafkaView(client),
        now_ms=lambda: time.time_ns() // 1_000_000,
        fingerprint_key=fingerprint_key_given(),
    )
    if project.target is not None:
        return live
    worker, _ = from_project(project, client["bootstrap.servers"])
    configs = {name: connector.config for name, connector in live.connectors.items()}
    return replace(
        live,
        errors=tuple(check_configs(desired, configs, live.kinds, worker)),
        warnings=tuple(warn_of_configs(desired, configs)),
    )


def observe_view(
    project: Project,
    desired: Desired,
    view: View,
    *,
    now_ms: Callable[[], int],
    fingerprint_key: bytes | None,
) -> Live:
    """The same over any view. `fingerprint_key` wins over the ledger's."""
    cluster_id = view.cluster_id()
    found = _read_topics(project.topics, view)
    ledger = with_fingerprint_key(found.ledger, fingerprint_key).state
    kinds = _kinds(found.config.connectors.values(), desired)
    live_kinds = {
        name: _live_kind(state, kinds, found.offsets)
        for name, state in found.config.connectors.items()
    }
    groups = _groups(project, desired, found.config, live_kinds, kinds, ledger)
    committed = view.group_offsets(set(groups.values())) if groups else {}
    offsets = _offsets(found, live_kinds, groups, committed)
    named = _named_partitions(desired, offsets)
    logs = view.log_ranges(named) if named else {}
    moments = set(_moments(desired, ledger, offsets, logs))
    task_states = _task_states(found.status)
    return Live(
        connectors={
            name: LiveConnector(
                name=name,
                kind=live_kinds[name],
                config=state.config,
                target=state.target,
                offsets=offsets.get(name, ()),
                state=_state(found.status, name),
                task_states=task_states.get(name, ()),
            )
            for name, state in sorted(found.config.connectors.items())
        },
        ledger=ledger,
        logs=logs,
        orphan_offsets={
            name: entries
            for name, entries in sorted(offsets.items())
            if name not in found.config.connectors and entries
        },
        now_ms=now_ms(),
        cluster_id=cluster_id,
        kinds=kinds,
        password_keys=_password_keys(found.config.connectors, desired),
        record_times=view.record_times(moments) if moments else {},
    )


def _read_topics(topics: ClusterTopics, view: View) -> _Topics:
    names = (topics.config, topics.status, topics.offsets, topics.ledger)
    with ThreadPoolExecutor(len(names), thread_name_prefix="observe") as pool:
        config, status, offsets, ledger = pool.map(view.records, names)
    return _Topics(
        config=config_topic.reduce_all(ConfigSnapshot(), config),
        status=status_topic.reduce_all(StatusSnapshot(), status),
        offsets=offsets_topic.reduce_all(OffsetSnapshot(), offsets),
        ledger=reduce_ledger(LedgerSnapshot(), ledger),
    )


# --- kinds and classes ---


def _kinds(live: Iterable[ConnectorState], desired: Desired) -> dict[str, Kind]:
    """By class as specs and configs write it, for those that are installed here."""
    configs = [state.config for state in live]
    configs += [spec.config for spec in desired.connectors.values()]
    found: dict[str, Kind] = {}
    for name in {config.get("connector.class", "") for config in configs} - {""}:
        plugin = _plugin(name)
        if plugin is not None and plugin.kind != "converter":
            found[name] = plugin.kind
    return found


def _plugin(class_name: str) -> plugins.Plugin | None:
    try:
        return plugins.connector(class_name)
    except ConnectorError:
        return None


def _live_kind(state: ConnectorState, kinds: Mapping[str, Kind], stored: OffsetSnapshot) -> Kind:
    told = kind_of(state.config, None, kinds)
    if told != "unknown":
        return told
    if state.name in stored.connectors:
        return "source"
    return "sink" if "topics" in state.config else "unknown"


def _password_keys(
    live: Mapping[str, ConnectorState], desired: Desired
) -> dict[str, frozenset[str]]:
    """The keys whose type is PASSWORD in the class that is there or that the spec asks for."""
    found: dict[str, frozenset[str]] = {}
    for name in live.keys() | desired.connectors.keys():
        classes = set()
        if name in live:
            classes.add(live[name].config.get("connector.class", ""))
        if name in desired.connectors:
            classes.add(desired.connectors[name].config.get("connector.class", ""))
        keys = frozenset(key for each in classes - {""} for key in _passwords(each))
        if keys:
            found[name] = keys
    return found


def _passwords(class_name: str) -> Iterator[str]:
    plugin = _plugin(class_name)
    if plugin is not None:
        for key, definition in plugin.cls().config().keys.items():
            if definition.type is ConfigType.PASSWORD:
                yield key


# --- offsets ---


def _groups(
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


def _offsets(
    found: _Topics,
    kinds: Mapping[str, Kind],
    groups: Mapping[str, str],
    committed: Mapping[str, Mapping[TopicPartition, int]],
) -> dict[str, tuple[OffsetEntry, ...]]:
    """By connector; also those that a deleted connector left behind."""
    offsets: dict[str, tuple[OffsetEntry, ...]] = {}
    for name in found.offsets.connectors:
        if kinds.get(name, "source") != "sink" and name not in groups:
            offsets[name] = _source_offsets(found.offsets, name)
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


def _named_partitions(
    desired: Desired, offsets: Mapping[str, tuple[OffsetEntry, ...]]
) -> set[TopicPartition]:
    """Topic partitions in sinks' offsets and in pins."""
    entries = [entry for each in offsets.values() for entry in each]
    for spec in desired.connectors.values():
        if spec.pin is not None:
            entries.extend(spec.pin.set)
    found = (sink_partition(entry.partition) for entry in entries)
    return {at for at in found if at is not None}


def _moments(
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


# --- statuses, for display ---


def _state(status: StatusSnapshot, name: str) -> str | None:
    found = status.connectors.get(name)
    return None if found is None else found.state.value


def _task_states(status: StatusSnapshot) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for task in sorted(status.tasks):
        found[task.connector] = (*found.get(task.connector, ()), status.tasks[task].state.value)
    return found
