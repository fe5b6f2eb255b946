"""Reads the offsets of connectors, each where its config has them, and the members of sinks' groups
that are no tasks of this cluster."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from connect_reconciler.backend.observe.connector_clusters import ConnectorClusters, attempt
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.group_members import GroupMember, strangers
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import Kind, kind_of
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, partition_key, sink_entry
from connect_specs.names import sink_group

# Not, for one, a variable that only a worker fills in.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class OffsetsByConnector:
    """Offsets by connector, and the reasons why those of others are not known."""

    offsets: dict[str, Offsets] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanClients:
    """The Kafka clients of connectors that a plan is about: those that a spec names or this project
    owns, live or still to be created."""

    desired: Desired
    live: ConfigSnapshot
    live_kinds: Mapping[str, Kind]
    kinds: Mapping[str, Kind]
    ledger: LedgerState
    clusters: ConnectorClusters

    def current(self) -> dict[str, ConnectorClients]:
        """Returns the clients that each connector has now, or is created with: a consumer group can
        exist before its connector. Connectors of unknown kind are left out."""
        clients: dict[str, ConnectorClients] = {}
        specs = self.desired.connectors
        in_specs = {*specs, *(spec.renamed_from for spec in specs.values())}
        for name, state in self.live.connectors.items():
            ours = name in in_specs or self.ledger.owner(name) == self.desired.project
            kind = self.live_kinds[name]
            if ours and kind != "unknown":
                clients[name] = self.clusters.clients(name, state.config, kind)
        for name, spec in specs.items():
            kind = kind_of(spec.config, None, self.kinds)
            if name not in self.live.connectors and kind != "unknown":
                clients[name] = self.clusters.clients(name, _created(spec, self.live), kind)
        return clients

    def planned(self) -> dict[str, ConnectorClients]:
        """Returns the clients that each live connector with a spec is to have."""
        clients = {}
        for name in self.desired.connectors.keys() & self.live.connectors.keys():
            config = self.written(name)
            kind = kind_of(config, None, self.kinds)
            if kind != "unknown":
                clients[name] = self.clusters.clients(name, config, kind)
        return clients

    def written(self, name: str) -> Mapping[str, str]:
        config = self.live.connectors[name].config
        return written_config(self.desired.connectors[name], without_reserved(config))


def _created(spec: DesiredConnector, live: ConfigSnapshot) -> Mapping[str, str]:
    """Returns the config that a connector is created with: ignored keys come from its old name."""
    renamed = live.connectors.get(spec.renamed_from or spec.name)
    return written_config(spec, None if renamed is None else without_reserved(renamed.config))


def offsets_now(
    current: Mapping[str, ConnectorClients],
    live_kinds: Mapping[str, Kind],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> OffsetsByConnector:
    """Returns the offsets of the `current` clients, each in its place, and all others in the
    worker's topic: those of other projects' connectors, and of deleted ones."""
    sinks = {name: c for name, c in current.items() if c.kind == "sink"}
    result = sinks_offsets(sinks, clusters)
    for name in stored.connectors:
        if live_kinds.get(name, "source") != "sink" and name not in sinks:
            result.offsets[name] = source_offsets(stored, name)
    for name, clients in current.items():
        if clients.kind == "source":
            _take(result, name, clusters.source(clients, stored))
    return result


def offsets_to_be(
    planned: Mapping[str, ConnectorClients],
    current: Mapping[str, ConnectorClients],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> OffsetsByConnector:
    """Returns the offsets in the places where changed connectors will look for theirs."""
    moving = {
        name: clients
        for name, clients in planned.items()
        if name in current and _place(clients) != _place(current[name])
    }
    sinks = {name: c for name, c in moving.items() if c.kind == "sink"}
    result = sinks_offsets(sinks, clusters)
    for name, clients in moving.items():
        if clients.kind == "source":
            _take(result, name, clusters.source(clients, stored))
    return result


def sinks_offsets(
    sinks: Mapping[str, ConnectorClients], clusters: ConnectorClusters
) -> OffsetsByConnector:
    """Returns the offsets of each sink's consumer group, on the cluster that it reads. Raises
    ConnectError if the worker's cluster cannot be asked."""
    result = OffsetsByConnector()
    groups = {name: c.group for name, c in sinks.items() if not c.own_login}
    if groups:
        committed = clusters.view.group_offsets(set(groups.values()))
        for name, group in groups.items():
            result.offsets[name] = group_offsets(committed.get(group, {}))
    for clients in sinks.values():
        if clients.own_login:
            _take_sink(result, clients, clusters)
    return result


def _take_sink(
    result: OffsetsByConnector, clients: ConnectorClients, clusters: ConnectorClusters
) -> None:
    reached, group = clusters.of(clients), clients.group
    view = reached.view
    answer = reached.reason if view is None else attempt(lambda: view.group_offsets((group,)))
    if isinstance(answer, str):
        result.unknown[clients.name] = answer
    else:
        result.offsets[clients.name] = group_offsets(answer.get(group, {}))


def _take(result: OffsetsByConnector, name: str, answer: OffsetSnapshot | str) -> None:
    if isinstance(answer, str):
        result.unknown[name] = answer
        result.offsets.pop(name, None)
    else:
        result.offsets[name] = source_offsets(answer, name)


def _place(clients: ConnectorClients) -> tuple[object, ...]:
    """Returns a key that is equal for connectors whose offsets are in the same place."""
    location = clients.place.topic if clients.kind == "source" else clients.group
    return clients.kind, clients.servers, location


def topics_of_sinks(
    groups: Iterable[str], desired: Desired, live: ConfigSnapshot
) -> tuple[str, ...]:
    """Returns the topics that these sinks name, live and in their specs."""
    configs = [live.connectors[name].config for name in groups if name in live.connectors]
    configs += [desired.connectors[name].config for name in groups if name in desired.connectors]
    names = {topic for config in configs for topic in sink_topics(config, ())}
    return tuple(sorted(topic for topic in names if _TOPIC_NAME.fullmatch(topic)))


def group_offsets(committed: Mapping[TopicPartition, int]) -> Offsets:
    """Returns the committed offsets of a consumer group."""
    return Offsets(sink_entry(at, offset) for at, offset in sorted(committed.items()))


def source_offsets(snapshot: OffsetSnapshot, name: str) -> Offsets:
    """Returns the offset of each partition, also where records exist under several orders of its
    fields."""
    partitions = {
        partition_key(entry.partition): entry.partition
        for entry in snapshot.connectors.get(name, {}).values()
    }
    return Offsets(
        OffsetEntry(partition, offsets_topic.offset_of(snapshot, name, partition))
        for _, partition in sorted(partitions.items())
    )


# --- members of sinks' consumer groups ---


def strangers_of_sinks(
    sinks: Mapping[str, ConnectorClients], stored: ConfigSnapshot, clusters: ConnectorClusters
) -> dict[str, tuple[GroupMember, ...]]:
    """Returns by sink the members of its group that are no tasks of this cluster. None are known of
    a cluster that cannot be asked, or does not let this login see its groups."""
    tasks: dict[str, dict[str, int]] = defaultdict(dict)
    for name, state in stored.connectors.items():
        tasks[sink_group(name, state.config, clusters.worker)][name] = len(state.task_configs)
    groups_by_view: dict[int, tuple[KafkaPort, dict[str, str]]] = {}
    for name, clients in sinks.items():
        view = clusters.of(clients).view
        if name in stored.connectors and view is not None:
            groups_by_view.setdefault(id(view), (view, {}))[1][name] = clients.group
    strangers_by_sink: dict[str, tuple[GroupMember, ...]] = {}
    for view, groups in groups_by_view.values():
        members = attempt(partial(view.group_members, tuple(groups.values())))
        if isinstance(members, str):
            continue
        for name, group in groups.items():
            if intruders := strangers(members.get(group, ()), tasks[group]):
                strangers_by_sink[name] = intruders
    return strangers_by_sink
