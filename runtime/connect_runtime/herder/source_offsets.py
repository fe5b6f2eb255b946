"""Reads source offsets from the offsets topics on demand.

Reading to the end waits for transactions of running tasks, so it happens on the caller's thread,
never on the herder's.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connector_logs import ConnectorLogs, OpenedLogs, OpenLogs
from connect_runtime.settings.client_overrides import Kind
from connect_runtime.settings.connector_clients import ConnectorClients, is_client_key
from connect_runtime.storage.internal_topics import ensure_own_offsets_topic
from connect_runtime.storage.layered_offsets import LayeredOffsets
from connect_runtime.storage.log import Logs


class SourceOffsets:
    """Offsets by connector, read where the connector's clients keep them; `in_file`: in the file of
    a standalone worker. All methods raise ConnectError and, for an override that the worker
    forbids, ConfigError."""

    def __init__(
        self,
        logs: Logs,
        group_id: str,
        topic: str,
        worker: Mapping[str, str],
        providers: ConfigProviders,
        open_logs: OpenLogs,
        *,
        in_file: bool = False,
    ) -> None:
        self._group_id = group_id
        self._topic = topic
        self._worker = worker
        self._providers = providers
        self._in_file = in_file
        self.logs = ConnectorLogs(logs, open_logs)

    def clients(self, name: str, config: Mapping[str, str], kind: Kind) -> ConnectorClients:
        """Returns the clients of a connector of this cluster, with the references in client
        settings resolved. Raises ConfigError if that fails."""
        given = {key: value for key, value in config.items() if is_client_key(key)}
        return ConnectorClients(
            self._group_id,
            self._topic,
            self._providers.resolve(self._worker).config,
            name,
            self._providers.resolve(given).config,
            kind,
            self._in_file,
        )

    def read(self, clients: ConnectorClients) -> LayeredOffsets:
        """Returns all committed offsets of one source as of now."""
        name, place = clients.name, clients.place
        with self.logs.of(clients) as theirs:
            # made only when the connector first runs
            own = theirs.offsets(place.topic, may_be_missing=place.underneath is not None)
            if place.underneath is None or self._same(theirs, clients):
                return LayeredOffsets(name, place.topic, own)
        below = self.logs.worker.offsets(place.underneath)
        return LayeredOffsets(name, place.topic, own, place.underneath, below)

    def prepare(self, clients: ConnectorClients) -> None:
        """Creates the offsets topic of a source that has its own."""
        if clients.place.underneath is None:
            return
        with self.logs.of(clients) as theirs:
            ensure_own_offsets_topic(theirs.logs, clients)

    def fence(self, clients: ConnectorClients, tasks: int) -> None:
        """Fences the producers of tasks 0..`tasks`-1 with their own login, which alone is known to
        have the right to their transactional ids."""
        ids = [clients.transactional_id(task) for task in range(tasks)]
        if not ids:
            return
        with self.logs.of_producers(clients) as theirs:
            theirs.logs.fence(ids)

    def close(self) -> None:
        """Closes the readers and all logs but the worker's."""
        self.logs.close()

    def _same(self, theirs: OpenedLogs, clients: ConnectorClients) -> bool:
        """Whether another address is the worker's own topic."""
        place = clients.place
        same_name = place.elsewhere and place.topic == place.underneath
        return same_name and theirs.cluster_id() == self.logs.worker.cluster_id()
