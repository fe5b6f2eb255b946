"""Compares partitions and pins as JSON, whatever the order of their keys or entries."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NewType

from connect_specs.desired import OffsetEntry, Partition, Pin

# A partition as JSON with sorted keys; see `partition_key`
PartitionKey = NewType("PartitionKey", str)

# Pin ids of renames and rollbacks in ledgers and plan files; specs cannot use them
RENAME_PIN, ROLLBACK_PIN = "renamed_from:", "rollback"
RESERVED_PINS = (RENAME_PIN, ROLLBACK_PIN)

SINK_PARTITION_KEYS = frozenset({"kafka_topic", "kafka_partition"})


def partition_key(partition: Partition) -> PartitionKey:
    """Returns a key that equal partitions share: JSON with sorted keys.

    `1`, `1.0`, `"1"` and true differ, as they do in Connect's offset keys.
    """
    return PartitionKey(_canonical(dict(partition)))


def is_sink_partition(partition: Partition) -> bool:
    """Whether this is a partition of a topic, as KIP-875 writes a sink's partitions."""
    return partition.keys() >= SINK_PARTITION_KEYS


def sink_entry(at: tuple[str, int], offset: int) -> OffsetEntry:
    """Returns a sink's offset in a partition of a topic, as KIP-875 writes it."""
    return OffsetEntry({"kafka_topic": at[0], "kafka_partition": at[1]}, {"kafka_offset": offset})


def content_hash(pin: Pin) -> str:
    """Returns SHA-256, in hex, over the offsets that the pin sets, without its id and place."""
    if pin.reset:
        return sha256(_canonical({"reset": True}).encode()).hexdigest()
    if pin.to is not None:
        return sha256(_canonical({"to": pin.to}).encode()).hexdigest()
    entries = [
        {"partition": dict(e.partition), "offset": None if e.offset is None else dict(e.offset)}
        for e in sorted(pin.set, key=lambda entry: partition_key(entry.partition))
    ]
    return sha256(_canonical({"set": entries}).encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
