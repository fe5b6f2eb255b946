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
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.control import Control, Orders, Wanted
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.tasks.start_reader import StartReader
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_SILENT_S: Final = 3 * ALIVE_EVERY_S


class NodeControl:
    """Implements OrdersFollower."""

    def __init__(self, launch: TaskLaunch, orders: Orders) -> None:
        self._launch = launch
        self._orders = orders
        follow = Follow(launch.topics.assignments, str(launch.id), orders.offset)
        connected = door.begin(follow, client_properties.control(launch, "assignments"))
        self._node = None if connected is None else LineSocket(connected)
        self._heard_at = time.monotonic()
        self._own = Control(launch, orders) if self._node is None else None

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
            _log.info("Task %s follows its assignments by itself from now on", self._launch.id)
            self._node.close()
            self._own = Control(self._launch, self._orders)
            return self._own.wanted(wait_s)
        return self._orders.wanted

    def close(self) -> None:
        for each in (self._own, self._node):
            if each is not None:
                each.close()


class NodeReader:
    """Implements TopicsReader."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._launch = launch
        self._own: StartReader | None = None

    def orders(self, orders: Orders) -> Wanted:
        """Reads the newest assignment before the current end."""
        topic = self._launch.topics.assignments
        answer = self._ask(ReadAssignment(topic, str(self._launch.id)))
        if answer is None:
            return self._reader().orders(orders)
        for record in records_of(answer):
            if record.offset >= orders.offset:
                orders.take(record)
        return orders.wanted

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        answer = self._ask(ReadOffsets(self._launch.topics.offsets, self._launch.id.connector))
        if answer is None:
            return self._reader().source_offsets()
        return reduce_all(OffsetSnapshot(), records_of(answer))

    def _ask(self, request: ReadAssignment | ReadOffsets) -> bytes | None:
        if self._own is not None:
            return None
        return door.ask(request, client_properties.control(self._launch, "start"))

    def _reader(self) -> StartReader:
        if self._own is None:
            self._own = StartReader(self._launch)
        return self._own

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class NodeStatuses:
    """Implements StatusWriter."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._properties = client_properties.control(launch, "statuses")
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
