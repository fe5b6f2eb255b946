"""Exchanges lines over a connected socket: what a standalone worker and its tasks speak over.

A line is JSON without line breaks. Each side of a socket belongs to one thread.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from typing import Final, Self

_CHUNK: Final = 65_536


class LineSocket:
    """One side of a connection. All methods but `close` raise OSError, and EOFError once the other
    side has ended."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        # without the exception that a socket's own time limit costs, in each of many idle tasks
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()

    @classmethod
    def to(cls, path: str) -> Self:
        """Connects to the socket at this path."""
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(path)
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    def send(self, line: bytes) -> None:
        """Sends one line, and waits until the other side has room for it."""
        self._socket.settimeout(None)
        self._socket.sendall(line + b"\n")

    def receive(self, wait_s: float | None = None) -> bytes | None:
        """Returns the next line; None if none arrives in that time. Without a time it waits."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while not self._lines:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._arrived(left_s):
                return None
        return self._lines.popleft()

    def _arrived(self, wait_s: float | None) -> bool:
        if not self._readable.poll(None if wait_s is None else wait_s * 1000):
            return False
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise EOFError("the other side has ended")
        first, *rest = chunk.split(b"\n")
        self._begun += first
        for line in rest:
            self._lines.append(bytes(self._begun))
            self._begun = bytearray(line)
        return True

    def end(self) -> None:
        """Ends the connection, also for a thread that waits in `receive`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()
