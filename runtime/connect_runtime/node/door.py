"""The requests of a task to the process that serves its node: one for each connection.

A Kafka client takes 1 MB, four threads or more, and some 13 ms of CPU, most of it Kafka's: too much
for each of a thousand tasks that start, or that wait for orders. Spark's daemon opens the door
before it forks; a task hands one end of a socket pair through it, and asks. Nothing but this cost
depends on the process behind it: a task that gets no answer does the same by itself.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

# Fits into a socket's buffer, so that a task never waits for a frozen process
LONGEST_REQUEST: Final = 1 << 16
_CONNECT_S: Final = 2.0
# A task hears once a second that its answer is still to come
_SILENT_S: Final = 5.0

_door: socket.socket | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """The newest record of `key` from `offset` on, and all later ones, as lines of records."""

    topic: str
    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """The newest record of `key` before the topic's current end, as a line of records."""

    topic: str
    key: str


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """The newest record of each key of a connector before the topic's current end, as a line of
    records."""

    topic: str
    connector: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Writes a record before `until`, in seconds of the monotonic clock, which all processes of a
    machine share. The answer says why not."""

    topic: str
    key: str
    value: str | None
    until: float


Request: TypeAlias = Follow | ReadAssignment | ReadOffsets | WriteStatus


def request_line(request: Request, properties: Mapping[str, str]) -> bytes:
    """Returns a request as one line, without its end. `properties` are those of the client that
    the task would have for it, in Java's names."""
    content: list[object]
    match request:
        case Follow(topic=topic, key=key, offset=offset):
            content = ["follow", topic, key, offset]
        case ReadAssignment(topic=topic, key=key):
            content = ["assignment", topic, key]
        case ReadOffsets(topic=topic, connector=connector):
            content = ["offsets", topic, connector]
        case WriteStatus(topic=topic, key=key, value=value, until=until):
            content = ["status", topic, key, value, until]
    return orjson.dumps([dict(properties), *content])


def request_of(line: bytes) -> tuple[Request, Mapping[str, str]]:
    """Returns a request and the properties of its client. Raises ValueError for what is none."""
    match orjson.loads(line):
        case [dict(properties), *content] if all(isinstance(v, str) for v in properties.values()):
            return _request(content), properties
        case _:
            raise ValueError("no request of a task")


def _request(content: list[object]) -> Request:
    match content:
        case ["follow", str(topic), str(key), int(offset)]:
            return Follow(topic, key, offset)
        case ["assignment", str(topic), str(key)]:
            return ReadAssignment(topic, key)
        case ["offsets", str(topic), str(connector)]:
            return ReadOffsets(topic, connector)
        case ["status", str(topic), str(key), str() | None as value, float(until)]:
            return WriteStatus(topic, key, value, until)
        case _:
            raise ValueError("no request of a task")


def open_door() -> socket.socket:
    """Returns the side of the process that is to serve. Processes forked afterwards can ask it."""
    global _door
    _door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return theirs


def close_door() -> None:
    """Closes the door: no process serves here."""
    global _door
    if _door is not None:
        _door.close()
        _door = None


def begin(request: Request, properties: Mapping[str, str]) -> socket.socket | None:
    """Returns a connection on which the request was sent; None if no process serves here, or the
    request is too long."""
    line = request_line(request, properties) + b"\n"
    connected = connect(_CONNECT_S) if len(line) <= LONGEST_REQUEST else None
    if connected is None:
        return None
    try:
        connected.sendall(line)
    except OSError:
        connected.close()
        return None
    return connected


def ask(request: Request, properties: Mapping[str, str]) -> bytes | None:
    """Returns the answer; None if there is none: nobody serves here, or it is refused, or whoever
    serves is gone or frozen."""
    # answers are files in memory, which not every system's or builder's Python can make
    connected = begin(request, properties) if hasattr(os, "memfd_create") else None
    if connected is None:
        return None
    with connected:
        connected.settimeout(_SILENT_S)
        try:
            while True:
                heard, files, _, _ = socket.recv_fds(connected, 1, 1)
                if files:
                    return _content(files[0])
                if heard != b".":  # it has ended, or there is no descriptor left for the answer
                    return None
        except OSError:
            return None


def _content(number: int) -> bytes:
    """Returns the content of a file, which it closes. Others may have the same file, and read it
    now: so it is not read from its position."""
    try:
        with mmap.mmap(number, 0, access=mmap.ACCESS_READ) as content:
            return content[:]
    finally:
        os.close(number)


def connect(wait_s: float) -> socket.socket | None:
    """Returns a connection for one request; None if no process serves here."""
    if _door is None:
        return None
    try:
        ours, theirs = socket.socketpair()
    except OSError:  # this process has no more descriptors: a plugin may leak them
        return None
    try:
        _door.settimeout(wait_s)
        socket.send_fds(_door, [b"."], [theirs.fileno()])
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()
    return ours
