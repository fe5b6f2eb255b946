"""The Kafka clusters that connectors use: the worker's, or others through their own clients.

A source can have an offsets topic of its own, and a sink can read another Kafka cluster. These are
asked in parallel. If one cannot be asked, its connectors' offsets are unknown, and the plan says
why; the others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from connect_reconciler.backend.observe.kafka_view import KafkaPort, KafkaView
from connect_runtime.api import ConnectorError
from connect_runtime.settings.connector_clients import (
    OFFSETS_TOPIC_KEY,
    PREFIXES,
    ConnectorClients,
    Kind,
)
from connect_runtime.storage.offsets_topic import LayeredOffsets, reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed

T = TypeVar("T")

_AT_ONCE: Final = 8
_REFERENCE: Final = "its client overrides hold references, which are not resolved here"

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


@dataclass(frozen=True, slots=True)
class ReachedCluster:
    """A cluster that answered, or the reason of its failure."""

    view: KafkaPort | None
    reason: str = ""


@dataclass(slots=True)
class ConnectorClusters:
    """A view of the Kafka cluster of each connector; `view` is that of the worker's cluster."""

    project: Project
    worker: Mapping[str, str]
    view: KafkaPort
    open: OpenView = open_view
    _reached: dict[str, ReachedCluster] = field(default_factory=dict)

    def clients(self, name: str, config: Mapping[str, str], kind: Kind) -> ConnectorClients:
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

    def of(self, clients: ConnectorClients) -> ReachedCluster:
        """Returns the cluster of a connector's data."""
        if not clients.own_login:
            return ReachedCluster(self.view)
        self.reach((clients,))
        return self._reached[_key(clients)]

    def view_of_sink(self, name: str, config: Mapping[str, str]) -> KafkaPort:
        """Returns the cluster that a sink reads. Raises Failed: the worker's cluster may be
        there."""
        reached = self.of(self.clients(name, config, "sink"))
        if reached.view is None:
            problem = "the Kafka cluster that it reads cannot be asked"
            raise Failed(Diagnostic("kafka.elsewhere", problem, name, reached.reason))
        return reached.view

    def source(
        self, clients: ConnectorClients, workers_offsets: OffsetSnapshot
    ) -> OffsetSnapshot | str:
        """Returns the source's offsets, or why they are not known. `workers_offsets` are those of
        the worker's topic."""
        place, reached = clients.place, self.of(clients)
        if self._in_workers_topic(clients):
            return workers_offsets
        if place.underneath is None and not clients.own_login:
            return workers_offsets
        if reached.view is None:
            return reached.reason
        view = reached.view

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
                clients.name, place.topic, own, place.underneath, workers_offsets
            ).merged

        return attempt(read)

    def _in_workers_topic(self, clients: ConnectorClients) -> bool:
        """Apache's workers without exactly-once, their default: the offsets of sources that name no
        topic are in the worker's, wherever these produce to."""
        enabled = self.worker.get("exactly.once.source.support", "").strip().lower() == "enabled"
        own_topic = (clients.config.get(OFFSETS_TOPIC_KEY) or "").strip()
        return not self.project.uses_runtime and not enabled and not own_topic

    def _open(self, clients: ConnectorClients) -> ReachedCluster:
        overrides = (value for key, value in clients.config.items() if key.startswith(PREFIXES))
        if any("${" in value for value in overrides):
            return ReachedCluster(None, _REFERENCE)

        def opened() -> KafkaPort:
            clients.check()
            view = self.open(clients)
            view.cluster_id()
            return view

        view_or_reason = attempt(opened)
        return (
            ReachedCluster(None, view_or_reason)
            if isinstance(view_or_reason, str)
            else ReachedCluster(view_or_reason)
        )


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
