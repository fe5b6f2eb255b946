"""Ends a source's producer while the source is silent, and makes another one for its next records.

A producer takes 1 MB and four threads that each wake up once a second. Where most tasks are idle,
that is most of what they cost. A new producer is made as at the task's start: an attempt that is
not the newest must not take the transactional id from the newest one.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Final

from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.control import Wanted
from connect_runtime.tasks.source_writer import Messages, SourceWriter

_REST_AFTER_S: Final = 30.0


class NotWanted(Exception):
    """The attempt is to end; nothing was sent."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted.value)
        self.wanted = wanted


class RestingWriter:
    """Implements SourceWriter with those that `make` returns, one at a time.

    `newest` reads the assignments to their end. `send` and `commit` raise NotWanted if they need a
    producer and the leader wants something else by now. `rests` is False for a task that has
    offsets to commit at its stop though it sent nothing: no producer can be made by then.
    """

    def __init__(
        self,
        make: Callable[[], SourceWriter],
        newest: Callable[[], Wanted],
        metrics: TaskMetrics,
        *,
        rests: bool = True,
    ) -> None:
        self._make = make
        self._newest = newest
        self._metrics = metrics
        self._rests = rests
        self._writer: SourceWriter | None = make()
        self._used_at = time.monotonic()
        self.atomic = self._writer.atomic
        self.expires_s = self._writer.expires_s

    @property
    def open(self) -> bool:
        return self._writer is not None and self._writer.open

    @property
    def opened_at(self) -> float:
        return 0.0 if self._writer is None else self._writer.opened_at

    @property
    def bytes(self) -> int:
        return 0 if self._writer is None else self._writer.bytes

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        self._awake().send(topic, messages, partition)

    def serve(self) -> None:
        """Also ends a producer that was not used for long."""
        if self._writer is None:
            return
        self._writer.serve()
        if self._writer.open:
            self._used_at = time.monotonic()
        elif self._rests and time.monotonic() - self._used_at > _REST_AFTER_S:
            self.close()
            self._metrics.without_clients()
            _return_memory()

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        return self._awake().commit(offsets, limit_s)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _awake(self) -> SourceWriter:
        self._used_at = time.monotonic()
        if self._writer is None:
            self._check()
            made = self._make()
            try:
                # if this attempt is late, making it fenced the newest one
                self._check()
            except BaseException:
                made.close()
                raise
            self._writer = made
        return self._writer

    def _check(self) -> None:
        wanted = self._newest()
        if wanted in (Wanted.STOP, Wanted.NOTHING):
            raise NotWanted(wanted)


def _return_memory() -> None:
    """Returns freed memory to the system, where the C library is glibc."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
