"""Limits the requests that wait for the same thing, so that they never block other requests, and
the memory for their bodies.

Resources run on threads, because they wait: for the herder, for Kafka, for a plugin's code. (What
reads a single connector from memory does not, and a thread would be half of its time.) Each kind
of waiting has a pool: its own threads, and a queue limit. Queued requests whose client has
disconnected, or that queued for too long, never start. A request that takes long, such as one that
waits for a plugin that hangs, is not counted, so that others start beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request

from connect_runtime.herder.verbs import RequestError
from connect_runtime.waiting import WouldWait

T = TypeVar("T")

_QUEUE_S: Final = 60.0
_LONG_S: Final = 5.0
_POOLS: Final = 5
# Reads whose answers are small, however many connectors there are
_ONE_CONNECTOR: Final = (
    "/connectors/{name}",
    "/connectors/{name}/config",
    "/connectors/{name}/status",
    "/connectors/{name}/tasks/{task}/status",
)
_BODY_S: Final = 30.0
_BODIES_BYTES: Final = 64 * 1024 * 1024
# Large bodies must not keep out those of usual size
_FREE_BYTES: Final = 64 * 1024


class Busy(RequestError):
    """Too many requests are waiting, so this one did not start. Answered with 503; the client may
    retry."""

    def __init__(self) -> None:
        super().__init__(
            503, "This worker has too many requests in progress; this one was not started"
        )


class RequestPool:
    """Runs `threads` requests at a time and queues `queued` more. Up to `queued` that have run for
    `long_s` are not counted."""

    def __init__(
        self, threads: int, queued: int, queue_s: float = _QUEUE_S, long_s: float = _LONG_S
    ) -> None:
        self._threads = anyio.CapacityLimiter(threads)
        self._queued = queued
        self._queue_s = queue_s
        self._long_s = long_s
        self._uncounted: set[object] = set()

    @property
    def is_free(self) -> bool:
        """Returns True if `run` would start at once."""
        return self._threads.available_tokens > 0

    async def run(self, answer: Callable[[], T]) -> T:
        """Runs `answer` on a thread. Raises Busy instead of queueing too many, or for too long. If
        it is cancelled while queued, it never starts; once started, it ends."""
        turn = object()
        try:
            self._threads.acquire_on_behalf_of_nowait(turn)
        except anyio.WouldBlock:
            await self._queue(turn)
        late = asyncio.get_running_loop().call_later(self._long_s, self._stop_counting, turn)
        try:
            return await to_thread.run_sync(answer, limiter=anyio.CapacityLimiter(1))
        finally:
            late.cancel()
            if turn in self._uncounted:
                self._uncounted.discard(turn)
            else:
                self._threads.release_on_behalf_of(turn)

    def _stop_counting(self, turn: object) -> None:
        if len(self._uncounted) < self._queued:
            self._uncounted.add(turn)
            self._threads.release_on_behalf_of(turn)

    async def _queue(self, turn: object) -> None:
        usage = self._threads.statistics()
        if usage.borrowed_tokens >= usage.total_tokens and usage.tasks_waiting >= self._queued:
            raise Busy
        try:
            with anyio.fail_after(self._queue_s):
                await self._threads.acquire_on_behalf_of(turn)
        except TimeoutError:
            raise Busy from None


class Inline(RequestPool):
    """Runs on the event loop itself what takes microseconds, and on a thread what would wait."""

    async def run(self, answer: Callable[[], T]) -> T:
        try:
            return answer()
        except WouldWait:
            return await super().run(answer)


class RequestPools:
    """The pools of one server, by what their requests wait for. `connections`: how many it takes at
    once. Those that wait for anything but memory take a fifth each, so that reads find room."""

    def __init__(self, connections: int) -> None:
        def waiting(threads: int, queued: int) -> RequestPool:
            return RequestPool(threads, max(queued, connections // _POOLS - threads))

        # Answered from memory; /health of a worker that does not lead may wait for Kafka briefly.
        # All that the connections of a listener may ask at once.
        self.health = RequestPool(4, 1000)
        self.memory = RequestPool(8, 1000)
        self.one_connector = Inline(8, 1000)
        self.offsets = waiting(8, 32)
        # Plugin code, before the herder: it may hang without blocking a stop in the herder.
        self.plugins = waiting(8, 32)
        self.changes = waiting(16, 64)
        self.herder = waiting(32, 64)

    def of(self, method: str, path: str) -> RequestPool:
        """Returns the pool of a resource, by its method and route."""
        if path in ("/", "/health"):
            return self.health
        if path.startswith("/connector-plugins"):
            return self.plugins
        if path.endswith("/offsets"):
            return self.offsets if method == "GET" else self.changes
        if method == "GET":
            return self.one_connector if path in _ONE_CONNECTOR else self.memory
        if path == "/connectors" or path.endswith("/config"):
            return self.changes
        return self.herder


class BodyMemory:
    """Limits the memory for bodies that are held at once: together 64 MiB, or two of the largest.
    The first 64 KiB of each are not counted."""

    def __init__(self, largest: int) -> None:
        self._most = max(_BODIES_BYTES, 2 * largest)
        self._held = 0

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that is called with the size of one body, as it grows; it raises Busy
        instead of exceeding the limit. The body is held until the context ends."""
        counted = 0

        def grown_to(size: int) -> None:
            nonlocal counted
            more = max(size - _FREE_BYTES, 0) - counted
            if more > 0 and self._held + more > self._most:
                raise Busy
            counted += more
            self._held += more

        try:
            yield grown_to
        finally:
            self._held -= counted


async def read_body(request: Request, max_bytes: int, grown_to: Callable[[int], None]) -> bytes:
    """Returns the whole body; `grown_to` gets its size as it grows. Raises RequestError 413 as soon
    as it is known to be too large, 408 after 30 s, what `grown_to` raises, and ClientDisconnect."""
    declared = request.headers.get("content-length", "")
    if declared in ("", "0") and "transfer-encoding" not in request.headers:
        return b""
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                grown_to(len(body))
    except TimeoutError:
        raise RequestError(
            408, f"The request's body did not arrive within {_BODY_S:.0f} seconds"
        ) from None
    return bytes(body)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        413,
        f"The request's body is larger than {max_bytes} bytes, which rest.max.body.bytes of this "
        "worker allows",
    )
