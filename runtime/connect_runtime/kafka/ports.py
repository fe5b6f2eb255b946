"""Finds free ports of the loopback interface.

A port may be taken right after the check, so it is picked from below the range that Linux and macOS
use for outgoing connections: nothing picks from there automatically.
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
    """Returns a free port, picked at random. Raises OSError if none is found."""
    for port in random.sample(_CANDIDATES, 500):
        if port not in other_than and is_free(port):
            return port
    raise OSError(f"no free port found from {_CANDIDATES.start} to {_CANDIDATES.stop - 1}")
