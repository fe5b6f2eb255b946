"""Records, as the results of pipelines, written shortly."""

from __future__ import annotations

from typing import Any

from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownValue,
)
from connect_reconciler.testing.outcomes import ShownRecord as Record


def record(value: Any = None, schema: Any = None, **more: Any) -> Record:
    """A record of topic `orders` with this value."""
    parts: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 1, "timestamp": 2}
    parts |= {"key": ShownValue(), "value": ShownValue(value, schema)} | more
    return Record(**parts)


def delivered(value: Any = None, schema: Any = None, **more: Any) -> RecordRun:
    return run(DeliveredRecord(record(value, schema, **more)))


def dropped() -> RecordRun:
    return run(DroppedRecord())


def failed(stage: str = "TRANSFORMATION", message: str = "hunter2") -> RecordRun:
    return run(FailedRecord(stage, "acme.Mask", "DataException", message))


def run(outcome: Outcome) -> RecordRun:
    return RecordRun(outcome, record(), record())
