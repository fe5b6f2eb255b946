"""Opens what a task uses of its cluster's own topics, wherever they are.

In Kafka, through the process that serves the node where there is one (`node_topics`), or, in
standalone mode, in the worker's process (`served_topics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from connect_runtime.kafka.status_writer import Unwritten
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.control import Orders, Wanted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.node_topics import NodeControl, NodeReader, NodeStatuses
from connect_runtime.tasks.plain_offsets import KafkaOffsets
from connect_runtime.tasks.served_topics import (
    ServedControl,
    ServedOffsets,
    ServedReader,
    ServedStatuses,
)


class TopicsReader(Protocol):
    """Reads topics up to their current ends. Raises Interrupted."""

    def orders(self, orders: Orders) -> Wanted: ...
    def source_offsets(self) -> OffsetSnapshot: ...
    def close(self) -> None: ...


class OrdersFollower(Protocol):
    """Follows what the leader wants of an attempt. Raises Interrupted."""

    def wanted(self, wait_s: float = 0.0) -> Wanted: ...
    def close(self) -> None: ...


class OffsetsWriter(Protocol):
    """Writes source offsets without transactions."""

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Whether all are written; the log says why not."""
        ...

    def close(self) -> None: ...


class StatusWriter(Protocol):
    """Writes one status record, and returns None once it is written."""

    def write(self, record: NewRecord) -> Unwritten | None: ...
    def close(self) -> None: ...


def open_reader(setup: TaskSetup) -> TopicsReader:
    return NodeReader(setup) if setup.socket is None else ServedReader(setup)


def follow_orders(setup: TaskSetup, orders: Orders) -> OrdersFollower:
    """Follows from the position of `orders`."""
    return NodeControl(setup, orders) if setup.socket is None else ServedControl(setup, orders)


def open_offsets(setup: TaskSetup) -> OffsetsWriter:
    return KafkaOffsets(setup) if setup.socket is None else ServedOffsets(setup)


def open_statuses(setup: TaskSetup) -> StatusWriter:
    return NodeStatuses(setup) if setup.socket is None else ServedStatuses(setup)
