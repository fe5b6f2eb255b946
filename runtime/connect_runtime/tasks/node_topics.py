"""Reads and writes the cluster's own topics through the process that serves the node.

Each does it with a client of its own where nobody serves, and from the moment on at which that
process is gone or silent.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from connect_runtime.kafka.status_writer import TRY_S, KafkaStatuses, Unwritten, unwritten_of
from connect_runtime.node import door
from connect_runtime.node.door import Follow, ReadAssignment, ReadOffsets, WriteStatus
from connect_runtime.node.following import ALIVE_EVERY_S
from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.served_messages import records_of
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.control import Control, Orders, Wanted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.start_reader import StartReader
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_SILENT_S: Final = 3 * ALIVE_EVERY_S


class NodeControl:
    """Implements OrdersFollower."""

    def __init__(self, setup: TaskSetup, orders: Orders) -> None:
        self._setup = setup
        self._orders = orders
        follow = Follow(setup.topics.assignments, str(setup.id), orders.offset)
        connected = door.begin(follow, setup.worker_client("assignments"))
        self._node = None if connected is None else LineSocket(connected)
        self._heard_at = time.monotonic()
        self._own = Control(setup, orders) if self._node is None else None

    def wanted(self, wait_s: float = 0.0) -> Wanted:
        """Returns what to do now; waits up to `wait_s` for records if there are none."""
        if self._own is not None:
            return self._own.wanted(wait_s)
        assert self._node is not None, "one of both follows"
        try:
            line = self._node.receive(wait_s)
            while line is not None:
                self._heard_at = time.monotonic()
                for record in records_of(line):
                    self._orders.take(record)
                line = self._node.receive(0.0)
            lost = time.monotonic() - self._heard_at > _SILENT_S
        except (OSError, EOFError):
            lost = True
        if lost:
            _log.info("Task %s follows its assignments by itself from now on", self._setup.id)
            self._node.close()
            self._own = Control(self._setup, self._orders)
            return self._own.wanted(wait_s)
        return self._orders.wanted

    def close(self) -> None:
        for each in (self._own, self._node):
            if each is not None:
                each.close()


class NodeReader:
    """Implements TopicsReader."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._own: StartReader | None = None

    def orders(self, orders: Orders) -> Wanted:
        """Reads the newest assignment before the current end."""
        topic = self._setup.topics.assignments
        answer = self._ask(ReadAssignment(topic, str(self._setup.id)))
        if answer is None:
            return self._reader().orders(orders)
        for record in records_of(answer):
            if record.offset >= orders.offset:
                orders.take(record)
        return orders.wanted

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        answer = self._ask(ReadOffsets(self._setup.topics.offsets, self._setup.id.connector))
        if answer is None:
            return self._reader().source_offsets()
        return reduce_all(OffsetSnapshot(), records_of(answer))

    def _ask(self, request: ReadAssignment | ReadOffsets) -> bytes | None:
        if self._own is not None:
            return None
        return door.ask(request, self._setup.worker_client("start"))

    def _reader(self) -> StartReader:
        if self._own is None:
            self._own = StartReader(self._setup)
        return self._own

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class NodeStatuses:
    """Implements StatusWriter."""

    def __init__(self, setup: TaskSetup) -> None:
        self._properties = setup.worker_client("statuses")
        self._own: KafkaStatuses | None = None

    def write(self, record: NewRecord) -> Unwritten | None:
        if self._own is None:
            answer = door.ask(_status(record), self._properties)
            if answer is not None:
                return unwritten_of(answer)
            try:
                self._own = KafkaStatuses(self._properties)
            except ConnectError as error:  # the worker's login is invalid
                return Unwritten(str(error), passing=False)
        return self._own.write(record)

    def close(self) -> None:
        """Ends the task's own producer, with what it could not deliver."""
        if self._own is not None:
            self._own.close()


def _status(record: NewRecord) -> WriteStatus:
    value = None if record.value is None else record.value.decode()
    return WriteStatus(record.topic, record.key.decode(), value, time.monotonic() + TRY_S)
