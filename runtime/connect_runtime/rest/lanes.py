"""How many requests wait for what? Those that wait for one thing never keep others waiting.

Resources run on threads, because they wait: for the herder, for Kafka, for a plugin's code. Each
kind of waiting has a lane: threads of its own, and a limit on who may queue for them. Queued
requests whose client has gone, or that queued for too long, are never begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

from connect_runtime.herder.errors import RequestError

T = TypeVar("T")

_QUEUE_S = 60.0


class Busy(RequestError):
    """Too many requests wait already; this one was not begun. 503, to be asked again."""

    def __init__(self) -> None:
        super().__init__(
            503, "This worker has too many requests in progress; this one was not begun"
        )


class Lane:
    """`threads` requests at a time, `queued` more that wait for one of these threads."""

    def __init__(self, threads: int, queued: int, queue_s: float = _QUEUE_S) -> None:
        self._threads = anyio.CapacityLimiter(threads)
        self._queued = queued
        self._queue_s = queue_s

    async def run(self, what: Callable[[], T]) -> T:
        """Runs `what` on a thread. Raises Busy instead of queueing too many, or for too long.

        Cancelled while it is queued, it never begins; once begun, it ends."""
        now = self._threads.statistics()
        if now.borrowed_tokens >= now.total_tokens and now.tasks_waiting >= self._queued:
            raise Busy
        turn = object()
        try:
            with anyio.fail_after(self._queue_s):
                await self._threads.acquire_on_behalf_of(turn)
        except TimeoutError:
            raise Busy from None
        try:
            return await to_thread.run_sync(what, limiter=anyio.CapacityLimiter(1))
        finally:
            self._threads.release_on_behalf_of(turn)


class Lanes:
    """The lanes of one server, by what their requests wait for."""

    def __init__(self) -> None:
        # From memory; /health of a worker that does not lead may wait for Kafka for a moment.
        self.health = Lane(4, 200)
        self.memory = Lane(8, 100)
        self.offsets = Lane(8, 32)
        # The code of plugins, before the herder: may hang without keeping a stop from the herder.
        self.plugins = Lane(8, 32)
        self.changes = Lane(16, 64)
        self.herder = Lane(32, 64)

    def of(self, method: str, path: str) -> Lane:
        """The lane of a resource, by its method and route."""
        if path in ("/", "/health"):
            return self.health
        if path.startswith("/connector-plugins"):
            return self.plugins
        if path.endswith("/offsets"):
            return self.offsets if method == "GET" else self.changes
        if method == "GET":
            return self.memory
        if path == "/connectors" or path.endswith("/config"):
            return self.changes
        return self.herder
