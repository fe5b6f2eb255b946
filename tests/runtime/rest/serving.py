"""The REST server on a real socket, over verbs that a test can hold back."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from starlette.types import ASGIApp

from connect_runtime.herder.verbs import ConnectorInfo
from connect_runtime.rest.http_server import BoundSocket, ConnectionLimits, RestServer
from connect_specs.desired import TargetState
from runtime.rest.fake_verbs import FakeVerbs
from support import http


@dataclass
class HeldVerbs(FakeVerbs):
    """Writes wait until `release` is set, as for a herder that is frozen."""

    release: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)

    def pause(self, name: str) -> None:
        self._hold("pause")
        super().pause(name)

    def create(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None
    ) -> ConnectorInfo:
        self._hold("create")
        return super().create(name, config, initial_state)

    def _hold(self, what: str) -> None:
        self.begun.append(what)
        if not self.release.wait(60):
            raise TimeoutError


@dataclass(frozen=True)
class Served:
    port: int
    server: RestServer

    def get(self, path: str, timeout_s: float = 5.0) -> httpx.Response:
        return http.get(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s)

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.sendall(sent)
        return made


@contextlib.contextmanager
def served(app: ASGIApp, limits: ConnectionLimits | None = None) -> Iterator[Served]:
    bound = BoundSocket.at("127.0.0.1", 0)
    server = RestServer(app, bound, limits)
    server.start()
    try:
        yield Served(bound.port, server)
    finally:
        server.stop()


def resident_mb() -> float:
    """The memory of this process."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024


def read_answer(connection: socket.socket) -> bytes:
    """What comes until the other side closes, or nothing comes for a while."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            found += data
    return found


def is_closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the other side closes without an answer."""
    connection.settimeout(within_s)
    begun = time.monotonic()
    try:
        return connection.recv(1) == b"" and time.monotonic() - begun <= within_s
    except ConnectionError:
        return True
    except TimeoutError:
        return False
