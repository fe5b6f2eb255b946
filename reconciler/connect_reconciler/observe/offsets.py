"""Which offsets do connectors have?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_reconciler.observe.homes import Homes, attempt
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind, LedgerState, TopicPartition
from connect_reconciler.plan.offsets.positions import sink_topics
from connect_reconciler.plan.reserved import without_reserved
from connect_runtime.connector_clients import ConnectorClients
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry
from connect_specs.offsets import canonical_partition

# Not, for one, a variable that only a worker fills in.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Entries = tuple[OffsetEntry, ...]


@dataclass(slots=True)
class Found:
    """Offsets by connector, and why those of others are not known."""

    offsets: dict[str, Entries] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which connectors a plan is about: those that a spec names or this project owns, live or yet
    to be created."""

    desired: Desired
    live: ConfigSnapshot
    live_kinds: Mapping[str, Kind]
    kinds: Mapping[str, Kind]
    ledger: LedgerState
    homes: Homes

    def held(self) -> dict[str, ConnectorClients]:
        """Of each, the clients that it has now, or is created with: a group can be left from
        before. Without those whose kind nobody knows."""
        found: dict[str, ConnectorClients] = {}
        specs = self.desired.connectors
        named = {*specs, *(spec.renamed_from for spec in specs.values())}
        for name, state in self.live.connectors.items():
            owned = self.ledger.connectors.get(name)
            ours = name in named or (owned and owned.project == self.desired.project)
            kind = self.live_kinds[name]
            if ours and kind != "unknown":
                found[name] = self.homes.clients(name, state.config, kind)
        for name, spec in specs.items():
            kind = kind_of(spec.config, None, self.kinds)
            if name not in self.live.connectors and kind != "unknown":
                found[name] = self.homes.clients(name, _created(spec, self.live), kind)
        return found

    def wanted(self) -> dict[str, ConnectorClients]:
        """Of each live one with a spec, the clients that it is to have."""
        found = {}
        for name in self.desired.connectors.keys() & self.live.connectors.keys():
            written = self.written(name)
            kind = kind_of(written, None, self.kinds)
            if kind != "unknown":
                found[name] = self.homes.clients(name, written, kind)
        return found

    def written(self, name: str) -> Mapping[str, str]:
        config = self.live.connectors[name].config
        return written_config(self.desired.connectors[name], without_reserved(config))


def _created(spec: DesiredConnector, live: ConfigSnapshot) -> Mapping[str, str]:
    """The config that it is created with: what the spec ignores comes from its old name."""
    old = live.connectors.get(spec.renamed_from or spec.name)
    return written_config(spec, None if old is None else without_reserved(old.config))


def offsets_now(
    held: Mapping[str, ConnectorClients],
    live_kinds: Mapping[str, Kind],
    stored: OffsetSnapshot,
    homes: Homes,
) -> Found:
    """Of `held`, each in its place, and of what else the worker's topic has: connectors of others,
    and those that are gone."""
    sinks = {name: each for name, each in held.items() if each.kind == "sink"}
    found = sinks_offsets(sinks, homes)
    for name in stored.connectors:
        if live_kinds.get(name, "source") != "sink" and name not in sinks:
            found.offsets[name] = source_entries(stored, name)
    for name, clients in held.items():
        if clients.kind == "source":
            _take(found, name, homes.source(clients, stored))
    return found


def offsets_to_be(
    wanted: Mapping[str, ConnectorClients],
    held: Mapping[str, ConnectorClients],
    stored: OffsetSnapshot,
    homes: Homes,
) -> Found:
    """What is where connectors are to look for their offsets, where that is another place than
    now."""
    moved = {
        name: clients
        for name, clients in wanted.items()
        if name in held and _place(clients) != _place(held[name])
    }
    sinks = {name: each for name, each in moved.items() if each.kind == "sink"}
    found = sinks_offsets(sinks, homes)
    for name, clients in moved.items():
        if clients.kind == "source":
            _take(found, name, homes.source(clients, stored))
    return found


def sinks_offsets(sinks: Mapping[str, ConnectorClients], homes: Homes) -> Found:
    """Of each sink's group, on the cluster that it reads. Raises ConnectError where the worker's
    cluster cannot be asked."""
    found = Found()
    here = {name: each.group for name, each in sinks.items() if not each.own_login}
    if here:
        committed = homes.view.group_offsets(set(here.values()))
        for name, group in here.items():
            found.offsets[name] = group_entries(committed.get(group, {}))
    for clients in sinks.values():
        if clients.own_login:
            _take_sink(found, clients, homes)
    return found


def _take_sink(found: Found, clients: ConnectorClients, homes: Homes) -> None:
    reached, group = homes.of(clients), clients.group
    view = reached.view
    answer = reached.reason if view is None else attempt(lambda: view.group_offsets((group,)))
    if isinstance(answer, str):
        found.unknown[clients.name] = answer
    else:
        found.offsets[clients.name] = group_entries(answer.get(group, {}))


def _take(found: Found, name: str, answer: OffsetSnapshot | str) -> None:
    if isinstance(answer, str):
        found.unknown[name] = answer
        found.offsets.pop(name, None)
    else:
        known = name in answer.connectors
        found.offsets[name] = source_entries(answer, name) if known else ()


def _place(clients: ConnectorClients) -> tuple[object, ...]:
    """Equal where the same offsets are."""
    what = clients.place.topic if clients.kind == "source" else clients.group
    return clients.kind, clients.servers, what


def topics_of_sinks(
    groups: Iterable[str], desired: Desired, live: ConfigSnapshot
) -> tuple[str, ...]:
    """The topics that these sinks name, in what they run with and in their specs."""
    configs = [live.connectors[name].config for name in groups if name in live.connectors]
    configs += [desired.connectors[name].config for name in groups if name in desired.connectors]
    named = {topic for config in configs for topic in sink_topics(config, ())}
    return tuple(sorted(topic for topic in named if _TOPIC_NAME.fullmatch(topic)))


def group_entries(committed: Mapping[TopicPartition, int]) -> tuple[OffsetEntry, ...]:
    """What a group has committed, as entries of offsets."""
    return tuple(
        OffsetEntry({"kafka_topic": topic, "kafka_partition": number}, {"kafka_offset": at})
        for (topic, number), at in sorted(committed.items())
    )


def source_entries(snapshot: OffsetSnapshot, name: str) -> tuple[OffsetEntry, ...]:
    """One entry a partition, also where records exist under several orders of its fields."""
    partitions = {
        canonical_partition(each.partition): each.partition
        for each in snapshot.connectors[name].values()
    }
    return tuple(
        OffsetEntry(partition, offsets_topic.offset_of(snapshot, name, partition))
        for _, partition in sorted(partitions.items())
    )
