"""Starts, asks and ends a JVM that runs Java plugins, whoever owns it.

The JVM's standard input is a socket, over which both sides send frames of JSON: no port is opened,
and nothing secret is on a command line. The JVM ends when this side closes the socket, or is gone.
docs/engine-protocol.md describes the frames.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.agent.client import file_of
from connect_runtime.api import ConnectorError
from connect_runtime.engine.engine_jar import MAIN_CLASS, class_archive, class_path
from connect_runtime.engine.jvm_log import log_event, log_left_out, read_output
from connect_runtime.kafka.jars import cache_folder
from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_runtime.settings.jvm_options import jvm_options, jvm_properties
from connect_runtime.stopped_processes import LOOK_EVERY_S, StoppedProcess, look
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.secrets import Redactor

_log = logging.getLogger(__name__)

PROTOCOL: Final = 1
# Signals are this side's to send: Spark's end must not end a task before it has drained
_OPTIONS: Final = ("-Xrs", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
# Variables of this runtime that plugins have no use for
_PRIVATE: Final = ("CONNECT_LAUNCH", "PYSPARK_", "SPARK_", "PYTHONPATH")
_OUT_OF_MEMORY: Final = 3
# By these signals a JVM ends itself, such as for a fault of a plugin's native code
_CRASHES: Final = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}
)
_LENGTH: Final = struct.Struct(">I")
_LONGEST: Final = 256 << 20
_TAIL: Final = 20
_END_S: Final = 5.0
# Its last lines have the reason; a process that it started may keep the output open
_LAST_LINES_S: Final = 1.0
# After so long Apache's worker gives up a request
SLOW_S: Final = 90.0
# So long a JVM may take to read a request: one that is frozen must not hold up others
_PATIENCE: Final = struct.pack("ll", 30, 0)

Fields: TypeAlias = Mapping[str, Any]

_running: weakref.WeakSet[PluginJvm] = weakref.WeakSet()
_running_lock = threading.Lock()


def call_timeout_s(worker: Mapping[str, str]) -> float:
    """Returns how long a call of a plugin may take: `java.call.timeout.ms`, by default 10 min."""
    return int(worker.get("java.call.timeout.ms") or 600_000) / 1000


class JvmEnded(ConnectorError):
    """The JVM is gone. The text has the reason, as far as it is known."""


def running_jvms() -> list[PluginJvm]:
    """Returns the JVMs that this process has started, and has not forgotten."""
    with _running_lock:
        return list(_running)


class PluginJvm:
    """A running JVM. `on_event` gets events in order, on a thread of their own; `answers` has the
    functions that answer its requests, each called on a thread of its own."""

    def __init__(
        self,
        worker: Mapping[str, str],
        worker_id: str,
        *,
        on_event: Callable[[str, Fields], None] = lambda event, fields: None,
        answers: Mapping[str, Callable[[Fields], Any]] | None = None,
        on_log: Callable[[Fields], None] = lambda line: None,
        options: Sequence[str] | None = None,
        held: Sequence[int] = (),
        watched: bool = False,
    ) -> None:
        """Starts the JVM with the worker's properties, and returns before it is ready. Its process
        keeps the descriptors `held` open. Unless it is `watched` by another process, this one kills
        it if it is frozen. `on_log` gets lines of its log. Raises ArtifactsError, Failed."""
        self._on_event = on_event
        self._on_log = on_log
        self._answers = answers or {}
        self._secrets: set[str] = set()
        self._redactor = Redactor.of_configs(worker, texts=self._secrets)
        self._worker = worker
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Fields | None]] = {}
        self._last_id = 0
        self._ended: str | None = None
        self._killed = False
        self._over = threading.Event()
        # It could not build Connect's worker, which is no plugin's fault: Kafka may be away
        self.unusable = False
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
        with theirs, file_of(b"") as worker_file:
            descriptor = worker_file.fileno()
            self._folder = _OwnFolder()
            options = (*self._folder.options, *(options or jvm_options(worker)))
            try:
                self._process = _start(theirs, options, (*held, descriptor))
            except BaseException:
                self._folder.remove()
                raise
        self.pid = self._process.pid
        with _running_lock:
            _running.add(self)
        self._output = threading.Thread(target=self._read_output, name="jvm-output", daemon=True)
        self._output.start()
        for run in (self._read, self._wait, *(() if watched else (self._watch,))):
            threading.Thread(target=run, name=f"jvm{run.__name__}", daemon=True).start()
        start = {"call": "start", "protocol": PROTOCOL, "file": f"/dev/fd/{descriptor}"}
        start |= {"worker": jvm_properties(worker), "workerId": worker_id}
        with suppress(JvmEnded):  # the first call says so
            self._write({"id": 0, **start})

    # --- requests ---

    def call(
        self,
        name: str,
        timeout_s: float,
        *,
        on_slow: Callable[[], None] = lambda: None,
        **arguments: Any,
    ) -> Any:
        """Returns the result of a request. Raises JavaError, JvmEnded, and TakesTooLong after
        `timeout_s`; the JVM goes on then. Calls `on_slow` after `SLOW_S`."""
        answer: queue.SimpleQueue[Fields | None] = queue.SimpleQueue()
        with self._lock:
            if self._ended is not None:
                raise JvmEnded(self._ended)
            self._last_id += 1
            number = self._last_id
            self._waiting[number] = answer
        try:
            self._write({"id": number, "call": name, **arguments})
            frame = _taken(answer, timeout_s, on_slow)
        except queue.Empty:
            raise TakesTooLong from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if frame is None:
            raise JvmEnded(self._ended)
        if "error" in frame:
            raise self.error(frame["error"])
        return frame["result"]

    def error(self, failure: Fields) -> JavaError:
        """Returns an exception that the JVM sent, without secrets."""
        text, trace = (self.redact(failure[key] or "") for key in ("message", "trace"))
        return JavaError(failure["type"], text, failure["status"], trace)

    def hide(self, values: Iterable[str]) -> None:
        """Redacts these values from now on, too."""
        with self._lock:
            self._secrets.update(values)
            self._redactor = Redactor.of_configs(self._worker, texts=self._secrets)

    def redact(self, text: str) -> str:
        """Returns a text of the JVM without the secrets that it has named."""
        return self._redactor.redact(text)

    def _write(self, frame: Fields) -> None:
        content = orjson.dumps(frame)
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(content)) + content)
        except OSError:  # also if it has read nothing for long
            self.end(_END_S)
            self._over.wait(_END_S)  # what it has sent before is read first
            self._end_waiting()
            raise JvmEnded(self._ended) from None

    # --- what arrives ---

    def _read(self) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
                self._take(orjson.loads(self._receive(length)))
        except (OSError, EOFError):
            pass
        except Exception as error:  # such as of a plugin that writes into the socket
            _log.exception("What a JVM sent cannot be read, and it is ended")
            reason = type(error).__name__
            self._ended = f"The JVM was ended, as what it sent cannot be read: {reason}"
            self.end()
        self._end_waiting()
        self._on_event("ended", {"why": self._ended, "killed": self._killed})

    def _receive(self, count: int) -> bytes:
        if count > _LONGEST:
            raise ValueError(f"a frame of {count} bytes")
        content = bytearray()
        while len(content) < count:
            arrived = self._socket.recv(min(count - len(content), 1 << 20))
            if not arrived:
                raise EOFError
            content += arrived
        return bytes(content)

    def _take(self, frame: Fields) -> None:
        if "answer" in frame:
            with self._lock:
                waiting = self._waiting.get(frame["answer"])
            if waiting is not None:
                waiting.put(frame)
        elif "event" in frame:
            self._take_event(frame["event"], frame)
        else:
            threading.Thread(target=self._answer, args=(frame,), daemon=True).start()

    def _take_event(self, event: str, frame: Fields) -> None:
        match event:
            case "secrets":
                self.hide(frame["values"])
            case "unusable":
                error = self.error(frame["failure"])
                _log.error("Connect's worker cannot start in a JVM: %s", error.trace)
                self.unusable = True
                self._ended = f"Connect's worker cannot start: {error}"
            case "log":
                self._on_log(frame)
                log_event(frame, self.redact)
            case "log-lines-left-out":
                log_left_out(frame)
            case _:
                self._on_event(event, frame)

    def _answer(self, frame: Fields) -> None:
        answer: dict[str, Any] = {"answer": frame["id"]}
        try:
            answer["result"] = self._answers[frame["call"]](frame)
        except Exception as error:  # the JVM's thread waits for it
            _log.warning("A request of a JVM failed: %s", error)
            answer["error"] = str(error)
        try:
            self._write(answer)
        except JvmEnded:
            return

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            read_output(output, self._tail.append, self.redact)

    # --- the end ---

    def _wait(self) -> None:
        """Ends the reading with the process: what a plugin started may keep the socket open."""
        self._process.wait()
        with suppress(OSError):  # it is closed
            self._socket.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        looks: Mapping[StoppedProcess, int] = {}
        while not self._over.wait(LOOK_EVERY_S):
            looks = look((self.pid,), looks)

    def end(self, patience_s: float = 0.0) -> None:
        """Ends the JVM: by closing the socket, and after `patience_s` by SIGKILL."""
        with suppress(OSError):  # it is closed, or the JVM has ended
            self._socket.shutdown(socket.SHUT_RDWR)
        self._end_process(patience_s)

    def _end_process(self, patience_s: float) -> int | None:
        """Returns the exit code; None if the kernel cannot end it yet."""
        for seconds in (patience_s, _END_S):
            try:
                code = self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
            else:
                self._folder.remove()
                return code
        return None

    def _end_waiting(self) -> None:
        code = self._end_process(_END_S)
        self._output.join(_LAST_LINES_S)
        with self._lock:
            self._ended = self._ended or _reason(code, self._tail)
            self._killed = code is not None and code < 0 and -code not in _CRASHES
            self._socket.close()
            waiting, self._waiting = list(self._waiting.values()), {}
        self._over.set()
        for answer in waiting:
            answer.put(None)


class _OwnFolder:
    """A folder for temporary files of a JVM: the libraries that plugins unpack there stay behind
    when it is killed."""

    def __init__(self) -> None:
        self.path: str | None = None
        with suppress(OSError):  # a disk is full: then files are where Java has them
            self.path = mkdtemp(prefix="connect-jvm-")

    @property
    def options(self) -> tuple[str, ...]:
        """Returns the options of a JVM that uses the folder."""
        return () if self.path is None else (f"-Djava.io.tmpdir={self.path}",)

    def remove(self) -> None:
        """Removes the folder with its files."""
        if self.path is not None:
            rmtree(self.path, ignore_errors=True)


def _start(
    theirs: socket.socket, options: Sequence[str], held: Sequence[int]
) -> subprocess.Popen[bytes]:
    java = find_java()
    if java is None:
        raise Failed(
            Diagnostic("engine.java", "Java plugins need Java 17 or newer", hint=NO_JAVA_HINT)
        )
    # as in Apache's start script
    further = filter(None, [os.environ.get("CLASSPATH")])
    path = os.pathsep.join([*map(str, class_path()), *further])
    # each crash writes it again: a file for each of them would fill the disk
    report = f"-XX:ErrorFile={cache_folder() / 'java-crash.log'}"
    own = [*_OPTIONS, report, *class_archive().flags()]
    # before options that may name another archive, or make one
    command = [str(java), *own, *options, "-cp", path, MAIN_CLASS]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_PRIVATE)}
    return subprocess.Popen(
        command,
        stdin=theirs.fileno(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=tuple(held),
        start_new_session=True,
    )


def _taken(
    answer: queue.SimpleQueue[Fields | None], timeout_s: float, on_slow: Callable[[], None]
) -> Fields | None:
    """Returns the answer to a request, at once if its time is over. Raises queue.Empty."""
    if timeout_s > SLOW_S:
        with suppress(queue.Empty):
            return answer.get(timeout=SLOW_S)
        on_slow()
        timeout_s -= SLOW_S
    return answer.get(timeout=max(timeout_s, 0.0))


def _reason(code: int | None, tail: Sequence[str]) -> str:
    if code is None:
        text = "The JVM does not end"
    elif code == _OUT_OF_MEMORY:
        text = "The JVM ended with exit code 3 (out of memory)"
    elif code < 0:
        text = f"The JVM was ended by {signal.Signals(-code).name}"
    else:
        text = f"The JVM ended with exit code {code}"
    return "\n".join([text, *tail])
