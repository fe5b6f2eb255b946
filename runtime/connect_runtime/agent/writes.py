"""Writes the statuses of a node's tasks with one producer.

Each is answered as soon as Kafka has it: a partition without a leader holds up only its own. A
record whose task has given up is not written: its next one may be in the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from connect_runtime.agent.messages import unwritten_line
from connect_runtime.agent.server import QueuedService, TaskConnection
from connect_runtime.storage.log import NewRecord, Unwritten
from connect_specs.diagnostics import ConnectError, Invalid

# The longest that a new one waits for the answer to an earlier one
_SOON_S: Final = 0.02


class StatusProducer(Protocol):
    """A producer for statuses. `begin` calls `answered` from within `serve`, or at once."""

    def begin(self, record: NewRecord, answered: Callable[[Unwritten | None], None]) -> None: ...
    def serve(self, wait_s: float) -> None: ...
    def close(self) -> None: ...


class StatusWrites(QueuedService):
    """Answers when the statuses are written. `open_producer` raises ConnectError if the login is
    invalid."""

    def __init__(self, open_producer: Callable[[], StatusProducer]) -> None:
        super().__init__("write-statuses")
        self._open_producer = open_producer

    def _serve(self) -> None:
        try:
            producer = self._open_producer()
        except ConnectError as error:
            self._answer(
                unwritten_line(Unwritten(str(error), passing=not isinstance(error, Invalid))),
                *self._take(),
            )
            return
        try:
            while not self.over:
                for connection, request in self._take().items():
                    producer.begin(request.record, partial(self._written, connection))
                producer.serve(_SOON_S)
        finally:
            producer.close()

    def _written(self, connection: TaskConnection, unwritten: Unwritten | None) -> None:
        self._answer(unwritten_line(unwritten), connection)
