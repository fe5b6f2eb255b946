"""The Kafka clusters that connectors use: the worker's, or others through their own clients.

A source can have an offsets topic of its own, and a sink can read another Kafka cluster. These are
asked in parallel. Where one cannot be asked, its connectors' offsets are unknown, and the plan says
why; the others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from connect_reconciler.backend.observe.kafka_view import KafkaView, View
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

OpenView: TypeAlias = Callable[[ConnectorClients], View]


def open_view(clients: ConnectorClients) -> View:
    """A real cluster, through the connector's own clients."""
    return KafkaView(clients.admin(), consumer=clients.offsets_consumer())


def worker_properties(project: Project, client: Mapping[str, str]) -> dict[str, str]:
    """The worker properties that connect.yaml implies: its client properties are for every client,
    as in `connect up`."""
    given = dict(client)
    for key, value in client.items():
        if key != "bootstrap.servers":
            given |= {f"{each}.{key}": value for each in ("admin", "consumer", "producer")}
    return given | dict(project.worker)


@dataclass(frozen=True, slots=True)
class Reached:
    """A cluster that answered, or why it did not."""

    view: View | None
    reason: str = ""


@dataclass(slots=True)
class ConnectorClusters:
    """A view of the Kafka cluster of each connector; `view` is that of the worker's cluster."""

    project: Project
    worker: Mapping[str, str]
    view: View
    open: OpenView = open_view
    _reached: dict[str, Reached] = field(default_factory=dict)

    def clients(self, name: str, config: Mapping[str, str], kind: Kind) -> ConnectorClients:
        """The Kafka clients that a connector has with this config."""
        topic = self.project.topics.offsets
        return ConnectorClients(self.project.group_id, topic, self.worker, name, config, kind)

    def reach(self, wanted: Iterable[ConnectorClients]) -> None:
        """Opens the clusters that these need besides the worker's, in parallel."""
        new = {_key(each): each for each in wanted if each.own_login}
        new = {key: each for key, each in new.items() if key not in self._reached}
        if new:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="clusters") as pool:
                found = pool.map(self._open, new.values())
                self._reached.update(zip(new, found, strict=True))

    def of(self, clients: ConnectorClients) -> Reached:
        """The cluster of a connector's data."""
        if not clients.own_login:
            return Reached(self.view)
        self.reach((clients,))
        return self._reached[_key(clients)]

    def view_of_sink(self, name: str, config: Mapping[str, str]) -> View:
        """The cluster that a sink reads. Raises Failed: the worker's cluster may be there."""
        found = self.of(self.clients(name, config, "sink"))
        if found.view is None:
            what = "the Kafka cluster that it reads cannot be asked"
            raise Failed(Diagnostic("kafka.elsewhere", what, name, found.reason))
        return found.view

    def source(self, clients: ConnectorClients, below: OffsetSnapshot) -> OffsetSnapshot | str:
        """The source's offsets, or why they are not known. `below` is the worker's topic."""
        place, reached = clients.place, self.of(clients)
        if self._in_workers_topic(clients):
            return below
        if place.underneath is None and not clients.own_login:
            return below
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
            return LayeredOffsets(clients.name, place.topic, own, place.underneath, below).merged

        return attempt(read)

    def _in_workers_topic(self, clients: ConnectorClients) -> bool:
        """Apache's workers without exactly-once, their default: the offsets of sources that name no
        topic are in the worker's, wherever these produce to."""
        enabled = self.worker.get("exactly.once.source.support", "").strip().lower() == "enabled"
        named = (clients.config.get(OFFSETS_TOPIC_KEY) or "").strip()
        return not self.project.uses_runtime and not enabled and not named

    def _open(self, clients: ConnectorClients) -> Reached:
        overrides = (value for key, value in clients.config.items() if key.startswith(PREFIXES))
        if any("${" in value for value in overrides):
            return Reached(None, _REFERENCE)

        def opened() -> View:
            clients.check()
            view = self.open(clients)
            view.cluster_id()
            return view

        found = attempt(opened)
        return Reached(None, found) if isinstance(found, str) else Reached(found)


def attempt(ask: Callable[[], T]) -> T | str:
    """What `ask` returns, or why it failed."""
    try:
        return ask()
    except (ConnectError, ConnectorError) as error:
        why = error.why if isinstance(error, ConnectError) else ""
        return f"{error}: {why}" if why else str(error)


def _key(clients: ConnectorClients) -> str:
    """Equal for connectors that connect to Kafka in the same way. It holds secrets."""
    overrides = sorted(each for each in clients.config.items() if each[0].startswith(PREFIXES))
    return repr((clients.kind, overrides))
