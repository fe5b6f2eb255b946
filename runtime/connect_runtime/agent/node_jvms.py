"""Owns the JVMs that the Java tasks of a node share, and gives each task its way there.

A JVM serves a Unix socket in its private folder. The agent connects there for a task and passes the
connection on, so the task speaks with the JVM itself. The agent notices when a JVM ends: its tasks
hear the reason, and start again where `jvm_places` says.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final, TypeAlias

import orjson

from connect_runtime.agent.jvm_places import JvmMember, JvmPlaces, TaskKey, alone
from connect_runtime.agent.messages import JoinJvm, joined_line, jvm_end_line
from connect_runtime.agent.server import TaskConnection
from connect_runtime.api import ConnectorError
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmEnded, framed
from connect_runtime.settings.jvm_options import node_jvm_options
from connect_runtime.traces import own_jvm_trace
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# Scanning its plugins
_START_S: Final = 90.0
# A task that is told to end, and then cancelled, has ended by then, or is left to itself
_SLACK_S: Final = 2.0
_LOOK_S: Final = 5.0
_ANSWERS_S: Final = 60.0
_UNUSED_S: Final = 60.0
# Threads that outlive their tasks, for which a JVM gets no further ones
_LEFT_THREADS: Final = 3
# A message to a task must fit into the buffer of its connection
_LONGEST_REASON: Final = 16_384
# A line with a descriptor is received at once if it has up to some 32 KB
_LONGEST_OF_JOINED: Final = 4_096
_LONGEST_PATH: Final = 100

# Its place, and what it was started with
_JvmKey: TypeAlias = tuple[str, str]


@dataclass(slots=True, eq=False)
class _NodeJvm:
    """A JVM and the tasks in it, by the number of their connection, with the connection over which
    they hear of its end. `unused_since`: it has no task since then; `left_threads`: of tasks that
    did not end."""

    key: _JvmKey
    socket: Path
    jvm: PluginJvm | None = None
    members: dict[int, tuple[JvmMember, TaskConnection]] = field(default_factory=dict)
    unused_since: float = 0.0
    left_threads: int = 0
    reason: str | None = None


class NodeJvms:
    """Implements Service for `JoinJvm`. Each request has a thread of its own, as a JVM takes
    seconds to start."""

    over = False

    def __init__(self, *, watched: bool) -> None:
        """Starts no JVM yet. `watched`: another process ends one that is frozen."""
        self._watched = watched
        self._changed = threading.Condition()
        self._places = JvmPlaces()
        self._jvms: dict[_JvmKey, Future[_NodeJvm]] = {}
        self._all: set[_NodeJvm] = set()
        # Those with a thread of an attempt that has not ended
        self._left_in: dict[TaskKey, _NodeJvm] = {}
        self._last_number = 0
        self._waiting: set[TaskConnection] = set()
        self._closed = False

    def start(self) -> None:
        """Does nothing: each request starts its thread."""

    def add(self, connection: TaskConnection, request: JoinJvm) -> bool:
        with self._changed:
            self._waiting.add(connection)
        threading.Thread(
            target=self._join, args=(connection, request), name="join-jvm", daemon=True
        ).start()
        return True

    def remove(self, connection: TaskConnection) -> None:
        """Sends nothing to it any more. The JVM hears of the end of its task by itself, and no
        longer counts as used by it."""
        with self._changed:
            self._waiting.discard(connection)
            for node in self._all:
                if any(connection is of for _, of in node.members.values()):
                    node.unused_since = time.monotonic()

    def close(self) -> None:
        """Ends the JVMs."""
        with self._changed:
            self._closed = True
            jvms = [node.jvm for node in self._all if node.jvm is not None]
        for jvm in jvms:
            jvm.end()

    # --- a task that joins ---

    def _join(self, connection: TaskConnection, request: JoinJvm) -> None:
        try:
            self._connect(connection, request)
        except Exception as error:  # also for want of threads; the task waits for an answer
            if not isinstance(error, ConnectError | ConnectorError | OSError | TakesTooLong):
                _log.exception("A task cannot join a JVM")
            reason = str(error) or f"The JVM was not ready in {_START_S:.0f} s"
            self._tell(connection, jvm_end_line(reason, killed=False))

    def _connect(self, connection: TaskConnection, request: JoinJvm) -> None:
        member = JvmMember((request.connector, request.task), request.config)
        node = self._jvm(self._place(member, request.graceful_s), request)
        with self._changed:
            reason = self._places.reason(member)
            trace = None if reason is None else own_jvm_trace(reason[:_LONGEST_OF_JOINED])
            self._last_number += 1
            number = self._last_number
            if node.reason is not None:
                raise ConnectorError(node.reason)
            node.members[number] = member, connection
        try:
            with socket.socket(socket.AF_UNIX) as joined:
                joined.connect(str(node.socket))
                joined.sendall(framed({"peer": number}))
                with self._changed:
                    if connection in self._waiting:
                        connection.pass_on(joined, joined_line(trace))
        except OSError:
            with self._changed:
                self._leave(node, number, thread_left=False)
                self._retire(node)
                self._changed.notify_all()
            raise

    def _place(self, member: JvmMember, graceful_s: float) -> str:
        """Returns the place of a task, once no earlier attempt at it is in any JVM; if something of
        one is left, one where that is not in its way."""

        def earlier() -> list[tuple[_NodeJvm, int]]:
            return [
                (node, number)
                for node in self._all
                for number, (running, _) in node.members.items()
                if running.task == member.task
            ]

        with self._changed:
            self._changed.wait_for(lambda: not earlier(), graceful_s + _SLACK_S)
            for node, number in earlier():
                # also one that its JVM has never accepted, for want of threads
                self._leave(node, number, thread_left=True)
            if self._left_in.get(member.task) not in self._all:
                return self._places.place(member, time.monotonic())
            self._last_number += 1
            return f"{alone(member.task)} {self._last_number}"

    def _leave(self, node: _NodeJvm, number: int, *, thread_left: bool) -> None:
        """Removes a member, of which a thread may be left."""
        former = node.members.pop(number, None)
        node.unused_since = time.monotonic()
        if thread_left and former is not None:
            node.left_threads += 1
            self._left_in[former[0].task] = node
            if node.left_threads > _LEFT_THREADS:
                self._retire(node)

    def _jvm(self, place: str, request: JoinJvm) -> _NodeJvm:
        """Returns the JVM of a place, and starts it first if there is none. Raises what starting it
        raises."""
        settings = orjson.dumps([request.worker, request.worker_id], option=orjson.OPT_SORT_KEYS)
        key = place, hashlib.sha256(settings).hexdigest()
        with self._changed:
            if self._closed:
                raise ConnectorError("The process that this JVM works for is ending")
            future, is_first = self._jvms.get(key), False
            if future is None:
                future, is_first = Future(), True
                self._jvms[key] = future
        if is_first:
            try:
                future.set_result(self._started(key, request))
            except BaseException as error:
                with self._changed:
                    del self._jvms[key]
                future.set_exception(error)
        node = future.result()
        with self._changed:
            if node.reason is None:
                node.unused_since = time.monotonic()
                return node
            self._retire(node)
        if is_first:
            raise ConnectorError(node.reason)
        return self._jvm(place, request)

    def _started(self, key: _JvmKey, request: JoinJvm) -> _NodeJvm:
        node = _NodeJvm(key, _socket_path(), unused_since=time.monotonic())
        try:
            node.jvm = jvm = PluginJvm(
                request.worker,
                request.worker_id,
                on_event=lambda event, fields: self._take(node, event, fields),
                options=node_jvm_options(request.worker),
                watched=self._watched,
            )
        except BaseException:
            rmtree(node.socket.parent, ignore_errors=True)
            raise
        with self._changed:
            if node.reason is None:
                self._all.add(node)
            closed = self._closed
        try:
            if closed:
                raise ConnectorError("The process that this JVM works for is ending")
            jvm.call("listen", _START_S, path=str(node.socket))
            threading.Thread(target=self._look_after, args=(node, jvm), daemon=True).start()
        except BaseException:
            jvm.end()
            raise
        return node

    # --- what becomes of a JVM ---

    def _take(self, node: _NodeJvm, event: str, fields: Fields) -> None:
        match event:
            case "peer-ended":
                with self._changed:
                    self._leave(node, fields["peer"], thread_left=fields["threadLeft"])
                    if fields["outOfMemory"]:
                        self._retire(node)
                    self._changed.notify_all()
            case "ended":
                self._end(node, str(fields["why"]), killed=bool(fields["killed"]))
            case _:
                pass

    def _end(self, node: _NodeJvm, reason: str, *, killed: bool) -> None:
        """Tells the members of a JVM that it has ended."""
        reason = reason[:_LONGEST_REASON]
        with self._changed:
            self._retire(node)
            self._all.discard(node)
            self._left_in = {task: jvm for task, jvm in self._left_in.items() if jvm is not node}
            members = list(node.members.values())
            node.members.clear()
            node.reason = node.reason or reason
            unusable = node.jvm is not None and node.jvm.unusable
            if members and not unusable:
                culprit = self._places.ended(
                    [member for member, _ in members],
                    time.monotonic(),
                    reason,
                    killed=killed,
                    threads_left=node.left_threads > 0,
                )
                if culprit is not None:
                    _log.error("Task %d of %s has ended its JVM", culprit.task[1], culprit.task[0])
                    reason = own_jvm_trace(reason)
                _log.error("The JVM of %d tasks has ended: %s", len(members), reason)
            self._changed.notify_all()
        rmtree(node.socket.parent, ignore_errors=True)
        for _, connection in members:
            self._tell(connection, jvm_end_line(reason, killed=killed))

    def _tell(self, connection: TaskConnection, line: bytes) -> None:
        with self._changed:
            if connection in self._waiting:
                connection.send(line + b"\n")
                connection.end()

    def _retire(self, node: _NodeJvm) -> None:
        """Lets no further task into a JVM; it ends with the last one that it has."""
        future = self._jvms.get(node.key)
        if future is not None and future.done() and future.result() is node:
            del self._jvms[node.key]

    def _look_after(self, node: _NodeJvm, jvm: PluginJvm) -> None:
        """Ends a JVM that has no task for a while, or does not answer."""
        while node.reason is None:
            time.sleep(_LOOK_S)
            with self._changed:
                used = any(of in self._waiting for _, of in node.members.values())
                used_until = time.monotonic() if used else node.unused_since
                if time.monotonic() - used_until > _UNUSED_S:
                    self._retire(node)
                    node.reason = "The JVM was not used, and has ended"
            if node.reason is not None:
                break
            try:
                jvm.call("ping", _ANSWERS_S)
            except TakesTooLong:
                _log.error("A JVM of tasks has not answered in %.0f s, and is ended", _ANSWERS_S)
                break
            except JvmEnded:
                break
            except ConnectorError as error:
                _log.warning("A JVM of tasks has no answer: %s", error)
        jvm.end()


def _socket_path() -> Path:
    """Returns the path of a Unix socket, which systems limit to about 100 characters, in a folder
    that only this user can enter. Raises OSError."""
    path = Path(mkdtemp(prefix="connect-tasks-"), "socket")
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return path
    path.parent.rmdir()
    return Path(mkdtemp(prefix="connect-tasks-", dir="/tmp"), "socket")
