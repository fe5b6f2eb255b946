"""Serves the REST API over HTTP on a thread of this process, and limits its connections, so that no
client can hold up others: each phase of a connection has a deadline.

uvicorn bounds the size of a request's head. But it waits forever for the end of a head, for the end
of a body after its answer, of which it reads any amount, and for a client that does not read; and
it accepts connections until the process can open no more files, or, with a limit, refuses all
requests beyond it. asyncio waits 60 s for a TLS handshake, before which uvicorn counts no
connection, and 30 s for its end.

A connection that is idle after an answer is kept for longer than load balancers keep theirs, which
is 60 s as a rule: requests that they send while it is closed are lost, and their client gets a 502.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
import ssl
import threading
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import Diagnostic, Failed

_log = logging.getLogger(__name__)

_START_S: Final = 10.0
_STOP_S: Final = 3.0
# asyncio accepts this many at once, before the limits on connections are checked
_BACKLOG: Final = 128
_POLL_S: Final = 0.01

# At least and at most; between them, a part of the open files, which Kafka's clients need, too.
_CONNECTIONS: Final = (200, 1000)
_SHARE_OF_FILES: Final = 4
_HEAD_S: Final = 10.0
# As long as Apache's workers
_KEPT_S: Final = 90.0
_ANSWER_S: Final = 60.0
# A client that has ended its side is answered within this time: it reads the answer, or has gone
_ENDED_S: Final = 2.0
_TLS_END_S: Final = 1.0
# Of a body whose request is already answered, such as one that is too large. Most clients read the
# answer only once they have sent all.
_UNREAD_BYTES: Final = 128 * 1024 * 1024
# More of such a body is waited for; all of it has as long as a request's head
_UNREAD_S: Final = 3.0
_LOG_EVERY_S: Final = 60.0
# A body may have this many pieces, and one more for each of so many bytes.
_PIECES: Final = 2000
_PIECE_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A socket that is bound to its port, but does not listen yet."""

    socket: socket.socket
    port: int

    @classmethod
    def at(cls, host: str, port: int) -> BoundSocket:
        """Binds the port. Raises Failed if it is not available."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sets TCP_NODELAY only if the protocol is named; without it an answer whose head
        # and body are two packets waits 40 ms for the client's delayed ACK
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # a runtime that was just killed must not block the port for the next one
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            listening.close()
            raise _cannot_listen(f"{host}:{port}", error) from error
        return cls(listening, int(listening.getsockname()[1]))

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


def _cannot_listen(address: str, error: OSError) -> Failed:
    text = "REST cannot listen there"
    hint = "end what listens there, or name another port in 'listeners' or 'admin.listeners'"
    return Failed(Diagnostic("rest.port", text, address, error.strerror or str(error), hint))


class RestServer:
    """Serves `app` on a bound socket between `start` and `stop`, without signal handlers. `tls`
    returns the context of a new connection of an https listener."""

    def __init__(
        self,
        app: ASGIApp,
        bound: BoundSocket,
        limits: ConnectionLimits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._bound = bound
        limits = limits or ConnectionLimits()
        config = uvicorn.Config(
            app,
            http=_protocol(limits, tls),
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


def most_connections() -> int:
    """Returns how many connections a listener takes at once: dashboards ask for all connectors at
    the same time, each over a connection of its own."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least, most = _CONNECTIONS
    if files == resource.RLIM_INFINITY:
        return most
    return min(max(files // _SHARE_OF_FILES, least), most)


@dataclass(slots=True)
class ConnectionLimits:
    """`count`: connections at once. `head_s`: for a TLS handshake, and from the start of a
    connection, or the first byte of a further request, to the end of a request's head. `kept_s`:
    from the end of an answer to that byte. `answer_s`: for a client to read its answer."""

    count: int = field(default_factory=most_connections)
    head_s: float = _HEAD_S
    kept_s: float = _KEPT_S
    answer_s: float = _ANSWER_S
    closed: int = field(default=0, init=False)
    open: set[_BoundedConnection] = field(default_factory=set, init=False, repr=False)
    _logged_at: float | None = field(default=None, init=False)

    def has_room(self) -> bool:
        """Makes room for a connection, by closing the one that has idled longest; False if none is
        idle."""
        if len(self.open) < self.count:
            return True
        idle = [connection for connection in self.open if connection.is_idle()]
        if not idle:
            return False
        min(idle, key=lambda connection: connection.idle_since).abort()
        self._record_eviction()
        return True

    def _record_eviction(self) -> None:
        """Counts a connection that was closed for another; logs that once a minute."""
        self.closed += 1
        moment = time.monotonic()
        if self._logged_at is None or moment - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = moment
            _log.warning(
                "REST has %d connections, the maximum; %d idle ones were closed to make room",
                self.count,
                self.closed,
            )


def _protocol(
    limits: ConnectionLimits, tls: Callable[[], ssl.SSLContext] | None
) -> type[asyncio.Protocol]:
    """Returns uvicorn's protocol with these limits; with `tls`, after a handshake with the context
    that it returns for each connection."""
    plain = type("BoundedConnection", (_BoundedConnection,), {"limits": limits})
    if tls is None:
        return plain
    return type("Handshake", (_Handshake,), {"secured": plain, "tls": staticmethod(tls)})


class _Messages(h11.Connection):
    """Refuses a body in very many tiny chunks, each of which costs as much as a large one. Sends an
    answer's head together with the start of its body: one packet, for which the client wakes."""

    _pieces = 0
    _bytes = 0
    _head = b""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > _PIECES + self._bytes // _PIECE_BYTES:
                raise h11.RemoteProtocolError("too many small chunks")
        return event

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        data = super().send(event)
        if isinstance(event, h11.Response):
            self._head = data or b""
            return b""
        if self._head and data is not None:
            data, self._head = self._head + data, b""
        return data


class _BoundedConnection(H11Protocol):
    limits: ConnectionLimits
    idle_since = 0.0
    _is_kept = False
    _has_ended = False
    # The further bytes that are read of the body of a request that is answered
    _unread = 0
    _unread_until = 0.0
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None
    _ended_timer: asyncio.TimerHandle | None = None
    _abort: Callable[[], None] | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = _Messages(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_room = self._abort is not None or self.accepted(transport)
        self._abort = transport.abort
        super().connection_made(transport)
        if has_room:
            self._await_head(self.limits.head_s)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._answer_timer)
        _cancel(self._ended_timer)
        self.limits.open.discard(self)
        super().connection_lost(exc)

    def accepted(self, transport: asyncio.Transport) -> bool:
        """Counts this connection, before its handshake if it has one; False if there is no room."""
        has_room = self.limits.has_room()
        self._abort = transport.abort
        self.idle_since = time.monotonic()
        if has_room:
            self.limits.open.add(self)
        return has_room

    def abort(self) -> None:
        """Closes the connection at once."""
        # before it is known to be lost, which takes the event loop a round
        self.limits.open.discard(self)
        if self._abort is not None:
            self._abort()

    def is_idle(self) -> bool:
        """Returns True if the server waits for the client to send something, or to close."""
        if self.transport is None or self.transport.is_closing():
            return True
        return self.awaits_request() or self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        was_superfluous = self._is_superfluous()
        if was_superfluous:
            self._unread -= len(data)
            if self._unread < 0:
                self.abort()
                return
        super().data_received(data)
        if not was_superfluous:
            self._check_head(self._is_kept)
        elif self._is_superfluous():
            self._await_end_of_body()
        else:
            # the connection is as after any other answer, or the next request has begun
            self._await_head(self.limits.kept_s)
            self._check_head(bool(self.conn.trailing_data[0]))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection of a client that has ended its side after a whole request, as `nc`
        does, for a moment. asyncio cannot with TLS."""
        is_tls = self.transport.get_extra_info("sslcontext") is not None
        if is_tls or self.awaits_request() or self.cycle.more_body:
            return False
        self._has_ended = True
        _cancel(self._ended_timer)
        self._ended_timer = self._later(_ENDED_S, self.transport.close)
        return True

    def on_response_complete(self) -> None:
        self._is_kept = True
        self._unread, self._unread_until = _UNREAD_BYTES, time.monotonic() + self.limits.head_s
        if self._is_superfluous():
            self._await_end_of_body()
        else:
            self._await_head(self.limits.kept_s)
        # may continue with a pipelined request
        super().on_response_complete()
        self._check_head(bool(self.conn.trailing_data[0]))
        if self._has_ended and self.awaits_request():
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        _cancel(self._answer_timer)
        self._answer_timer = self._later(self.limits.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._answer_timer)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            # the request is already answered, and more of it is useless
            self.transport.abort()

    def awaits_request(self) -> bool:
        """Returns True if the server waits for a request of the client."""
        return self.cycle is None or self.cycle.response_complete

    def _await_end_of_body(self) -> None:
        left_s = self._unread_until - time.monotonic()
        self._await_head(max(0.0, min(_UNREAD_S, left_s)))

    def _is_superfluous(self) -> bool:
        """Returns True if the client still sends the body of a request that is answered."""
        return self.conn.their_state is h11.SEND_BODY and self.awaits_request()

    def _check_head(self, has_begun: bool) -> None:
        """Stops waiting for a head that is complete; one that `has_begun` must end soon."""
        if not self.awaits_request():
            _cancel(self._head_timer)
        elif has_begun:
            self._is_kept = False
            self._await_head(self.limits.head_s)

    def _await_head(self, within_s: float) -> None:
        self.idle_since = time.monotonic()
        _cancel(self._head_timer)
        self._head_timer = self._later(within_s, self._head_is_late)

    def _head_is_late(self) -> None:
        if self.transport.get_write_buffer_size():
            # the client still reads the previous answer
            self._head_timer = self._later(self.limits.answer_s, self.transport.abort)
        else:
            self.transport.abort()

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, act)


class _Handshake(asyncio.Protocol):
    """A connection until its TLS handshake, as of asyncio's servers, with limits."""

    secured: type[_BoundedConnection]
    tls: Callable[[], ssl.SSLContext]

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._connection = self.secured(*args, **settings)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = self._connection
        if not connection.accepted(transport):
            transport.abort()
            return
        over = connection.loop.create_future()
        over.add_done_callback(self._is_over)
        protocol = SSLProtocol(
            connection.loop,
            connection,
            self.tls(),
            over,
            server_side=True,
            ssl_handshake_timeout=connection.limits.head_s,  # type: ignore[arg-type]
            ssl_shutdown_timeout=_TLS_END_S,
        )
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _is_over(self, over: asyncio.Future[None]) -> None:
        if over.exception() is not None:
            self._connection.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
