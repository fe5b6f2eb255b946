"""The Kafka clusters that connectors use, the offsets that connectors have there, and the members
of sinks' groups that are no tasks of this cluster.

A source can have an offsets topic of its own, and a sink can read another Kafka cluster. Clusters
besides the worker's are asked in parallel. If one cannot be asked, its connectors' offsets are
unknown, and the plan has the reason; others are not affected.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias, TypeVar

from connect_reconciler.backend.observe.kafka_view import KafkaPort, KafkaView
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import GroupMember, Kind, kind_of, strangers
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_runtime.api import ConnectorError
from connect_runtime.settings.connector_clients import (
    OFFSETS_TOPIC_KEY,
    PREFIXES,
    ConnectorClients,
)
from connect_runtime.settings.connector_clients import Kind as ClientsKind
from connect_runtime.storage.offsets_topic import LayeredOffsets, offset_of, reduce_all
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot
from connect_specs.desired import (
    Desired,
    OffsetEntry,
    Project,
    partition_key,
    sink_entry,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.names import sink_group

T = TypeVar("T")

_AT_ONCE: Final = 8
_REFERENCE: Final = "its client overrides hold references, which are not resolved here"
# Not, for one, a variable that only a worker fills in.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

OpenView: TypeAlias = Callable[[ConnectorClients], KafkaPort]


def open_view(clients: ConnectorClients) -> KafkaPort:
    """Opens a cluster through the connector's own clients."""
    return KafkaView(clients.admin(), consumer=clients.offsets_consumer())


def worker_properties(project: Project, client: Mapping[str, str]) -> dict[str, str]:
    """Returns the worker properties that connect.yaml implies: its client properties are for every
    client, as in `connect up`."""
    properties = dict(client)
    for key, value in client.items():
        if key != "bootstrap.servers":
            properties |= {f"{role}.{key}": value for role in ("admin", "consumer", "producer")}
    return properties | dict(project.worker)


@dataclass(slots=True)
class ConnectorClusters:
    """A view of the Kafka cluster of each connector; `view` is that of the worker's cluster. Of
    clusters that do not answer, the reason takes the place of the view."""

    project: Project
    worker: Mapping[str, str]
    view: KafkaPort
    open: OpenView = open_view
    _reached: dict[str, KafkaPort | str] = field(default_factory=dict)

    def clients(self, name: str, config: Mapping[str, str], kind: ClientsKind) -> ConnectorClients:
        """Returns the Kafka clients that a connector has with this config."""
        topic = self.project.topics.offsets
        return ConnectorClients(self.project.group_id, topic, self.worker, name, config, kind)

    def reach(self, needed: Iterable[ConnectorClients]) -> None:
        """Opens the clusters that these need besides the worker's, in parallel."""
        unopened = {_key(clients): clients for clients in needed if clients.own_login}
        unopened = {key: clients for key, clients in unopened.items() if key not in self._reached}
        if unopened:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="clusters") as pool:
                views = pool.map(self._open, unopened.values())
                self._reached.update(zip(unopened, views, strict=True))

    def of(self, clients: ConnectorClients) -> KafkaPort | str:
        """Returns the cluster of a connector's data, or why it cannot be asked."""
        if not clients.own_login:
            return self.view
        self.reach((clients,))
        return self._reached[_key(clients)]

    def view_of_sink(self, name: str, config: Mapping[str, str]) -> KafkaPort:
        """Returns the cluster that a sink reads. Raises Failed: the worker's cluster may be
        there."""
        view = self.of(self.clients(name, config, "sink"))
        if isinstance(view, str):
            problem = "the Kafka cluster that it reads cannot be asked"
            raise Failed(Diagnostic("kafka.elsewhere", problem, name, view))
        return view

    def offsets(self, clients: ConnectorClients, worker_offsets: OffsetSnapshot) -> Offsets | str:
        """Returns the offsets of a source, or of a sink with a login of its own, where its config
        has them, or why they are not known. `worker_offsets` are those of the worker's topic."""
        if clients.kind == "source":
            snapshot = self._source(clients, worker_offsets)
            return snapshot if isinstance(snapshot, str) else source_offsets(snapshot, clients.name)
        view, group = self.of(clients), clients.group
        if isinstance(view, str):
            return view
        return attempt(lambda: group_offsets(view.group_offsets((group,)).get(group, {})))

    def _source(
        self, clients: ConnectorClients, worker_offsets: OffsetSnapshot
    ) -> OffsetSnapshot | str:
        place, view = clients.place, self.of(clients)
        if self._in_workers_topic(clients):
            return worker_offsets
        if place.underneath is None and not clients.own_login:
            return worker_offsets
        if isinstance(view, str):
            return view

        def read() -> OffsetSnapshot:
            own = reduce_all(OffsetSnapshot(), view.records(place.topic))
            same_name = place.elsewhere and place.topic == place.underneath
            if place.underneath is None or (
                same_name and view.cluster_id() == self.view.cluster_id()
            ):
                return own
            if not self.project.uses_runtime:
                # Apache's workers show no offset where the connector's own topic has none
                return own
            return LayeredOffsets(
                clients.name, place.topic, own, place.underneath, worker_offsets
            ).merged

        return attempt(read)

    def _in_workers_topic(self, clients: ConnectorClients) -> bool:
        """Apache's workers without exactly-once, their default: the offsets of sources that name no
        topic are in the worker's, wherever these produce to."""
        enabled = self.worker.get("exactly.once.source.support", "").strip().lower() == "enabled"
        own_topic = (clients.config.get(OFFSETS_TOPIC_KEY) or "").strip()
        return not self.project.uses_runtime and not enabled and not own_topic

    def _open(self, clients: ConnectorClients) -> KafkaPort | str:
        overrides = (value for key, value in clients.config.items() if key.startswith(PREFIXES))
        if any("${" in value for value in overrides):
            return _REFERENCE

        def opened() -> KafkaPort:
            clients.check()
            view = self.open(clients)
            view.cluster_id()
            return view

        return attempt(opened)


def attempt(ask: Callable[[], T]) -> T | str:
    """Calls `ask`. Returns its result, or the reason of its failure."""
    try:
        return ask()
    except (ConnectError, ConnectorError) as error:
        reason = error.why if isinstance(error, ConnectError) else ""
        return f"{error}: {reason}" if reason else str(error)


def _key(clients: ConnectorClients) -> str:
    """Returns a key that is equal for connectors with the same connection to Kafka. It holds
    secrets."""
    overrides = sorted(
        override for override in clients.config.items() if override[0].startswith(PREFIXES)
    )
    return repr((clients.kind, overrides))


# --- offsets ---


@dataclass(slots=True)
class OffsetsByConnector:
    """Offsets by connector, and the reasons why those of others are not known."""

    offsets: dict[str, Offsets] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def current_clients(
    desired: Desired,
    live: ConfigSnapshot,
    live_kinds: Mapping[str, Kind],
    kinds: Mapping[str, Kind],
    ledger: LedgerState,
    clusters: ConnectorClusters,
) -> dict[str, ConnectorClients]:
    """Returns the clients that each connector of a plan has now, or is created with: a consumer
    group can exist before its connector. Of a plan are those that a spec names or this project
    owns. Connectors of unknown kind are left out."""
    clients: dict[str, ConnectorClients] = {}
    specs = desired.connectors
    in_specs = {*specs, *(spec.renamed_from for spec in specs.values())}
    for name, state in live.connectors.items():
        ours = name in in_specs or ledger.owner(name) == desired.project
        kind = live_kinds[name]
        if ours and kind != "unknown":
            clients[name] = clusters.clients(name, state.config, kind)
    for name, spec in specs.items():
        kind = kind_of(spec.config, None, kinds)
        if name not in live.connectors and kind != "unknown":
            # Ignored keys come from its old name
            renamed = live.connectors.get(spec.renamed_from or name)
            stored = None if renamed is None else without_reserved(renamed.config)
            clients[name] = clusters.clients(name, written_config(spec, stored), kind)
    return clients


def planned_clients(
    desired: Desired, live: ConfigSnapshot, kinds: Mapping[str, Kind], clusters: ConnectorClusters
) -> dict[str, ConnectorClients]:
    """Returns the clients that each live connector with a spec is to have."""
    clients = {}
    for name in desired.connectors.keys() & live.connectors.keys():
        stored = without_reserved(live.connectors[name].config)
        config = written_config(desired.connectors[name], stored)
        kind = kind_of(config, None, kinds)
        if kind != "unknown":
            clients[name] = clusters.clients(name, config, kind)
    return clients


def offsets_now(
    current: Mapping[str, ConnectorClients],
    live_kinds: Mapping[str, Kind],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> OffsetsByConnector:
    """Returns the offsets of the `current` clients, each in its place, and all others in the
    worker's topic: those of other projects' connectors, and of deleted ones. Raises ConnectError if
    the worker's cluster cannot be asked."""
    result = _offsets_of(current, stored, clusters)
    for name in stored.connectors.keys() - current.keys():
        if live_kinds.get(name, "source") != "sink":
            result.offsets[name] = source_offsets(stored, name)
    return result


def offsets_to_be(
    planned: Mapping[str, ConnectorClients],
    current: Mapping[str, ConnectorClients],
    stored: OffsetSnapshot,
    clusters: ConnectorClusters,
) -> OffsetsByConnector:
    """Returns the offsets in the places that changed connectors will read theirs from."""
    moving = {
        name: clients
        for name, clients in planned.items()
        if name in current and _place(clients) != _place(current[name])
    }
    return _offsets_of(moving, stored, clusters)


def _offsets_of(
    clients: Mapping[str, ConnectorClients], stored: OffsetSnapshot, clusters: ConnectorClusters
) -> OffsetsByConnector:
    result = OffsetsByConnector()
    groups = {n: c.group for n, c in clients.items() if c.kind == "sink" and not c.own_login}
    committed = clusters.view.group_offsets(set(groups.values())) if groups else {}
    for name, connector in clients.items():
        if name in groups:
            result.offsets[name] = group_offsets(committed.get(groups[name], {}))
            continue
        answer = clusters.offsets(connector, stored)
        if isinstance(answer, str):
            result.unknown[name] = answer
        else:
            result.offsets[name] = answer
    return result


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
        OffsetEntry(partition, offset_of(snapshot, name, partition))
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
        view = clusters.of(clients)
        if name in stored.connectors and not isinstance(view, str):
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
