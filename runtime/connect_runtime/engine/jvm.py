"""Starts, asks and ends a JVM that runs Java plugins, whoever owns it.

The JVM's standard input is a socket, over which both sides send frames of JSON: no port is opened,
and nothing secret is on a command line. The JVM ends when this side closes the socket, or is gone.
docs/engine-protocol.md describes the frames.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

from connect_runtime.agent.client import file_of
from connect_runtime.engine.engine_jar import MAIN_CLASS, class_archive, class_path
from connect_runtime.engine.jvm_connection import Answers, Fields, JvmConnection, JvmEnded, OnEvent
from connect_runtime.engine.jvm_log import read_output
from connect_runtime.kafka.jars import cache_folder
from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_runtime.settings.jvm_options import jvm_options, jvm_properties
from connect_runtime.stopped_processes import LOOK_EVERY_S, StoppedProcess, look
from connect_specs.diagnostics import Diagnostic, Failed

_log = logging.getLogger(__name__)

PROTOCOL: Final = 1
# Signals are this side's to send: Spark's end must not end a task before it has drained
_OPTIONS: Final = ("-Xrs", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
# Variables of this runtime that plugins have no use for
_PRIVATE: Final = ("CONNECT_LAUNCH", "PYSPARK_", "SPARK_", "PYTHONPATH")
_OUT_OF_MEMORY: Final = 3
_STUCK: Final = 105
# By these signals a JVM ends itself, such as for a fault of a plugin's native code
_CRASHES: Final = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}
)
_TAIL: Final = 20
_END_S: Final = 5.0
# Its last lines have the reason; a process that it started may keep the output open
_LAST_LINES_S: Final = 1.0

_running: weakref.WeakSet[PluginJvm] = weakref.WeakSet()
_running_lock = threading.Lock()


def call_timeout_s(worker: Mapping[str, str]) -> float:
    """Returns how long a call of a plugin may take: `java.call.timeout.ms`, by default 10 min."""
    return int(worker.get("java.call.timeout.ms") or 600_000) / 1000


def running_jvms() -> list[PluginJvm]:
    """Returns the JVMs that this process has started, and has not forgotten."""
    with _running_lock:
        return list(_running)


class PluginJvm(JvmConnection):
    """A running JVM that this process has started."""

    def __init__(
        self,
        worker: Mapping[str, str],
        worker_id: str,
        *,
        on_event: OnEvent = lambda event, fields: None,
        answers: Answers | None = None,
        on_log: Callable[[Fields], None] = lambda line: None,
        options: Sequence[str] | None = None,
        held: Sequence[int] = (),
        watched: bool = False,
    ) -> None:
        """Starts the JVM with the worker's properties, and returns before it is ready. Its process
        keeps the descriptors `held` open. Unless it is `watched` by another process, this one kills
        it if it is frozen. Raises ArtifactsError, Failed."""
        self._tail: deque[str] = deque(maxlen=_TAIL)
        # By this process, as it did not end by itself
        self._was_killed = False
        ours, theirs = socket.socketpair()
        super().__init__(ours, worker, on_event, answers or {}, on_log)
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
        self._start_reading()
        for run in (self._wait, *(() if watched else (self._watch,))):
            threading.Thread(target=run, name=f"jvm{run.__name__}", daemon=True).start()
        start = {"call": "start", "protocol": PROTOCOL, "file": f"/dev/fd/{descriptor}"}
        start |= {"worker": jvm_properties(worker), "workerId": worker_id}
        with suppress(JvmEnded):  # the first call says so
            self._write({"id": 0, **start})

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
        super().end()
        self._end_process(patience_s)

    def _end_process(self, patience_s: float) -> int | None:
        """Returns the exit code; None if the kernel cannot end it yet."""
        for seconds in (patience_s, _END_S):
            try:
                code = self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._was_killed = True
                self._process.kill()
            else:
                self._folder.remove()
                return code
        return None

    def _reason(self) -> tuple[str, bool]:
        code = self._end_process(_END_S)
        self._output.join(_LAST_LINES_S)
        by_signal = code is not None and code < 0 and -code not in _CRASHES
        killed = by_signal and not self._was_killed
        return _reason(code, self._tail), killed


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


def _reason(code: int | None, tail: Sequence[str]) -> str:
    if code is None:
        text = "The JVM does not end"
    elif code == _OUT_OF_MEMORY:
        text = "The JVM ended with exit code 3 (out of memory)"
    elif code == _STUCK:
        text = "The JVM ended with exit code 105 (its shutdown hooks did not end)"
    elif code < 0:
        text = f"The JVM was ended by {signal.Signals(-code).name}"
    else:
        text = f"The JVM ended with exit code {code}"
    return "\n".join([text, *tail])
