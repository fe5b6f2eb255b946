"""Serves a standalone worker's topics to its tasks, which are processes of their own.

Over a socket of this machine in a folder that only this user can enter. Tasks read assignments and
offsets, and write offsets and statuses; nothing else. One thread for each connection: a task has at
most three, none of them for long but the one that follows its assignment.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from connect_runtime.standalone.logs import StandaloneLogs
from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.served_messages import (
    Follow,
    Read,
    Write,
    failure_line,
    records_line,
    request_of,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.names import ClusterTopics

_log = logging.getLogger(__name__)

# The interval at which a follower looks for the end of its task
_LOOK_S: Final = 1.0
_WAITING: Final = 128
_AGAIN_S: Final = 0.5
_CLOSE_S: Final = 5.0


class TopicsServer:
    """Serves from its creation until `close`. Raises Failed where there can be no socket."""

    def __init__(self, logs: StandaloneLogs, topics: ClusterTopics) -> None:
        self._logs = logs
        self._readable = (topics.assignments, topics.offsets)
        self._writable = (topics.status, topics.offsets)
        # not below the data folder: the path of a socket has about 100 characters at most
        self._folder = tempfile.mkdtemp(prefix="connect-")
        self.path = str(Path(self._folder, "worker"))
        self._lock = threading.Lock()
        self._closed = False
        self._connections: dict[threading.Thread, LineSocket] = {}
        self._listening = socket.socket(socket.AF_UNIX)
        self._listen()
        threading.Thread(target=self._accept, name="serve-topics", daemon=True).start()

    def _listen(self) -> None:
        try:
            self._listening.bind(self.path)
            self._listening.listen(_WAITING)
        except OSError as error:
            self._listening.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            message = "the worker cannot make the socket for its tasks"
            hint = "set TMPDIR to a folder with a short path"
            diagnostic = Diagnostic("worker.no-socket", message, self.path, str(error), hint)
            raise Failed(diagnostic) from error

    def close(self) -> None:
        """Ends all connections. A write in progress is completed."""
        with self._lock:
            self._closed = True
            connections = dict(self._connections)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread, connection in connections.items():
            connection.end()
            thread.join(_CLOSE_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
                self._begin(LineSocket(connected))
            except (OSError, RuntimeError):
                if self._closed:
                    return
                _log.exception("A task could not connect to its worker")
                time.sleep(_AGAIN_S)  # this process has no more descriptors, or threads

    def _begin(self, connection: LineSocket) -> None:
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="serve-task", daemon=True
        )
        with self._lock:
            if self._closed:
                connection.close()
                return
            try:
                thread.start()
            except RuntimeError:
                connection.close()
                raise
            self._connections[thread] = connection

    def _serve(self, connection: LineSocket) -> None:
        try:
            while True:
                line = connection.receive()
                assert line is not None, "it waits without a limit"
                self._answer(connection, line)
        except (OSError, EOFError):
            pass  # the task has ended
        except Exception:
            _log.exception("A request of a task failed")
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)
            connection.close()

    def _answer(self, connection: LineSocket, line: bytes) -> None:
        request = request_of(line)
        match request:
            case Read(topic=topic) if topic in self._readable:
                connection.send(records_line(self._logs.reader(topic).poll()))
            case Follow(topic=topic, offset=offset) if topic in self._readable:
                self._follow(connection, topic, offset)
            case Write() if all(record.topic in self._writable for record in request.records):
                connection.send(failure_line(self._failure(connection, request)))
            case _:
                raise ValueError("a task may not do this")

    def _follow(self, connection: LineSocket, topic: str, offset: int) -> None:
        """Returns only by EOFError, once the task has ended."""
        reader = self._logs.reader(topic)
        while True:
            records = [r for r in self._logs.wait(reader, _LOOK_S) if r.offset >= offset]
            if records:
                connection.send(records_line(records))
            connection.receive(0.0)

    def _failure(self, connection: LineSocket, request: Write) -> str | None:
        def check() -> None:
            connection.receive(0.0)

        try:
            self._logs.write_for_task(request.records, check)
        except ConnectError as error:
            return "; ".join(f"{problem.what}: {problem.why}" for problem in error.diagnostics)
        return None
