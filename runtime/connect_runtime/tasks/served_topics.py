"""Reads and writes the worker's own topics in standalone mode: over a socket of the worker.

All raise Interrupted if the worker does not answer: it has ended, or will launch the task again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from connect_runtime.kafka.status_writer import Unwritten
from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.served_messages import (
    Follow,
    Read,
    Request,
    Write,
    failure_of,
    records_of,
    request_line,
)
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.control import Orders, Wanted
from connect_runtime.tasks.interrupted import Interrupted
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

T = TypeVar("T")

# As long as a task waits for a silent Kafka
_SILENCE_S: Final = 75.0
_STATUS_S: Final = 5.0


class _Connection:
    """One connection to the worker, opened by the first request."""

    def __init__(self, setup: TaskSetup) -> None:
        assert setup.socket is not None, "only in standalone mode"
        self._path = setup.socket
        self._open: LineSocket | None = None

    def ask(self, request: Request, limit_s: float) -> bytes:
        """Sends a request and returns the first line of its answer."""
        self.send(request)
        line = self.line(limit_s)
        if line is None:
            # an answer that comes later must not be taken for that of another request
            self.close()
            raise Interrupted(f"The worker has not answered in {limit_s:g} s")
        return line

    def send(self, request: Request) -> None:
        def begin() -> None:
            if self._open is None:
                self._open = LineSocket.to(self._path)
            self._open.send(request_line(request))

        self._try(begin)

    def line(self, wait_s: float) -> bytes | None:
        connection = self._open
        assert connection is not None, "a request was sent"
        return self._try(lambda: connection.receive(wait_s))

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _try(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except (OSError, EOFError) as error:
            self.close()
            raise Interrupted(f"The worker cannot be reached: {error}") from error


class ServedReader:
    """Implements TopicsReader."""

    def __init__(self, setup: TaskSetup) -> None:
        self._topics = setup.topics
        self._worker = _Connection(setup)

    def orders(self, orders: Orders) -> Wanted:
        """Reads the assignments up to the current end."""
        line = self._worker.ask(Read(self._topics.assignments), _SILENCE_S)
        for record in records_of(line):
            if record.offset >= orders.offset:
                orders.take(record)
        return orders.wanted

    def source_offsets(self) -> OffsetSnapshot:
        """Returns all offsets of the file."""
        line = self._worker.ask(Read(self._topics.offsets), _SILENCE_S)
        return reduce_all(OffsetSnapshot(), records_of(line))

    def close(self) -> None:
        self._worker.close()


class ServedControl:
    """Implements OrdersFollower."""

    def __init__(self, setup: TaskSetup, orders: Orders) -> None:
        self._orders = orders
        self._worker = _Connection(setup)
        self._worker.send(Follow(setup.topics.assignments, orders.offset))

    def wanted(self, wait_s: float = 0.0) -> Wanted:
        """Returns what to do now; waits up to `wait_s` for records if there are none."""
        line = self._worker.line(wait_s)
        while line is not None:
            for record in records_of(line):
                self._orders.take(record)
            line = self._worker.line(0.0)
        return self._orders.wanted

    def close(self) -> None:
        self._worker.close()


class ServedOffsets:
    """Implements OffsetsWriter: when a write returns, the offsets are on the worker's disk."""

    def __init__(self, setup: TaskSetup) -> None:
        self._id = setup.id
        self._worker = _Connection(setup)

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Whether all are written; the log says why not."""
        if not offsets:
            return True
        try:
            why = failure_of(self._worker.ask(Write(offsets), limit_s))
        except Interrupted as error:
            why = str(error)
        if why is None:
            return True
        text = "Task %s: offsets were not written; the next commit tries again: %s"
        _log.error(text, self._id, why)
        return False

    def close(self) -> None:
        self._worker.close()


class ServedStatuses:
    """Implements StatusWriter."""

    def __init__(self, setup: TaskSetup) -> None:
        self._worker = _Connection(setup)

    def write(self, record: NewRecord) -> Unwritten | None:
        try:
            why = failure_of(self._worker.ask(Write([record]), _STATUS_S))
        except Interrupted as error:
            why = str(error)
        return None if why is None else Unwritten(why, passing=False)

    def close(self) -> None:
        self._worker.close()
