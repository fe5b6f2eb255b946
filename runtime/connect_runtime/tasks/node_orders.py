"""Follows the assignments topic once for all tasks that are forked from one process.

A consumer takes 1 MB and five threads, and wakes up many times a second: too much for each of a
thousand idle tasks. One process of a node does so instead (`spark/node_watch`). A task hands it one
end of a socket pair and says what it wants to follow; then it gets the records of its key, and a
line now and then, so that it notices a process that is frozen. A task that cannot be served follows
the topic by itself (`control.py`): nothing depends on this process but its cost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.served_messages import records_line
from connect_runtime.tasks.control import SMALL

_log = logging.getLogger(__name__)

# How often each task hears from this process
ALIVE_EVERY_S: Final = 10.0
_POLL_S: Final = 1.0
_UNUSED_S: Final = 60.0
# Fits into a socket's buffer, so that a task never waits for a frozen process
LONGEST_REQUEST: Final = 1 << 16
# Descriptors that are left to the consumers, whose brokers may move
_OF_CONSUMERS: Final = 100

_door: socket.socket | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a task follows: records of `key` from `offset` on. `properties` are those of the
    consumer, in Java's names."""

    topic: str
    key: str
    offset: int
    properties: Mapping[str, str]

    def line(self) -> bytes:
        """Returns the request as one line, without its end."""
        return orjson.dumps([self.topic, self.key, self.offset, dict(self.properties)])

    @classmethod
    def of(cls, line: bytes) -> Request:
        """Raises ValueError or TypeError for what is no request."""
        topic, key, offset, properties = orjson.loads(line)
        return cls(str(topic), str(key), int(offset), dict(properties))


def open_door() -> socket.socket:
    """Returns the side of the process that is to follow. Processes forked afterwards can ask it."""
    global _door
    _door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return theirs


def close_door() -> None:
    """Nobody serves here."""
    global _door
    if _door is not None:
        _door.close()
        _door = None


def connect(wait_s: float) -> socket.socket | None:
    """Returns a connection for one request; None if nobody serves here."""
    if _door is None:
        return None
    ours, theirs = socket.socketpair()
    try:
        _door.settimeout(wait_s)
        socket.send_fds(_door, [b"."], [theirs.fileno()])
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()
    return ours


def serve(door: socket.socket, parent: int) -> None:
    """Follows until the process that forked this one is gone."""
    # a connection for each task, where 1,024 descriptors are a common limit
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Server(door, lambda: os.getppid() != parent, most=hard - _OF_CONSUMERS).serve()


class Server:
    """Serves `most` tasks on one thread; each topic that they follow has a thread of its own."""

    def __init__(self, door: socket.socket, over: Callable[[], bool], most: int) -> None:
        self._door = door
        self._over = over
        self._most = most
        self._waiting = select.poll()
        self._connected: dict[int, _Asking] = {}
        self._topics: dict[bytes, _Topic] = {}

    def serve(self) -> None:
        """Returns when `over`, and ends all connections."""
        self._waiting.register(self._door, select.POLLIN)
        told_at = time.monotonic()
        while not self._over():
            for number, _ in self._waiting.poll(_POLL_S * 1000):
                if number == self._door.fileno():
                    self._accept()
                else:
                    self._heard(self._connected[number])
            if time.monotonic() - told_at >= ALIVE_EVERY_S:
                told_at = time.monotonic()
                for topic in list(self._topics.values()):
                    topic.tell_alive()
                self._topics = {k: v for k, v in self._topics.items() if not v.over}
        for asking in list(self._connected.values()):
            self._forget(asking)

    def _accept(self) -> None:
        _, numbers, _, _ = socket.recv_fds(self._door, 1, 1)
        for number in numbers:
            if len(self._connected) >= self._most:
                os.close(number)
                continue
            connected = socket.socket(fileno=number)
            connected.setblocking(False)
            self._connected[number] = _Asking(connected)
            self._waiting.register(connected, select.POLLIN)

    def _heard(self, asking: _Asking) -> None:
        """A task has asked, or ended."""
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
        if not chunk or not complete or asking.topic is not None or not self._follow(asking):
            self._forget(asking)

    def _follow(self, asking: _Asking) -> bool:
        try:
            request = Request.of(bytes(asking.text))
        except (ValueError, TypeError):
            return False
        asking.text.clear()
        which = orjson.dumps([request.topic, dict(request.properties)], option=orjson.OPT_SORT_KEYS)
        topic = self._topics.get(which)
        if topic is None or not topic.add(asking, request):
            topic = self._topics[which] = _Topic(request)
            topic.add(asking, request)
            topic.start()
        asking.topic = topic
        return True

    def _forget(self, asking: _Asking) -> None:
        self._waiting.unregister(asking.connected)
        del self._connected[asking.connected.fileno()]
        if asking.topic is not None:
            asking.topic.remove(asking)
        asking.connected.close()


@dataclass(slots=True, eq=False)
class _Asking:
    """A connection of a task. Only the serving thread closes it; others shut it down."""

    connected: socket.socket
    text: bytearray = field(default_factory=bytearray)
    topic: _Topic | None = None
    key: bytes = b""
    offset: int = 0

    def send(self, line: bytes) -> None:
        """A task that does not read finds out later, and follows by itself."""
        try:
            if self.connected.send(line) == len(line):
                return
        except OSError:
            pass
        self.end()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.connected.shutdown(socket.SHUT_RDWR)


class _Topic:
    """One topic, read from its beginning by one consumer: it is compacted, and small."""

    def __init__(self, request: Request) -> None:
        self._name = request.topic
        self._properties = request.properties
        self._lock = threading.Lock()
        self._asking: dict[bytes, list[_Asking]] = {}
        self._newest: dict[bytes, LogRecord] = {}
        self._next = 0
        self._used_at = time.monotonic()
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"follow-{self._name}", daemon=True).start()

    def add(self, asking: _Asking, request: Request) -> bool:
        """Begins to serve a task; False if this has ended."""
        asking.key, asking.offset = request.key.encode(), request.offset
        with self._lock:
            if self.over:
                return False
            self._asking.setdefault(asking.key, []).append(asking)
            newest = self._newest.get(asking.key)
            if newest is not None and newest.offset >= asking.offset:
                asking.send(_line(newest))
            return True

    def remove(self, asking: _Asking) -> None:
        with self._lock:
            left = [each for each in self._asking.pop(asking.key, ()) if each is not asking]
            if left:
                self._asking[asking.key] = left

    def tell_alive(self) -> None:
        with self._lock:
            for asking in self._every():
                asking.send(_ALIVE)

    def _every(self) -> list[_Asking]:
        return [each for some in self._asking.values() for each in some]

    def _run(self) -> None:
        try:
            self._follow()
        except Exception:
            _log.exception("Assignments are not followed for all tasks of this node")
        finally:
            with self._lock:
                self.over = True
                for asking in self._every():
                    asking.end()

    def _follow(self) -> None:
        consumer: Consumer = clients.consumer(self._properties, SMALL)
        try:
            consumer.assign([TopicPartition(self._name, 0, 0)])
            while not self._unused():
                message: Any = consumer.poll(_POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    if not self._take(record_of(message)):
                        return
                elif error.fatal():
                    return
        finally:
            consumer.close()

    def _take(self, record: LogRecord) -> bool:
        """Passes a record on; False if the topic was made anew, where offsets mean other
        records."""
        if record.offset < self._next:
            return False
        self._next = record.offset + 1
        if record.key is None:
            return True
        with self._lock:
            self._newest[record.key] = record
            for asking in self._asking.get(record.key, ()):
                if record.offset >= asking.offset:
                    asking.send(_line(record))
        return True

    def _unused(self) -> bool:
        """Whether no task has been served for a while; then none is any more."""
        now = time.monotonic()
        with self._lock:
            if self._asking:
                self._used_at = now
            self.over = now - self._used_at > _UNUSED_S
            return self.over


def _line(record: LogRecord) -> bytes:
    return records_line([record]) + b"\n"


_ALIVE: Final = records_line([]) + b"\n"
