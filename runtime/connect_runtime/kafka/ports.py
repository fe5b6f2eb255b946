"""Finds free ports of the loopback interface.

A port is picked from below the range that Linux and macOS use for outgoing connections: nothing
picks from there automatically. Whoever asks here, in any process, does not get a port that somebody
else got within the last minute and does not listen on yet.
"""

import random
import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"

_CANDIDATES = range(20000, 32768)


def is_free(port: int) -> bool:
    """Whether a server could listen on that loopback port now."""
    with socket.socket() as probe:
        # as servers bind: a port with only closed connections is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port(*, other_than: Collection[int] = ()) -> int:
    """Returns a free port, picked at random, and reserves it for servers that are started now.
    Raises OSError if none is found."""
    for port in random.sample(_CANDIDATES, 500):
        if port not in other_than and _reserve(port):
            return port
    raise OSError(f"no free port found from {_CANDIDATES.start} to {_CANDIDATES.stop - 1}")


def _reserve(port: int) -> bool:
    """Whether the port was free. It then has a closed connection for a minute (TIME_WAIT, RFC
    9293): servers bind to it, as they set SO_REUSEADDR, and a socket as the one here cannot."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
            # after this socket's own bind, and for that of the server
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.listen()
            with socket.create_connection((LOOPBACK, port)) as client:
                # this side closes first, so the wait is on the port
                probe.accept()[0].close()
                client.recv(1)
        except OSError:
            return False
        return True
