"""Records, as the results of pipelines, written shortly."""

from __future__ import annotations

from typing import Any

from connect_reconciler.testing.outcomes import Delivered, Dropped, Failed, Outcome, Part, Run
from connect_reconciler.testing.outcomes import ShownRecord as Record


def record(value: Any = None, schema: Any = None, **more: Any) -> Record:
    """A record of topic `orders` with this value."""
    parts: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 1, "timestamp": 2}
    parts |= {"key": Part(), "value": Part(value, schema)} | more
    return Record(**parts)


def delivered(value: Any = None, schema: Any = None, **more: Any) -> Run:
    return run(Delivered(record(value, schema, **more)))


def dropped() -> Run:
    return run(Dropped())


def failed(stage: str = "TRANSFORMATION", message: str = "hunter2") -> Run:
    return run(Failed(stage, "acme.Mask", "DataException", message))


def run(outcome: Outcome) -> Run:
    return Run(outcome, record(), record())
