"""A task that has asked, as those who answer see it."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol


class Service(Protocol):
    """Answers one kind of request on a thread of its own."""

    @property
    def over(self) -> bool:
        """Returns whether it has ended; then it takes nothing any more."""
        ...

    def start(self) -> None: ...

    def add(self, asking: Asking, request: Any) -> bool:
        """Takes a request; False if this has ended."""
        ...

    def remove(self, asking: Asking) -> None:
        """Sends nothing to it from here on."""
        ...

    def tell_alive(self) -> None:
        """Tells everyone who waits that they are not forgotten; called once a second."""
        ...


def file_of(content: bytes) -> BinaryIO:
    """Returns a file in memory, which a task can have whatever its size is. Raises OSError."""
    file = os.fdopen(os.memfd_create("answer"), "wb")
    file.write(content)
    file.flush()
    return file


@dataclass(slots=True, eq=False)
class Asking:
    """A connection of a task. Only the serving thread closes it, once its service has removed it;
    others shut it down. Nothing waits for a task that does not read: it finds out later, and does
    by itself what it asked for."""

    connected: socket.socket
    text: bytearray = field(default_factory=bytearray)
    service: Service | None = None

    def send(self, content: bytes) -> None:
        """Sends all of it at once, or ends the connection."""
        try:
            if self.connected.send(content) == len(content):
                return
        except OSError:
            pass
        self.end()

    def answer(self, file: BinaryIO) -> None:
        """Sends a file, and ends the connection: a child of the task may hold it open."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.connected, [b"!"], [file.fileno()])
        self.end()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.connected.shutdown(socket.SHUT_RDWR)
