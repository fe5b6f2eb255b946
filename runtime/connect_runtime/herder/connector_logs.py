"""Opens and shares logs on the Kafka clusters of connectors.

A connector needs logs of its own if it overrides how its clients reach Kafka; otherwise it uses the
worker's. Logs are opened on demand, shared by connectors with the same clients, and closed when
idle. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage import offsets_topic
from connect_runtime.storage.log import LogBlocked, LogReader, Logs
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


class ConnectorLogs:
    """Gives each connector its logs. `worker`: the logs of connectors that need none of their
    own."""

    def __init__(
        self, worker: Logs, open_logs: OpenLogs, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.worker = OpenedLogs(worker)
        self._open_logs = open_logs
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: dict[_Key, OpenedLogs] = {}

    def of(self, clients: ConnectorClients) -> AbstractContextManager[OpenedLogs]:
        """Yields the logs that a connector's offsets are in, open while the context lasts. Raises
        ConnectError, and ConfigError for an override that the worker forbids."""
        return self._open(clients, own=clients.own_offsets_login)

    def of_producers(self, clients: ConnectorClients) -> AbstractContextManager[OpenedLogs]:
        """Yields logs that are written to as the source's tasks do. Raises as `of` does."""
        return self._open(clients, own=clients.own_producer)

    @contextmanager
    def _open(self, clients: ConnectorClients, *, own: bool) -> Iterator[OpenedLogs]:
        clients.check()
        if not own:
            yield self.worker
            return
        found = self._taken(clients)
        try:
            yield found
        finally:
            with self._lock:
                found.users -= 1
                found.used = self._clock()
            self._close_unused()

    def close(self) -> None:
        """Closes all logs but the worker's, of which it closes only the readers."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for each in opened:
            each.close_readers()
            each.logs.close()
        self.worker.close_readers()

    def _taken(self, clients: ConnectorClients) -> OpenedLogs:
        sides = (clients.offsets_producer(), clients.offsets_consumer(), clients.admin())
        key = tuple(tuple(sorted(each.items())) for each in sides)
        with self._lock:
            found = self._opened.get(key)
            if found is None:
                # making clients sends no request
                found = self._opened[key] = OpenedLogs(self._open_logs(clients))
            found.users += 1
            return found

    def _close_unused(self) -> None:
        now = self._clock()
        with self._lock:
            unused = [
                key
                for key, each in self._opened.items()
                if not each.users and now - each.used > _UNUSED_S
            ]
            closing = [self._opened.pop(key) for key in unused]
        for each in closing:
            each.close_readers()
            each.logs.close()
