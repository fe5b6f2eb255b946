"""A proxy before a Connect cluster that loses the answers, or the requests, that a test names.

It passes bytes on over TCP and knows no more of HTTP than where a request ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Literal
from urllib.parse import urlsplit

from connect_runtime.kafka.local_processes import LOOPBACK

# The answer: the connection is closed in its place, it never comes, or it is a load balancer's 503.
# Or the request is lost, or gets 503 and goes no further, or gets there when the test says so,
# whoever waits for it.
Way = Literal["closed", "silent", "away", "request", "turned", "late"]

_LATE_S = 120
_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/html\r\n"
    b"Content-Length: 19\r\nConnection: close\r\n\r\n<h1>no server</h1>\n"
)


@dataclass(slots=True)
class LosingProxy:
    """`lose` holds, by method and end of the path, what is lost once; `passed` is every changing
    request that reached the cluster, `lost` what was lost of them or before. `go` is set by the
    test to let late ones pass."""

    url: str
    lose: dict[str, Way] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)


@contextmanager
def losing(upstream: str) -> Iterator[LosingProxy]:
    """The proxy, for as long as the context lasts."""
    to = urlsplit(upstream)
    assert to.hostname is not None
    address = (to.hostname, to.port or 80)
    over = threading.Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            head, content = _request(self)
            if not head:
                return
            line = head[0].rpartition(" ")[0]
            way = next((proxy.lose.pop(each) for each in [*proxy.lose] if _is(line, each)), None)
            if way is not None:
                proxy.lost.append(line)
            answer = _AWAY
            if way == "late":
                proxy.go.wait(_LATE_S)
            if way not in ("request", "turned"):
                found = _asked(address, head, content)
                answer = answer if way == "away" else found
                if not line.startswith("GET "):
                    proxy.passed.append(line)
            if way in (None, "away", "turned"):
                with suppress(OSError):
                    self.wfile.write(answer)
            if way == "silent":
                over.wait()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server((LOOPBACK, 0), Handler) as server:
        proxy = LosingProxy(f"http://{LOOPBACK}:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            over.set()
            server.shutdown()
            thread.join(10)


def _is(line: str, wanted: str) -> bool:
    method, _, end = wanted.partition(" ")
    return line.startswith(f"{method} ") and line.endswith(end)


def _request(handler: StreamRequestHandler) -> tuple[list[str], bytes]:
    """Its lines without those about the connection, and its body."""
    lines: list[str] = []
    length = 0
    while (line := handler.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
        if name.lower() != "connection":
            lines.append(line)
    return lines, handler.rfile.read(length)


def _asked(address: tuple[str, int], head: list[str], content: bytes) -> bytes:
    """The whole answer, after which the connection is closed."""
    text = "\r\n".join([*head, "Connection: close", "", ""])
    with socket.create_connection(address, 60) as upstream:
        upstream.sendall(text.encode("latin-1") + content)
        parts = []
        while part := upstream.recv(65536):
            parts.append(part)
    return b"".join(parts)
