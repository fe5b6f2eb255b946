"""Prepares a source task's topics.

The topics that it writes to are created with the connector's settings (KIP-158), and the offsets of
a connector with its own topic are copied to the worker's (KIP-618).
"""

from __future__ import annotations

from collections.abc import Sequence

from connect_runtime.api import ConnectorError
from connect_runtime.kafka.new_topics import NewTopics
from connect_runtime.storage.layered_offsets import LayeredOffsets
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.interrupted import kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.worker_copies import WorkerCopies


class SourceTopics:
    """Belongs to one task. All methods raise Interrupted if Kafka is silent for too long."""

    def __init__(
        self, setup: TaskSetup, layers: LayeredOffsets
    ) -> None:
        clients, creation = setup.source_clients, setup.topic_creation
        self._new = None if creation is None else NewTopics(clients.admin(), creation)
        below = layers.underneath
        self._copies = None if below is None else WorkerCopies(clients, layers, below)
        self._offsets = layers.topic if setup.exactly_once else None

    def prepare(self, topic: str) -> None:
        """Call before sending records. Raises ConnectorError for a topic that records must not go
        to, or that cannot be created."""
        if topic == self._offsets:
            raise ConnectorError(
                "Source tasks may not produce to their own offsets topics when exactly-once"
                " support is enabled"
            )
        if self._new is not None:
            with kafka_may_interrupt():
                self._new.ensure(topic)

    def before_commit(self, offsets: Sequence[NewRecord]) -> None:
        """Call before these offsets are committed."""
        if self._copies is not None:
            with kafka_may_interrupt():
                self._copies.remove(offsets)

    def after_commit(self, offsets: Sequence[NewRecord]) -> None:
        """Call after these offsets were committed."""
        if self._copies is not None:
            self._copies.copy(offsets)

    def close(self) -> None:
        """Waits a moment for copies in progress."""
        if self._copies is not None:
            self._copies.close()
