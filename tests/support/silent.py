"""A port that takes connections and never answers: as a frozen worker or broker does."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread


@dataclass
class SilentPort:
    """`address` is host and port; `taken` are the connections so far, held open."""

    listener: socket.socket
    taken: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> str:
        host, port = self.listener.getsockname()
        return f"{host}:{port}"

    def take(self) -> None:
        """Until it is closed."""
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return


@contextmanager
def silent_port() -> Iterator[SilentPort]:
    """One on this machine, for as long as the context lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = SilentPort(listener)
        Thread(target=found.take, daemon=True).start()
        try:
            yield found
        finally:
            # wakes the thread that waits in accept, which a close alone does not
            listener.shutdown(socket.SHUT_RDWR)
            for each in found.taken:
                each.close()
