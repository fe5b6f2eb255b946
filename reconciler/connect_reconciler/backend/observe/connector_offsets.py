"""Reads the offsets of connectors, each where its config has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_reconciler.backend.observe.connector_clusters import ConnectorClusters, attempt
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import Kind, kind_of
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, partition_key, sink_entry

# Not, for one, a variable that only a worker fills in.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class Found:
    """Offsets by connector, and why those of others are not known."""

    offsets: dict[str, Offsets] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """The connectors that a plan is about: those that a spec names or this project owns, live or
    still to be created."""

    desired: Desired
    live: ConfigSnapshot
    live_kinds: Mapping[str, Kind]
    kinds: Mapping[str, Kind]
    ledger: LedgerState
    clusters: ConnectorClusters

    def held(self) -> dict[str, ConnectorClients]:
        """The clients that each connector has now, or is created with: a consumer group can exist
        before its connector. Connectors of unknown kind are left out."""
        found: dict[str, ConnectorClients] = {}
        specs = self.desired.connectors
        named = {*specs, *(spec.renamed_from for spec in specs.values())}
        for name, state in self.live.connectors.items():
            ours = name in named or self.ledger.owner(name) == self.desired.project
            kind = self.live_kinds[name]
            if ours and kind != "unknown":
                found[name] = self.clusters.clients(name, state.config, kind)
        for name, spec in specs.items():
            kind = kind_of(spec.config, None, self.kinds)
            if name not in self.live.connectors and kind != "unknown":
                found[name] = self.clusters.clients(name, _created(spec, self.live), kind)
        return found

    def wanted(self) -> dict[str, ConnectorClients]:
        """The clients that each live connector with a spec is to have."""
        found = {}
        for name in self.desired.connectors.keys() & self.live.connectors.keys():
            written = self.written(name)
            kind = kind_of(written, None, self.kinds)
            if kind != "unknown":
                found[name] = self.clusters.clients(name, written, kind)
        return found

    def written(self, name: str) -> Mapping[str, str]:
        config = self.live.connectors[name].config
        return written_config(self.desired.connectors[name], without_reserved(config))


def _created(spec: DesiredConnector, live: ConfigSnapshot) -> Mapping[str, str]:
    """The config that a connector is created with: ignored keys come from its old name."""
    old = live.connectors.get(spec.renamed_from or spec.name)
    return written_config(spec, None if old is None else without_reserved(old.config))


def offsets_now(
    held: Mapping[str, ConnectorClients],
    live_kinds: Mapping[str, Kind],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> Found:
    """The offsets of `held`, each in its place, and all others in the worker's topic: those of
    other projects' connectors, and of deleted ones."""
    sinks = {name: each for name, each in held.items() if each.kind == "sink"}
    found = sinks_offsets(sinks, clusters)
    for name in stored.connectors:
        if live_kinds.get(name, "source") != "sink" and name not in sinks:
            found.offsets[name] = source_offsets(stored, name)
    for name, clients in held.items():
        if clients.kind == "source":
            _take(found, name, clusters.source(clients, stored))
    return found


def offsets_to_be(
    wanted: Mapping[str, ConnectorClients],
    held: Mapping[str, ConnectorClients],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> Found:
    """The offsets in the places where changed connectors will look for theirs."""
    moved = {
        name: clients
        for name, clients in wanted.items()
        if name in held and _place(clients) != _place(held[name])
    }
    sinks = {name: each for name, each in moved.items() if each.kind == "sink"}
    found = sinks_offsets(sinks, clusters)
    for name, clients in moved.items():
        if clients.kind == "source":
            _take(found, name, clusters.source(clients, stored))
    return found


def sinks_offsets(sinks: Mapping[str, ConnectorClients], clusters: ConnectorClusters) -> Found:
    """The offsets of each sink's consumer group, on the cluster that it reads. Raises ConnectError
    if the worker's cluster cannot be asked."""
    found = Found()
    here = {name: each.group for name, each in sinks.items() if not each.own_login}
    if here:
        committed = clusters.view.group_offsets(set(here.values()))
        for name, group in here.items():
            found.offsets[name] = group_offsets(committed.get(group, {}))
    for clients in sinks.values():
        if clients.own_login:
            _take_sink(found, clients, clusters)
    return found


def _take_sink(found: Found, clients: ConnectorClients, clusters: ConnectorClusters) -> None:
    reached, group = clusters.of(clients), clients.group
    view = reached.view
    answer = reached.reason if view is None else attempt(lambda: view.group_offsets((group,)))
    if isinstance(answer, str):
        found.unknown[clients.name] = answer
    else:
        found.offsets[clients.name] = group_offsets(answer.get(group, {}))


def _take(found: Found, name: str, answer: OffsetSnapshot | str) -> None:
    if isinstance(answer, str):
        found.unknown[name] = answer
        found.offsets.pop(name, None)
    else:
        found.offsets[name] = source_offsets(answer, name)


def _place(clients: ConnectorClients) -> tuple[object, ...]:
    """Equal for connectors whose offsets are in the same place."""
    what = clients.place.topic if clients.kind == "source" else clients.group
    return clients.kind, clients.servers, what


def topics_of_sinks(
    groups: Iterable[str], desired: Desired, live: ConfigSnapshot
) -> tuple[str, ...]:
    """The topics that these sinks name, live and in their specs."""
    configs = [live.connectors[name].config for name in groups if name in live.connectors]
    configs += [desired.connectors[name].config for name in groups if name in desired.connectors]
    named = {topic for config in configs for topic in sink_topics(config, ())}
    return tuple(sorted(topic for topic in named if _TOPIC_NAME.fullmatch(topic)))


def group_offsets(committed: Mapping[TopicPartition, int]) -> Offsets:
    """What a consumer group has committed."""
    return Offsets(sink_entry(at, offset) for at, offset in sorted(committed.items()))


def source_offsets(snapshot: OffsetSnapshot, name: str) -> Offsets:
    """The offset of each partition, also where records exist under several orders of its fields."""
    partitions = {
        partition_key(each.partition): each.partition
        for each in snapshot.connectors.get(name, {}).values()
    }
    return Offsets(
        OffsetEntry(partition, offsets_topic.offset_of(snapshot, name, partition))
        for _, partition in sorted(partitions.items())
    )
