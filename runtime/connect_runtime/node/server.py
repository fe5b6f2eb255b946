"""Serves the tasks of a node: one thread hears what they ask, and others answer.

Each kind of request has a thread for each topic and login, which ends when it is not used.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import stat
import time
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from connect_runtime.node.asking import Asking, Service
from connect_runtime.node.door import (
    LONGEST_REQUEST,
    Follow,
    ReadAssignment,
    ReadOffsets,
    Request,
    WriteStatus,
    request_of,
)
from connect_runtime.node.following import Following
from connect_runtime.node.reads import Reads, changed_task
from connect_runtime.node.rounds import Rounds
from connect_runtime.node.statuses import Statuses
from connect_runtime.storage.offsets_topic import changed_connector

_TICK_S: Final = 1.0
# macOS, where nothing may limit them, refuses more
_MOST_DESCRIPTORS: Final = 10_240
# Descriptors that are left to the clients, whose brokers may move
_OF_CLIENTS: Final = 100


def serve(door: socket.socket, parent: int) -> None:
    """Serves until the process that forked this one is gone."""
    # a connection for each task, where 1,024 descriptors are a common limit
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ours = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ours, hard))
    Server(door, lambda: os.getppid() != parent, most=ours - _OF_CLIENTS).serve()


class Server:
    """Serves `most` connections at a time."""

    def __init__(self, door: socket.socket, over: Callable[[], bool], most: int) -> None:
        self._door = door
        self._over = over
        self._most = most
        # asked once for each request: poll(2) would look at all connections each time
        self._waiting = selectors.DefaultSelector()
        self._connected: set[Asking] = set()
        self._services: dict[bytes, Service] = {}

    def serve(self) -> None:
        """Returns when `over`, and ends all connections."""
        self._waiting.register(self._door, selectors.EVENT_READ)
        told_at = time.monotonic()
        while not self._over():
            for ready, _ in self._waiting.select(_TICK_S):
                if ready.fileobj is self._door:
                    self._accept()
                else:
                    self._heard(ready.data)
            if time.monotonic() - told_at >= _TICK_S:
                told_at = time.monotonic()
                for service in list(self._services.values()):
                    service.tell_alive()
                self._services = {k: v for k, v in self._services.items() if not v.over}
        for asking in list(self._connected):
            self._forget(asking)
        self._waiting.close()

    def _accept(self) -> None:
        _, numbers, _, _ = socket.recv_fds(self._door, 1, 1)
        for number in numbers:
            if len(self._connected) >= self._most or not _is_socket(number):
                os.close(number)
                continue
            connected = socket.socket(fileno=number)
            connected.setblocking(False)
            asking = Asking(connected)
            try:
                self._waiting.register(connected, selectors.EVENT_READ, asking)
            except OSError:  # Linux limits what a user's processes may wait for together
                connected.close()
                continue
            self._connected.add(asking)

    def _heard(self, asking: Asking) -> None:
        """Takes bytes of a task that asks, or notices its end."""
        try:
            chunk = asking.connected.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        asking.text += chunk
        complete = asking.text.endswith(b"\n")
        if chunk and not complete and len(asking.text) <= LONGEST_REQUEST:
            return
        if not chunk or not complete or asking.service is not None or not self._take(asking):
            self._forget(asking)

    def _take(self, asking: Asking) -> bool:
        try:
            request, properties = request_of(bytes(asking.text))
        except ValueError:
            return False
        asking.text.clear()
        which = orjson.dumps(
            [type(request).__name__, request.topic, properties], option=orjson.OPT_SORT_KEYS
        )
        service = self._services.get(which)
        if service is None or not service.add(asking, request):
            service = _service_for(request, properties)
            service.add(asking, request)
            try:
                service.start()
            except RuntimeError:  # no thread is left: those that run go on
                return False
            self._services[which] = service
        asking.service = service
        return True

    def _forget(self, asking: Asking) -> None:
        self._waiting.unregister(asking.connected)
        self._connected.remove(asking)
        if asking.service is not None:
            asking.service.remove(asking)
        asking.connected.close()


def _is_socket(number: int) -> bool:
    """Returns whether it is a socket, as a task meant to send: a plugin may close descriptors of
    others, and open its own under their numbers."""
    return stat.S_ISSOCK(os.fstat(number).st_mode)


def _service_for(request: Request, properties: Mapping[str, str]) -> Service:
    match request:
        case Follow(topic=topic):
            return Following(topic, properties)
        case ReadAssignment(topic=topic):
            return Rounds("read-assignments", lambda: Reads(topic, properties, changed_task))
        case ReadOffsets(topic=topic):
            return Rounds("read-offsets", lambda: Reads(topic, properties, changed_connector))
        case WriteStatus():
            return Statuses(properties)
