"""Reads a source task's offsets at its start, wherever its connector keeps them (KIP-618).

Most connectors use the worker's topic. The others have their own topic layered over it, which is
created here if it does not exist, and read with the connector's clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connect_runtime.kafka.log import KafkaLogs, connector_logs
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.internal_topics import ensure_own_offsets_topic
from connect_runtime.storage.layered_offsets import LayeredOffsets
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot

_READ_S: Final = 60.0


def read_layers(
    clients: ConnectorClients, read_worker_topic: Callable[[], OffsetSnapshot]
) -> LayeredOffsets:
    """Returns all committed offsets of the task's connector, up to its topics' current ends.

    Raises ConnectError; LogBlocked if an open transaction hides the end.
    """
    place, name = clients.place, clients.name
    if place.underneath is None and not clients.own_offsets_login:
        return LayeredOffsets(name, place.topic, read_worker_topic())
    logs = connector_logs(clients)
    try:
        if place.underneath is not None:
            ensure_own_offsets_topic(logs, clients)
        own = _read(logs, place.topic)
        if place.underneath is None or _same_topic(logs, clients):
            return LayeredOffsets(name, place.topic, own)
    finally:
        logs.close()
    return LayeredOffsets(name, place.topic, own, place.underneath, read_worker_topic())


def _read(logs: KafkaLogs, topic: str) -> OffsetSnapshot:
    reader = logs.reader(topic)
    try:
        return reduce_all(OffsetSnapshot(), reader.read_to_end(_READ_S))
    finally:
        reader.close()


def _same_topic(logs: KafkaLogs, clients: ConnectorClients) -> bool:
    """Whether another address is the worker's own topic."""
    place = clients.place
    if not place.elsewhere or place.topic != place.underneath:
        return False
    worker = KafkaLogs(clients.worker_client())
    try:
        return logs.cluster_id() == worker.cluster_id()
    finally:
        worker.close()
