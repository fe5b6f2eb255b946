"""Checks the shape of a Connect cluster's internal topics, with Connect's error texts.

Shared by every implementation of Logs.
"""

from __future__ import annotations

from connect_runtime.settings.connector_clients import OFFSETS_TOPIC_KEY, ConnectorClients
from connect_runtime.storage.log import Logs
from connect_specs.diagnostics import Diagnostic, Failed

# Connect partitions these; every other topic of a cluster needs total order.
_OF_MANY_PARTITIONS = frozenset(
    {"offset.storage.topic", "offsets.storage.topic", "status.storage.topic"}
)
_REPLICATION = {
    "offset.storage.topic": "offset.storage.replication.factor",
    "offsets.storage.topic": "offset.storage.replication.factor",
    "status.storage.topic": "status.storage.replication.factor",
}


def replication_key(key: str) -> str:
    """Returns the worker's setting for the replicas of a new topic that the setting `key` names."""
    return _REPLICATION.get(key, "config.storage.replication.factor")


def ensure_own_offsets_topic(logs: Logs, clients: ConnectorClients) -> None:
    """Creates a source's own offsets topic with the same shape as the worker's (KIP-618). Raises
    ConnectError."""
    new = clients.new_offsets_topic
    logs.ensure_compacted(
        clients.place.topic,
        new.partitions,
        "source connector offsets",
        key=OFFSETS_TOPIC_KEY,
        replication_factor=new.replication_factor,
        config=new.config,
    )


def check_compacted(topic: str, policy: str, purpose: str, key: str) -> None:
    """Raises Failed unless the topic's only cleanup policy is compaction."""
    if policy == "compact":
        return
    raise Failed(
        Diagnostic(
            "topic.not-compacted",
            f"Topic '{topic}' supplied via the '{key}' property is required to have "
            f"'cleanup.policy=compact' to guarantee consistency and durability of {purpose}, but "
            f"found the topic currently has 'cleanup.policy={policy}'. Continuing would likely "
            f"result in eventually losing {purpose} and problems restarting this Connect cluster "
            f"in the future. Change the '{key}' property in the Connect worker configurations to "
            "use a topic with 'cleanup.policy=compact'.",
        )
    )


def check_partitions(topic: str, partitions: int, purpose: str, key: str) -> None:
    """Raises Failed if a topic that needs a single partition has more."""
    if partitions == 1 or key in _OF_MANY_PARTITIONS:
        return
    raise Failed(
        Diagnostic(
            "topic.partitions",
            f"Topic '{topic}' supplied via the '{key}' property is required to have a single "
            f"partition in order to guarantee consistency of {purpose}, but found "
            f"{partitions} partitions.",
        )
    )
