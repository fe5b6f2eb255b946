"""The agent of a standalone worker: it serves the topics of this process to its tasks.

Through a socket of this machine in a folder that only this user can enter. Tasks read assignments
and offsets, write offsets and statuses, and join a JVM; nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from connect_runtime.agent.assignment_tail import POLL_S, AssignmentTail
from connect_runtime.agent.client import file_of
from connect_runtime.agent.messages import (
    Follow,
    JoinJvm,
    ReadAssignment,
    ReadOffsets,
    Request,
    WriteOffsets,
    WriteStatus,
    unwritten_line,
)
from connect_runtime.agent.node_jvms import NodeJvms
from connect_runtime.agent.server import (
    AgentServer,
    Service,
    TaskConnection,
    raise_descriptor_limit,
)
from connect_runtime.agent.topic_reads import TopicCache, TopicReads, task_of
from connect_runtime.agent.writes import StatusWrites
from connect_runtime.standalone.logs import StandaloneLogs
from connect_runtime.storage.log import LogReader, LogRecord, NewRecord, Unwritten
from connect_runtime.storage.offsets_topic import changed_connector
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.names import ClusterTopics

_log = logging.getLogger(__name__)

_CLOSE_S: Final = 5.0


class TopicsServer:
    """Serves from its creation until `close`. Raises Failed where there can be no socket."""

    def __init__(self, logs: StandaloneLogs, topics: ClusterTopics) -> None:
        self._logs = logs
        self._topics = topics
        # not below the data folder: the path of a socket has about 100 characters at most
        self._folder = tempfile.mkdtemp(prefix="connect-")
        self.path = str(Path(self._folder, "worker"))
        self._closed = threading.Event()
        self._offset_writes = OffsetFileWrites(logs)
        self._jvms = NodeJvms(watched=False)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._door.bind(self.path)
        except OSError as error:
            self._door.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            message = "the worker cannot make the socket for its tasks"
            hint = "set TMPDIR to a folder with a short path"
            diagnostic = Diagnostic("worker.no-socket", message, self.path, str(error), hint)
            raise Failed(diagnostic) from error
        server = AgentServer(
            self._door, self._service, self._closed.is_set, raise_descriptor_limit()
        )
        self._serving = threading.Thread(target=server.serve, name="serve-tasks", daemon=True)
        self._serving.start()

    def close(self) -> None:
        """Ends all connections. A write in progress is completed."""
        self._closed.set()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.setblocking(False)  # a full door wakes it up, too
            own.sendto(b".", self.path)  # which wakes the thread up
        self._serving.join(_CLOSE_S)
        self._jvms.close()
        self._offset_writes.close()
        self._door.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _service(self, request: Request, properties: Mapping[str, str]) -> Service:
        topics = self._topics
        match request:
            case Follow(topic=topics.assignments):
                return AssignmentTail(self._assignments)
            case ReadAssignment(topic=topics.assignments):
                return self._reads(topics.assignments, task_of)
            case ReadOffsets(topic=topics.offsets):
                return self._reads(topics.offsets, changed_connector)
            case WriteStatus() if request.topic == topics.status:
                return StatusWrites(lambda: _Statuses(self._logs))
            case WriteOffsets(topic=topics.offsets):
                return self._offset_writes
            case JoinJvm():
                return self._jvms
            case _:
                raise ValueError("a task may not do this")

    def _reads(self, topic: str, owner: Callable[[LogRecord], str | None]) -> Service:
        return TopicReads(topic, lambda: TopicCache(topic, _Readable(self._logs), owner))

    def _assignments(self) -> Iterator[LogRecord | None]:
        reader = self._logs.reader(self._topics.assignments)
        while not self._closed.is_set():
            yield from self._logs.wait(reader, POLL_S)
            yield None


class OffsetFileWrites:
    """Implements Service: each write has a thread, as those that come together are one write of the
    file."""

    over = False

    def __init__(self, logs: StandaloneLogs) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._connections: set[TaskConnection] = set()
        self._threads: set[threading.Thread] = set()

    def start(self) -> None:
        """Does nothing: each request starts its thread."""

    def add(self, connection: TaskConnection, request: WriteOffsets) -> bool:
        thread = threading.Thread(
            target=self._write, args=(connection, request), name="write-offsets", daemon=True
        )
        with self._lock:
            thread.start()
            self._threads.add(thread)
            self._connections.add(connection)
        return True

    def remove(self, connection: TaskConnection) -> None:
        with self._lock:
            self._connections.discard(connection)

    def close(self) -> None:
        """Waits for writes in progress."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_CLOSE_S)

    def _write(self, connection: TaskConnection, request: WriteOffsets) -> None:
        try:
            unwritten = self._written(connection, request)
            with file_of(unwritten_line(unwritten)) as file, self._lock:
                if connection in self._connections:
                    connection.answer(file)
        except EOFError:
            pass  # the task has given up
        except Exception:
            _log.exception("Offsets of a task were not written")
            with self._lock:
                if connection in self._connections:
                    connection.end()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _written(self, connection: TaskConnection, request: WriteOffsets) -> Unwritten | None:
        def check() -> None:
            with self._lock:
                if connection not in self._connections or not connection.waits:
                    raise EOFError

        records = [NewRecord(request.topic, key, value) for key, value in request.offsets]
        try:
            self._logs.write_for_task(records, check)
        except ConnectError as error:
            why = "; ".join(f"{problem.what}: {problem.why}" for problem in error.diagnostics)
            return Unwritten(why, passing=False)
        return None


class _Statuses:
    """Implements StatusProducer in memory."""

    def __init__(self, logs: StandaloneLogs) -> None:
        self._logs = logs

    def begin(self, record: NewRecord, answered: Callable[[Unwritten | None], None]) -> None:
        self._logs.write_for_task([record], lambda: None)
        answered(None)

    def serve(self, wait_s: float) -> None:
        """Waits for nothing: all is written."""

    def close(self) -> None:
        """Closes nothing."""


class _Readable:
    """Implements ReadableLogs; the worker closes its logs by itself."""

    def __init__(self, logs: StandaloneLogs) -> None:
        self._logs = logs
        self.reader: Callable[[str], LogReader] = logs.reader

    def identity(self, topic: str) -> str:
        """Returns the topic's name: it stays the same topic."""
        return topic

    def close(self) -> None:
        """Closes nothing."""
