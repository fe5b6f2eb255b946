"""Serves the tasks of an agent: one thread takes their requests, and others answer.

Each kind of request has a service for each topic and login, which ends when it is not used.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import selectors
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

import orjson

from connect_runtime.agent.client import file_of
from connect_runtime.agent.messages import Request, request_of

_log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
# macOS, where nothing may limit them, refuses more
_MOST_DESCRIPTORS: Final = 10_240
# Descriptors that are left to the clients, whose brokers may move
_OF_CLIENTS: Final = 100
_LARGEST_REQUEST: Final = 256 << 20
_UNUSED_S: Final = 60.0


class TaskConnection:
    """A connection of a task, for one request. Only the serving thread closes it, once its service
    has removed it; others shut it down. Nothing waits for a task that does not read: it notices
    that later, and asks again."""

    def __init__(self, connected: socket.socket) -> None:
        self.connected = connected
        self.service: Service | None = None
        self._waiting = select.poll()
        self._waiting.register(connected, select.POLLIN)

    @property
    def waits(self) -> bool:
        """Returns whether the task still waits: it sends nothing, so what arrives is its end."""
        return not self._waiting.poll(0)

    def send(self, content: bytes) -> None:
        """Sends all of it at once, or ends the connection."""
        try:
            if self.connected.send(content) == len(content):
                return
        except OSError:
            pass
        self.end()

    def pass_on(self, joined: socket.socket, line: bytes) -> None:
        """Sends a connection with a line, or ends this one."""
        try:
            socket.send_fds(self.connected, [line], [joined.fileno()])
        except OSError:
            self.end()

    def answer(self, file: BinaryIO) -> None:
        """Sends a file, and ends the connection: a child of the task may hold it open."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.connected, [b"!"], [file.fileno()])
        self.end()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.connected.shutdown(socket.SHUT_RDWR)


class Service(Protocol):
    """Answers one kind of request on threads of its own."""

    @property
    def over(self) -> bool:
        """Returns whether it has ended; then it takes no more requests."""
        ...

    def start(self) -> None: ...

    def add(self, connection: TaskConnection, request: Any) -> bool:
        """Takes a request; False if this has ended."""
        ...

    def remove(self, connection: TaskConnection) -> None:
        """Sends nothing to it from here on."""
        ...


class QueuedService:
    """A service with one thread. `_serve` runs on it, and returns once `_take` has set `over`; that
    happens when there was no request for a while."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: dict[TaskConnection, Any] = {}
        self._unanswered: dict[TaskConnection, Any] = {}
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def add(self, connection: TaskConnection, request: Any) -> bool:
        with self._changed:
            if self.over:
                return False
            self._waiting[connection] = request
            self._changed.notify()
            return True

    def remove(self, connection: TaskConnection) -> None:
        with self._changed:
            self._waiting.pop(connection, None)
            self._unanswered.pop(connection, None)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception:
            _log.exception("Tasks of this node get no answers: %s", self._name)
        finally:
            with self._changed:
                self.over = True
                for connection in (*self._waiting, *self._unanswered):
                    connection.end()

    def _serve(self) -> None:
        raise NotImplementedError

    def _take(self) -> dict[TaskConnection, Any]:
        """Returns the requests since the last call whose tasks still wait; waits for one if all
        have their answers."""
        with self._changed:
            if not self._unanswered:
                self._changed.wait_for(lambda: self._waiting, _UNUSED_S)
            self.over = not self._waiting and not self._unanswered
            # under the lock, their connections are open
            requests = {c: request for c, request in self._waiting.items() if c.waits}
            self._waiting.clear()
            self._unanswered.update(requests)
            return requests

    def _answer(self, content: bytes, *connections: TaskConnection) -> None:
        # not made under the lock: it may be large
        with file_of(content) as file, self._changed:
            for connection in connections:
                if self._unanswered.pop(connection, None) is not None:
                    connection.answer(file)


ServiceFactory: TypeAlias = Callable[[Request, Mapping[str, str]], Service]


def raise_descriptor_limit() -> int:
    """Returns how many connections this process may serve: each task has one, where 1,024
    descriptors are a common limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if 0 <= soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most - _OF_CLIENTS


class AgentServer:
    """Serves `most` connections at a time that come through `door`. `service_for` makes the service
    for a kind of request; it raises ValueError for one that tasks may not have."""

    def __init__(
        self,
        door: socket.socket,
        service_for: ServiceFactory,
        over: Callable[[], bool],
        most: int,
    ) -> None:
        self._door = door
        self._service_for = service_for
        self._over = over
        self._most = most
        # asked once for each request: poll(2) would look at all connections each time
        self._waiting = selectors.DefaultSelector()
        self._connections: set[TaskConnection] = set()
        self._services: dict[bytes, Service] = {}

    def serve(self) -> None:
        """Returns when `over`, and ends all connections."""
        self._waiting.register(self._door, selectors.EVENT_READ)
        while not self._over():
            for ready, _ in self._waiting.select(_TICK_S):
                if ready.fileobj is self._door:
                    self._accept()
                else:  # a task sends nothing more: this is its end
                    self._forget(ready.data)
            self._services = {k: v for k, v in self._services.items() if not v.over}
        for connection in list(self._connections):
            self._forget(connection)
        self._waiting.close()

    def _accept(self) -> None:
        _, descriptors, _, _ = socket.recv_fds(self._door, 1, 2)
        if len(self._connections) >= self._most or not _are_connection_and_file(descriptors):
            for descriptor in descriptors:
                os.close(descriptor)
            return
        connected = socket.socket(fileno=descriptors[0])
        connected.setblocking(False)
        connection = TaskConnection(connected)
        try:
            content = _content(descriptors[1])
            self._waiting.register(connected, selectors.EVENT_READ, connection)
        except OSError:  # Linux limits what a user's processes may wait for together
            connected.close()
            return
        self._connections.add(connection)
        if not self._take(connection, content):
            self._forget(connection)

    def _take(self, connection: TaskConnection, content: bytes) -> bool:
        """Returns whether a service has the request."""
        try:
            request, properties = request_of(content)
            key = orjson.dumps(
                [type(request).__name__, request.topic, properties], option=orjson.OPT_SORT_KEYS
            )
            service = self._services.get(key)
            if service is None or not service.add(connection, request):
                service = self._service_for(request, properties)
                if not service.add(connection, request):
                    return False
                service.start()
                self._services[key] = service
        except (ValueError, RuntimeError):  # or no thread is left: those that run go on
            return False
        connection.service = service
        return True

    def _forget(self, connection: TaskConnection) -> None:
        self._waiting.unregister(connection.connected)
        self._connections.remove(connection)
        if connection.service is not None:
            connection.service.remove(connection)
        connection.connected.close()


def _content(descriptor: int) -> bytes:
    """Returns the content of a file, which it closes. It is not mapped: the task may cut it."""
    try:
        return os.pread(descriptor, min(os.fstat(descriptor).st_size, _LARGEST_REQUEST), 0)
    finally:
        os.close(descriptor)


def _are_connection_and_file(descriptors: list[int]) -> bool:
    """Returns whether they are those of a request: a plugin may close descriptors of others, and
    open its own under their numbers."""
    modes = [os.fstat(descriptor).st_mode for descriptor in descriptors]
    return len(modes) == 2 and stat.S_ISSOCK(modes[0]) and stat.S_ISREG(modes[1])
