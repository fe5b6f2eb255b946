"""Copies of a source's offsets in the worker's topic, under an offsets topic of its own (KIP-618).

A removal is written there before the task commits it: the worker's topic would show the offset
again. Everything else is copied after the commit and may get lost, since the connector's own topic
wins. Written with the worker's login, by a producer without transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from connect_runtime.api import SourceOffset, SourcePartition
from connect_runtime.connector_clients import ConnectorClients
from connect_runtime.kafka import clients as kafka_clients
from connect_runtime.kafka.errors import reason
from connect_runtime.storage.layered_offsets import LayeredOffsets
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.source_offsets import SourceOffsets

_log = logging.getLogger(__name__)

Moved = Sequence[tuple[SourcePartition, SourceOffset | None]]

_REMOVED_S: Final = 30.0
_CLOSE_S: Final = 2.0
_SETTINGS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    # copies that nobody takes must not pile up
    "queue.buffering.max.messages": 10_000,
    "message.timeout.ms": 60_000,
}


class WorkerCopies:
    """Belongs to one task. `layers` must have a topic underneath."""

    def __init__(self, clients: ConnectorClients, layers: LayeredOffsets, client_id: str) -> None:
        assert layers.underneath is not None, "without a topic of its own nothing is copied"
        self._offsets = SourceOffsets(clients.name, layers.underneath, layers.copied)
        properties = clients.worker_client() | {"client.id": client_id}
        self._producer = kafka_clients.producer(properties, _SETTINGS)
        self._connector = clients.name
        self._told = False

    def remove(self, moved: Moved) -> None:
        """Writes the tombstones among these offsets; to be called before they are committed.

        Raises KafkaException unless all are in Kafka.
        """
        records = self._offsets.records(each for each in moved if each[1] is None)
        if not records:
            return
        failed: list[KafkaError] = []

        def note(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            self._produce(record, note)
        if self._producer.flush(_REMOVED_S):
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))
        if failed:
            raise KafkaException(failed[0])

    def copy(self, moved: Moved) -> None:
        """Copies these offsets, of which none is lost if a copy is; to be called after they were
        committed. Never raises for Kafka, never waits."""
        self._producer.poll(0)
        for record in self._offsets.records(each for each in moved if each[1] is not None):
            try:
                self._produce(record, self._note)
            except (BufferError, KafkaException) as error:
                self._tell(str(error))

    def close(self) -> None:
        """Waits a moment for copies that are under way."""
        self._producer.flush(_CLOSE_S)
        self._producer.close()

    def _produce(self, record: NewRecord, note: Any) -> None:
        self._producer.produce(record.topic, record.value, record.key, on_delivery=note)

    def _note(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._tell(reason(error))

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("Offsets of %s are not copied to the worker's: %s", self._connector, why)
