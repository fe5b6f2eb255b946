"""Opens what a task uses of its cluster's own topics: in Kafka, or in a standalone worker.

In Kafka it goes through the process that serves the node. A task uses clients of its own where no
process serves the node, and from the moment on at which that process is gone or silent. In
standalone mode it goes over a socket of the worker; everything there raises Interrupted if the
worker does not answer: it has ended, or will launch the task again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from connect_runtime.kafka.background_writer import TRY_S, KafkaStatuses, Unwritten, unwritten_of
from connect_runtime.node import door
from connect_runtime.node.door import ReadAssignment, ReadOffsets, WriteStatus
from connect_runtime.node.following import ALIVE_EVERY_S
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
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
    KafkaFollower,
    StartReader,
)
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

T = TypeVar("T")

_SILENT_S: Final = 3 * ALIVE_EVERY_S
# As long as a task waits for a silent Kafka
_WORKER_SILENCE_S: Final = 75.0
_WORKER_STATUS_S: Final = 5.0


class TopicsReader(Protocol):
    """Reads topics up to their current ends. Raises Interrupted."""

    def read_assignment(self, assignment: AttemptAssignment) -> DesiredTaskState: ...
    def source_offsets(self) -> OffsetSnapshot: ...
    def close(self) -> None: ...


class StatusWriter(Protocol):
    """Writes one status record, and returns None once it is written."""

    def write(self, record: NewRecord) -> Unwritten | None: ...
    def close(self) -> None: ...


def open_reader(setup: TaskSetup) -> TopicsReader:
    return NodeReader(setup) if setup.socket is None else ServedReader(setup)


def follow_assignment(setup: TaskSetup, assignment: AttemptAssignment) -> AssignmentFollower:
    """Follows from the position of `assignment`."""
    if setup.socket is None:
        return NodeFollower(setup, assignment)
    return ServedFollower(setup, assignment)


def open_statuses(setup: TaskSetup) -> StatusWriter:
    return NodeStatuses(setup) if setup.socket is None else ServedStatuses(setup)


def newest_state(setup: TaskSetup) -> DesiredTaskState:
    """Reads the desired state of the attempt to the end, whatever has been read before."""
    reader = open_reader(setup)
    try:
        return reader.read_assignment(AttemptAssignment(setup))
    finally:
        reader.close()


# --- through the node's process ---


class NodeFollower:
    """Follows the assignment that the node's process passes on: an AssignmentFollower."""

    def __init__(self, setup: TaskSetup, assignment: AttemptAssignment) -> None:
        self._setup = setup
        self._assignment = assignment
        follow = door.Follow(setup.topics.assignments, str(setup.id), assignment.offset)
        connected = door.begin(follow, setup.worker_client("assignments"))
        self._node = None if connected is None else LineSocket(connected)
        self._heard_at = time.monotonic()
        self._own = KafkaFollower(setup, assignment) if self._node is None else None

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        if self._own is not None:
            return self._own.desired(wait_s)
        assert self._node is not None, "one of both follows"
        try:
            line = self._node.receive(wait_s)
            while line is not None:
                self._heard_at = time.monotonic()
                self._assignment.apply(records_of(line))
                line = self._node.receive(0.0)
            lost = time.monotonic() - self._heard_at > _SILENT_S
        except (OSError, EOFError):
            lost = True
        if lost:
            _log.info("Task %s follows its assignments by itself from now on", self._setup.id)
            self._node.close()
            self._own = KafkaFollower(self._setup, self._assignment)
            return self._own.desired(wait_s)
        return self._assignment.desired

    def close(self) -> None:
        for connection in (self._own, self._node):
            if connection is not None:
                connection.close()


class NodeReader:
    """Reads what the node's process has read: a TopicsReader."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._own: StartReader | None = None

    def read_assignment(self, assignment: AttemptAssignment) -> DesiredTaskState:
        """Reads the newest assignment before the current end."""
        answer = self._ask(ReadAssignment(self._setup.topics.assignments, str(self._setup.id)))
        if answer is None:
            return self._reader().read_assignment(assignment)
        return assignment.apply_unread(records_of(answer))

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        answer = self._ask(ReadOffsets(self._setup.topics.offsets, self._setup.id.connector))
        if answer is None:
            return self._reader().source_offsets()
        return reduce_all(OffsetSnapshot(), records_of(answer))

    def _ask(self, request: ReadAssignment | ReadOffsets) -> bytes | None:
        if self._own is not None:
            return None
        return door.ask(request, self._setup.worker_client("start"))

    def _reader(self) -> StartReader:
        if self._own is None:
            self._own = StartReader(self._setup)
        return self._own

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class NodeStatuses:
    """Has the node's process write statuses: a StatusWriter."""

    def __init__(self, setup: TaskSetup) -> None:
        self._properties = setup.worker_client("statuses")
        self._own: KafkaStatuses | None = None

    def write(self, record: NewRecord) -> Unwritten | None:
        if self._own is None:
            value = None if record.value is None else record.value.decode()
            deadline = time.monotonic() + TRY_S
            request = WriteStatus(record.topic, record.key.decode(), value, deadline)
            answer = door.ask(request, self._properties)
            if answer is not None:
                return unwritten_of(answer)
            try:
                self._own = KafkaStatuses(self._properties)
            except ConnectError as error:  # the worker's login is invalid
                return Unwritten(str(error), passing=False)
        return self._own.write(record)

    def close(self) -> None:
        """Ends the task's own producer, with what it could not deliver."""
        if self._own is not None:
            self._own.close()


# --- through the standalone worker ---


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

    def write(self, records: Sequence[NewRecord], limit_s: float) -> str | None:
        """Returns None once the records are written, else the reason."""
        try:
            return failure_of(self.ask(Write(records), limit_s))
        except Interrupted as error:
            return str(error)

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

    def _try(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (OSError, EOFError) as error:
            self.close()
            raise Interrupted(f"The worker cannot be reached: {error}") from error


class _Served:
    """Has a connection to the worker of its own."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._worker = _Connection(setup)

    def close(self) -> None:
        self._worker.close()


class ServedReader(_Served):
    """Reads the worker's topics: a TopicsReader."""

    def read_assignment(self, assignment: AttemptAssignment) -> DesiredTaskState:
        """Reads the assignments up to the current end."""
        line = self._worker.ask(Read(self._setup.topics.assignments), _WORKER_SILENCE_S)
        return assignment.apply_unread(records_of(line))

    def source_offsets(self) -> OffsetSnapshot:
        """Returns all offsets of the file."""
        line = self._worker.ask(Read(self._setup.topics.offsets), _WORKER_SILENCE_S)
        return reduce_all(OffsetSnapshot(), records_of(line))


class ServedFollower(_Served):
    """Follows the worker's assignments: an AssignmentFollower."""

    def __init__(self, setup: TaskSetup, assignment: AttemptAssignment) -> None:
        super().__init__(setup)
        self._assignment = assignment
        self._worker.send(Follow(setup.topics.assignments, assignment.offset))

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        line = self._worker.line(wait_s)
        while line is not None:
            self._assignment.apply(records_of(line))
            line = self._worker.line(0.0)
        return self._assignment.desired


class ServedOffsets(_Served):
    """Writes source offsets: when a write returns, they are on the worker's disk."""

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Returns True once all are written; logs the reason if not."""
        why_not = self._worker.write(offsets, limit_s) if offsets else None
        if why_not is not None:
            text = "Task %s: offsets were not written; the next commit tries again: %s"
            _log.error(text, self._setup.id, why_not)
        return why_not is None


class ServedStatuses(_Served):
    """Writes statuses to the worker's topic: a StatusWriter."""

    def write(self, record: NewRecord) -> Unwritten | None:
        why_not = self._worker.write([record], _WORKER_STATUS_S)
        return None if why_not is None else Unwritten(why_not, passing=False)
