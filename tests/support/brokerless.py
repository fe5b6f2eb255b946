"""A Kafka that names one broker, itself, and soon none: as a KRaft broker does that was silent for
longer than its session. It knows two requests, ApiVersions and Metadata, in their oldest forms.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

from connect_runtime.kafka.ports import LOOPBACK

_METADATA, _API_VERSIONS = 3, 18
_UNSUPPORTED_VERSION = 35


@contextmanager
def brokerless(after: int) -> Iterator[str]:
    """Its address; from answer `after` + 1 about its brokers on there are none."""
    left = [after]

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                request = self.rfile.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack_from(">hhi", request)
                if key == _API_VERSIONS:
                    body = _api_versions(version)
                else:
                    body = _metadata(self.server.server_address[1], left)
                answer = struct.pack(">i", correlation) + body
                self.wfile.write(struct.pack(">i", len(answer)) + answer)

    with ThreadingTCPServer((LOOPBACK, 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"{LOOPBACK}:{server.server_address[1]}"
        server.shutdown()


def _api_versions(version: int) -> bytes:
    error = _UNSUPPORTED_VERSION if version else 0
    return struct.pack(">hi6h", error, 2, _METADATA, 0, 4, _API_VERSIONS, 0, 0)


def _metadata(port: int, left: list[int]) -> bytes:
    """Version 4: throttling, brokers, cluster id, controller, topics."""
    left[0] -= 1
    brokers, controller = struct.pack(">i", 0), -1
    if left[0] >= 0:
        host = LOOPBACK.encode()
        named = struct.pack(f">h{len(host)}sih", len(host), host, port, -1)
        brokers, controller = struct.pack(">ii", 1, 1) + named, 1
    return struct.pack(">i", 0) + brokers + struct.pack(">h2sii", 2, b"id", controller, 0)
