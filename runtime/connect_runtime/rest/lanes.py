"""Limits how many requests wait for the same thing, so that they never block other requests.

Resources run on threads, because they wait: for the herder, for Kafka, for a plugin's code. (What
reads a single connector from memory does not, and a thread would be half of its time.) Each kind
of waiting has a lane: its own threads, and a queue limit. Queued requests whose client has
disconnected, or that queued for too long, never start. A request that takes long, such as one that
waits for a plugin that hangs, no longer counts, so that others start beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
from anyio import to_thread

from connect_runtime.herder.verbs import RequestError, WouldWait

T = TypeVar("T")

_QUEUE_S = 60.0
_LONG_S = 5.0
_LANES = 5
# Reads whose answers are small, whatever the cluster holds
_ONE_CONNECTOR: Final = (
    "/connectors/{name}",
    "/connectors/{name}/config",
    "/connectors/{name}/status",
    "/connectors/{name}/tasks/{task}/status",
)


class Busy(RequestError):
    """Too many requests are waiting, so this one did not start. Answered with 503; the client may
    retry."""

    def __init__(self) -> None:
        super().__init__(
            503, "This worker has too many requests in progress; this one was not started"
        )


class Lane:
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
        """Whether `run` would start at once."""
        return self._threads.available_tokens > 0

    async def run(self, what: Callable[[], T]) -> T:
        """Runs `what` on a thread. Raises Busy instead of queueing too many, or for too long. If it
        is cancelled while queued, it never starts; once started, it ends."""
        turn = object()
        try:
            self._threads.acquire_on_behalf_of_nowait(turn)
        except anyio.WouldBlock:
            await self._queue(turn)
        late = asyncio.get_running_loop().call_later(self._long_s, self._stop_counting, turn)
        try:
            return await to_thread.run_sync(what, limiter=anyio.CapacityLimiter(1))
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
        now = self._threads.statistics()
        if now.borrowed_tokens >= now.total_tokens and now.tasks_waiting >= self._queued:
            raise Busy
        try:
            with anyio.fail_after(self._queue_s):
                await self._threads.acquire_on_behalf_of(turn)
        except TimeoutError:
            raise Busy from None


class Instant(Lane):
    """Runs on the event loop itself what takes microseconds, and on a thread what would wait."""

    async def run(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except WouldWait:
            return await super().run(what)


class Lanes:
    """The lanes of one server, by what their requests wait for. `connections`: how many it takes at
    once. Those that wait for anything but memory take a fifth each, so that reads find room."""

    def __init__(self, connections: int) -> None:
        def of(threads: int, queued: int) -> Lane:
            return Lane(threads, max(queued, connections // _LANES - threads))

        # Answered from memory; /health of a worker that does not lead may wait for Kafka briefly.
        # All that the connections of a listener may ask at once.
        self.health = Lane(4, 1000)
        self.memory = Lane(8, 1000)
        self.one_connector = Instant(8, 1000)
        self.offsets = of(8, 32)
        # Plugin code, before the herder: it may hang without blocking a stop in the herder.
        self.plugins = of(8, 32)
        self.changes = of(16, 64)
        self.herder = of(32, 64)

    def of(self, method: str, path: str) -> Lane:
        """Returns the lane of a resource, by its method and route."""
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
