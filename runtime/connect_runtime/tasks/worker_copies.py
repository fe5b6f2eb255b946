"""Copies a source's offsets from its own offsets topic to the worker's topic (KIP-618).

A removal is written there before the task commits it: otherwise the worker's topic would still show
the offset. Everything else is copied after the commit and may get lost, since the connector's own
topic wins. Written with the worker's login, by a producer without transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka import clients as kafka_clients
from connect_runtime.kafka.errors import reason
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.layered_offsets import LayeredOffsets
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import partition_keys, subject
from connect_specs.partitions import partition_key

_log = logging.getLogger(__name__)

_REMOVED_S: Final = 30.0
_CLOSE_S: Final = 2.0
_SETTINGS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    # undelivered copies must not pile up
    "queue.buffering.max.messages": 10_000,
    "message.timeout.ms": 25_000,
}


class WorkerCopies:
    """Belongs to one task. Takes the records of the connector's own topic."""

    def __init__(self, clients: ConnectorClients, layers: LayeredOffsets, topic: str) -> None:
        self._topic = topic
        self._connector = clients.name
        # a partition that is in the worker's topic has its key bytes there
        self._keys = partition_keys(layers.copied, clients.name)
        self._producer = kafka_clients.producer(clients.worker_client(), _SETTINGS)
        self._told = False

    def remove(self, records: Iterable[NewRecord]) -> None:
        """Writes the tombstones among these; call before they are committed.

        Raises KafkaException unless all are in Kafka.
        """
        failed: list[KafkaError] = []

        def note(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        tombstones = [each for each in records if each.value is None]
        for record in tombstones:
            self._produce(record, note)
        if tombstones and self._producer.flush(_REMOVED_S):
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))
        if failed:
            raise KafkaException(failed[0])

    def copy(self, records: Iterable[NewRecord]) -> None:
        """Copies all but tombstones; call after they were committed. Never waits, and never raises
        for Kafka."""
        self._producer.poll(0)
        for record in records:
            if record.value is None:
                continue
            try:
                self._produce(record, self._note)
            except (BufferError, KafkaException) as error:
                self._tell(str(error))

    def close(self) -> None:
        """Waits a moment for copies in progress, and drops the others."""
        self._producer.flush(_CLOSE_S)
        # its own close() would wait for as long as a message may take
        del self._producer

    def _produce(self, record: NewRecord, note: Any) -> None:
        found = subject(record.key)
        keys = () if found is None else self._keys.get(partition_key(found[1]), ())
        for key in keys or (record.key,):
            self._producer.produce(self._topic, record.value, key, on_delivery=note)

    def _note(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._tell(reason(error))

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("Offsets of %s are not copied to the worker's: %s", self._connector, why)
