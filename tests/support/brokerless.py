"""What answers as a Kafka does whose only broker was frozen, until the cluster takes it back: first
it names itself, then no broker at all. A child process asks it, as the answer may end it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final

from connect_runtime.kafka.local_processes import LOOPBACK

# Kafka's protocol guide, "Api Keys"
_METADATA: Final = 3
_API_VERSIONS: Final = 18
_UNSUPPORTED_VERSION: Final = 35
# As old as a request for the cluster may be
_VERSION: Final = 2


@contextmanager
def brokerless() -> Iterator[str]:
    """Its address, for as long as the context lasts."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while length := self.rfile.read(4):
                frame = self.rfile.read(struct.unpack(">i", length)[0])
                kind, version, number = struct.unpack_from(">hhi", frame)
                assert kind in (_METADATA, _API_VERSIONS), kind
                body = _versions(version) if kind == _API_VERSIONS else self._metadata()
                self.wfile.write(struct.pack(">ii", len(body) + 4, number) + body)

        def _metadata(self) -> bytes:
            assert isinstance(self.server, Server)
            brokers = [] if self.server.told else [(1, self.server.server_address[1])]
            self.server.told = True
            named = b"".join(
                struct.pack(">i", broker) + _text(LOOPBACK) + struct.pack(">ih", port, -1)
                for broker, port in brokers
            )
            controller = 1 if brokers else -1
            rest = _text("a-cluster") + struct.pack(">ii", controller, 0)
            return struct.pack(">i", len(brokers)) + named + rest

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        told = False

    with Server((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"{LOOPBACK}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


def _versions(asked: int) -> bytes:
    """In version 0, which a client tries when a newer one is not supported."""
    known = ((_API_VERSIONS, 0, 0), (_METADATA, 0, _VERSION))
    error = _UNSUPPORTED_VERSION if asked else 0
    return struct.pack(">hi", error, len(known)) + b"".join(
        struct.pack(">hhh", *each) for each in known
    )


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
