"""Serves the REST API over HTTP on a thread of this process.

The port is bound before anything is served, so the caller knows the runtime's address even if any
free port will do. Does not change signal handlers.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from connect_runtime.rest.limits import ConnectionLimits, bounded
from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import Diagnostic, Failed

_START_S = 10.0
_STOP_S = 3.0
# asyncio accepts this many at once, before the limits on connections are checked
_BACKLOG = 128
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Bound:
    """A socket that is bound to its port, but does not listen yet."""

    socket: socket.socket
    port: int

    @classmethod
    def at(cls, host: str, port: int) -> Bound:
        """Binds the port. Raises Failed if it is not available."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sets TCP_NODELAY only if the protocol is named; without it an answer whose head
        # and body are two packets waits 40 ms for the client's delayed ACK
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # a runtime that was just killed must not block the port for the next one
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, port))
        except OSError as error:
            made.close()
            raise _cannot_listen(f"{host}:{port}", error) from error
        return cls(made, int(made.getsockname()[1]))

    def listen(self) -> None:
        """Lets clients connect. Raises Failed if another socket already listens there, such as
        that of a listener that is listed twice."""
        try:
            self.socket.listen(_BACKLOG)
        except OSError as error:
            host = self.socket.getsockname()[0]
            raise _cannot_listen(f"{host}:{self.port}", error) from error

    def close(self) -> None:
        """Releases the port."""
        self.socket.close()


def _cannot_listen(where: str, error: OSError) -> Failed:
    what = "REST cannot listen there"
    hint = "end what listens there, or name another port in 'listeners' or 'admin.listeners'"
    return Failed(Diagnostic("rest.port", what, where, error.strerror or str(error), hint))


class RestServer:
    """Serves `app` on a bound socket between `start` and `stop`. `tls` returns the context
    of a new connection of an https listener."""

    def __init__(
        self,
        app: ASGIApp,
        bound: Bound,
        limits: ConnectionLimits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._bound = bound
        limits = limits or ConnectionLimits()
        config = uvicorn.Config(
            app,
            http=bounded(limits, tls),
            # the limits end connections before
            timeout_keep_alive=math.ceil(limits.kept_s) + 1,
            ws="none",
            backlog=_BACKLOG,
            # a client that sends nonsense must not be able to fill the log
            log_level=logging.ERROR,
            access_log=False,
            lifespan="off",
            log_config=None,
            server_header=False,
            # an Apache worker's `Location` has the address that the client used, too
            proxy_headers=False,
            timeout_graceful_shutdown=int(_STOP_S),
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)

    def start(self) -> None:
        """Starts serving; returns when requests are answered. Raises Failed."""
        self._bound.listen()
        self._thread.start()
        wait_until(
            lambda: self._server.started or not self._thread.is_alive(), _START_S, every_s=_POLL_S
        )

    def stop(self) -> None:
        """Lets running requests end for a few seconds; then the port is free."""
        self._server.should_exit = True
        self._thread.join(_STOP_S * 2)
        self._bound.close()

    @property
    def connections(self) -> int:
        """Returns the number of connections."""
        return len(self._server.server_state.connections)

    def _serve(self) -> None:
        self._server.run(sockets=[self._bound.socket])
