"""Follows what the leader wants of this attempt, through the process that does so for a node."""

from __future__ import annotations

import logging
import time
from typing import Final

from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.served_messages import records_of
from connect_runtime.tasks import client_properties, node_orders
from connect_runtime.tasks.control import Control, Orders, Wanted
from connect_runtime.tasks.launch import TaskLaunch

_log = logging.getLogger(__name__)

_CONNECT_S: Final = 2.0
_SILENT_S: Final = 3 * node_orders.ALIVE_EVERY_S


class NodeControl:
    """Implements OrdersFollower. Has a consumer of its own where no process follows for the node,
    and from the moment on at which that is gone or silent."""

    def __init__(self, launch: TaskLaunch, orders: Orders) -> None:
        self._launch = launch
        self._orders = orders
        self._node = _ask(launch, orders)
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


def _ask(launch: TaskLaunch, orders: Orders) -> LineSocket | None:
    properties = client_properties.control(launch, "assignments")
    request = node_orders.Request(
        launch.topics.assignments, str(launch.id), orders.offset, properties
    ).line()
    if len(request) > node_orders.LONGEST_REQUEST:
        return None
    connected = node_orders.connect(_CONNECT_S)
    if connected is None:
        return None
    node = LineSocket(connected)
    try:
        node.send(request)
    except OSError:
        node.close()
        return None
    return node
