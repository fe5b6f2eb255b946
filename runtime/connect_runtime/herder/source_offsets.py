"""Reads source offsets on demand, from the Kafka clusters where connectors keep them.

A connector needs logs of its own if it overrides how its clients reach Kafka; otherwise it uses the
worker's. Logs are opened on demand, shared by connectors with the same clients, and closed when
idle. Reading to the end waits for transactions of running tasks, so it happens on the caller's
thread, never on the herder's. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.settings.connector_clients import ConnectorClients, Kind, is_client_key
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.log import LogBlocked, LogReader, Logs, ensure_own_offsets_topic
from connect_runtime.storage.offsets_topic import LayeredOffsets
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.diagnostics import ConnectError, Failed

READ_TIMEOUT_S: Final = 30.0
_UNUSED_S: Final = 300.0

OpenLogs: TypeAlias = Callable[[ConnectorClients], Logs]
_Key: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]


class OffsetsReader:
    """Reads one offsets topic for all callers; each read goes to the end."""

    def __init__(self, logs: Logs, topic: str) -> None:
        self._logs = logs
        self._topic = topic
        self._lock = threading.Lock()
        self._reader: LogReader | None = None
        self._snapshot = OffsetSnapshot()

    def read(self) -> OffsetSnapshot:
        """Returns all committed source offsets as of now. Raises ConnectError."""
        with self._lock:
            idle = self._reader is not None
            while True:
                try:
                    return self._read()
                except LogBlocked:
                    raise
                except ConnectError as error:
                    # a recreated topic begins at other offsets
                    self._close()
                    # what Kafka refused to an idle reader, it may allow now
                    if not idle or error.diagnostics[0].code == UNREACHABLE:
                        raise
                    idle = False

    def close(self) -> None:
        """Closes the reader; the next read opens another."""
        with self._lock:
            self._close()

    def _read(self) -> OffsetSnapshot:
        while True:
            if self._reader is None:
                self._reader = self._logs.reader(self._topic)
                self._snapshot = OffsetSnapshot()
            records = self._reader.read_to_end(READ_TIMEOUT_S)
            if not self._reader.led_anew:
                break
            self._close()
        self._snapshot = offsets_topic.reduce_all(self._snapshot, records)
        return self._snapshot

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


@dataclass(slots=True, eq=False)
class OpenedLogs:
    """Logs on one cluster, with the readers of its offsets topics."""

    logs: Logs
    readers: dict[str, OffsetsReader] = field(default_factory=dict)
    used: float = 0.0
    users: int = 0
    _cluster_id: str = ""

    def offsets(self, topic: str, *, may_be_missing: bool = False) -> OffsetSnapshot:
        """Returns the topic's offsets; none if it `may_be_missing` and is. Raises ConnectError."""
        try:
            return self.readers.setdefault(topic, OffsetsReader(self.logs, topic)).read()
        except Failed as error:
            if may_be_missing and error.diagnostics[0].code == "topic.missing":
                return OffsetSnapshot()
            raise

    def cluster_id(self) -> str:
        """Returns the cluster's id; asks Kafka once."""
        self._cluster_id = self._cluster_id or self.logs.cluster_id()
        return self._cluster_id

    def close_readers(self) -> None:
        for reader in list(self.readers.values()):
            reader.close()


class SourceOffsets:
    """Offsets by connector, read where the connector's clients keep them. `worker` holds the logs
    of connectors that need none of their own; logs of their own are opened by `open_logs`. All
    methods raise ConnectError and, for an override that the worker forbids, ConfigError."""

    def __init__(
        self,
        logs: Logs,
        settings: WorkerSettings,
        providers: ConfigProviders,
        open_logs: OpenLogs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker = OpenedLogs(logs)
        self._settings = settings
        self._providers = providers
        self._open_logs = open_logs
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: dict[_Key, OpenedLogs] = {}

    def clients(self, name: str, config: Mapping[str, str], kind: Kind) -> ConnectorClients:
        """Returns the clients of a connector of this cluster, with the references in client
        settings resolved. Raises ConfigError if that fails."""
        client_settings = {key: value for key, value in config.items() if is_client_key(key)}
        return ConnectorClients(
            self._settings.group_id,
            self._settings.topics.offsets,
            self._providers.resolve(self._settings.properties).config,
            name,
            self._providers.resolve(client_settings).config,
            kind,
            in_file=self._settings.socket is not None,
        )

    def read(self, clients: ConnectorClients) -> LayeredOffsets:
        """Returns all committed offsets of one source as of now."""
        name, place = clients.name, clients.place
        with self._logs(clients, own=clients.own_offsets_login) as theirs:
            # made only when the connector first runs
            own = theirs.offsets(place.topic, may_be_missing=place.underneath is not None)
            # another address may be the worker's own topic
            is_workers = (
                place.elsewhere
                and place.topic == place.underneath
                and theirs.cluster_id() == self.worker.cluster_id()
            )
            if place.underneath is None or is_workers:
                return LayeredOffsets(name, place.topic, own)
        worker_offsets = self.worker.offsets(place.underneath)
        return LayeredOffsets(name, place.topic, own, place.underneath, worker_offsets)

    def prepare(self, clients: ConnectorClients) -> None:
        """Creates the offsets topic of a source that has its own."""
        if clients.place.underneath is None:
            return
        with self._logs(clients, own=clients.own_offsets_login) as theirs:
            ensure_own_offsets_topic(theirs.logs, clients)

    def fence(self, name: str, config: Mapping[str, str], tasks: Iterable[int]) -> None:
        """Fences the producers of a source's tasks with their own login, which alone
        is known to have the right to their transactional ids."""
        clients = self.clients(name, config, "source")
        ids = [clients.transactional_id(task) for task in tasks]
        if not ids:
            return
        with self.producer_logs(clients) as theirs:
            theirs.logs.fence(ids)

    def producer_logs(self, clients: ConnectorClients) -> AbstractContextManager[OpenedLogs]:
        """Yields logs that are written to as the source's tasks do, open while the context
        lasts."""
        return self._logs(clients, own=clients.own_producer)

    def close(self) -> None:
        """Closes all logs but the worker's, of which it closes only the readers."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for logs in opened:
            logs.close_readers()
            logs.logs.close()
        self.worker.close_readers()

    @contextmanager
    def _logs(self, clients: ConnectorClients, *, own: bool) -> Iterator[OpenedLogs]:
        """Yields the worker's logs, or `own` ones of the connector, open while the context
        lasts."""
        clients.check()
        if not own:
            yield self.worker
            return
        logs = self._taken(clients)
        try:
            yield logs
        finally:
            with self._lock:
                logs.users -= 1
                logs.used = self._clock()
            self._close_unused()

    def _taken(self, clients: ConnectorClients) -> OpenedLogs:
        sides = (clients.offsets_producer(), clients.offsets_consumer(), clients.admin())
        key = tuple(tuple(sorted(properties.items())) for properties in sides)
        with self._lock:
            logs = self._opened.get(key)
            if logs is None:
                # making clients sends no request
                logs = self._opened[key] = OpenedLogs(self._open_logs(clients))
            logs.users += 1
            return logs

    def _close_unused(self) -> None:
        now_s = self._clock()
        with self._lock:
            unused = [
                key
                for key, logs in self._opened.items()
                if not logs.users and now_s - logs.used > _UNUSED_S
            ]
            closing = [self._opened.pop(key) for key in unused]
        for logs in closing:
            logs.close_readers()
            logs.logs.close()
