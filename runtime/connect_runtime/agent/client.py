"""The way of a task to its agent: the process that serves its node, or its standalone worker.

A Kafka client takes 1 MB, four threads or more, and some 13 ms of CPU, most of it Kafka's: too much
for each of a thousand tasks that start, or that wait for orders. A task hands one end of a socket
pair and a file with its request through the agent's door: a datagram socket that the node's
processes inherit, or that a standalone worker has bound to a path. Requests wait in the door while
the agent is replaced, and a task whose connection ends without an answer asks again.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import socket
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Mapping
from typing import BinaryIO, Final

from connect_runtime.agent.messages import Request, request_content
from connect_runtime.tasks.kafka_failures import Interrupted

_RETRY_S: Final = 0.05
_CHUNK: Final = 65_536
_GONE: Final = (errno.ECONNREFUSED, errno.ENOTCONN, errno.ENOENT, errno.EPIPE, errno.ECONNRESET)

_door: socket.socket | None = None


def open_door() -> socket.socket:
    """Returns the side of the agent. Processes forked afterwards can ask it."""
    global _door
    _door, of_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return of_agent


def file_of(content: bytes) -> BinaryIO:
    """Returns a file in memory, whose descriptor another process can have whatever its size is.
    Raises OSError."""
    # not every system's or builder's Python has memfd_create
    if hasattr(os, "memfd_create"):
        file: BinaryIO = os.fdopen(os.memfd_create("connect"), "wb")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 its caller closes it
    file.write(content)
    file.flush()
    return file


class AgentClient:
    """Asks the agent at `path`, or else that of this node. `properties` are those of the client
    with which the agent asks Kafka."""

    def __init__(self, path: str | None, properties: Mapping[str, str]) -> None:
        self._path = path
        self._properties = properties
        self._name = "This node's agent" if path is None else "The worker"

    def ask(self, request: Request, limit_s: float) -> bytes:
        """Returns the answer. Raises Interrupted if the agent has ended, and if there is no answer
        after `limit_s`."""
        began = time.monotonic()
        while True:
            reason = ""
            try:
                with self.begin(request) as connection:
                    answer = _answer(connection, began + limit_s)
                if answer is not None:
                    return answer
            except TimeoutError:
                pass
            except OSError as error:  # of this process, too: a plugin may leak descriptors
                reason = f": {error}"
            waited_s = time.monotonic() - began
            if waited_s + _RETRY_S > limit_s:
                raise Interrupted(f"{self._name} has not answered in {waited_s:.3g} s{reason}")
            time.sleep(_RETRY_S)

    def begin(self, request: Request) -> socket.socket:
        """Returns the connection on which the answer arrives. Does not wait. Raises Interrupted if
        the agent has ended, OSError if there is no way to it now."""
        ours, of_agent = socket.socketpair()
        try:
            with of_agent, file_of(request_content(request, self._properties)) as file:
                self._send(of_agent.fileno(), file.fileno())
        except BaseException:
            ours.close()
            raise
        return ours

    def _send(self, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
        try:
            if self._path is not None:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
                    door.sendmsg([b"."], rights, socket.MSG_DONTWAIT, self._path)
            elif _door is not None:
                _door.sendmsg([b"."], rights, socket.MSG_DONTWAIT)
            else:
                raise Interrupted("This process belongs to no node")
        except OSError as error:
            if error.errno in _GONE:
                raise Interrupted(f"{self._name} cannot be reached: {error}") from error
            raise


class LineReader:
    """The lines that arrive on a connection. Raises OSError, and EOFError once the agent has ended
    it. Bytes that arrive on `woken` end a wait, too."""

    def __init__(self, connected: socket.socket, woken: socket.socket | None = None) -> None:
        self._socket = connected
        self._woken = woken
        # without the exception that a socket's own time limit costs, in each of many idle tasks
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)
        if woken is not None:
            self._readable.register(woken, select.POLLIN)
        self._lines: deque[bytes] = deque()
        self._unfinished = bytearray()

    def receive(self, wait_s: float) -> bytes | None:
        """Returns the next line; None if none arrives in that time."""
        deadline = time.monotonic() + wait_s
        while not self._lines:
            remaining_s = max(0.0, deadline - time.monotonic())
            ready = {descriptor for descriptor, _ in self._readable.poll(remaining_s * 1000)}
            if self._socket.fileno() not in ready:
                if self._woken is not None and ready:
                    self._woken.recv(_CHUNK)
                return None
            self._take(self._socket.recv(_CHUNK))
        return self._lines.popleft()

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            raise EOFError("the agent has ended")
        first, *lines = chunk.split(b"\n")
        self._unfinished += first
        for line in lines:
            self._lines.append(bytes(self._unfinished))
            self._unfinished = bytearray(line)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


def _answer(connection: socket.socket, deadline: float) -> bytes | None:
    """Returns the answer; None if the connection ended without. Raises TimeoutError."""
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    _, files, _, _ = socket.recv_fds(connection, 1, 1)
    return _content(files[0]) if files else None


def _content(descriptor: int) -> bytes:
    """Returns the content of a file, which it closes. Others may have the same file, and read it
    now: so it is not read from its position."""
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
            return content[:]
    finally:
        os.close(descriptor)
