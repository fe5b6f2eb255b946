"""Comparing partitions and pins: canonical texts that no order of keys or entries can change."""

from __future__ import annotations

import json
from hashlib import sha256

from connect_specs.desired import Partition, Pin

# What ledgers and plan files call a rename, and the offsets of a rollback: no pin of a spec
RENAME_PIN, ROLLBACK_PIN = "renamed_from:", "rollback"
RESERVED_PINS = (RENAME_PIN, ROLLBACK_PIN)

SINK_PARTITION_KEYS = frozenset({"kafka_topic", "kafka_partition"})


def canonical_partition(partition: Partition) -> str:
    """One text for equal partitions: JSON with sorted keys. `1`, `1.0`, `"1"` and true differ, as
    they do in Connect's offset keys."""
    return _canonical(dict(partition))


def is_sink_partition(partition: Partition) -> bool:
    """Whether this is a partition of a topic, as KIP-875 writes them for sinks."""
    return partition.keys() >= SINK_PARTITION_KEYS


def content_hash(pin: Pin) -> str:
    """SHA-256, in hex, over what the pin asks for; its id and place do not count."""
    if pin.reset:
        return sha256(_canonical({"reset": True}).encode()).hexdigest()
    if pin.to is not None:
        return sha256(_canonical({"to": pin.to}).encode()).hexdigest()
    entries = [
        {"partition": dict(e.partition), "offset": None if e.offset is None else dict(e.offset)}
        for e in sorted(pin.set, key=lambda entry: canonical_partition(entry.partition))
    ]
    return sha256(_canonical({"set": entries}).encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
