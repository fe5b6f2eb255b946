"""This project's runtime as a process: whether it is up, and `up --detach`, which starts it.

`up` holds a lock while it runs and leaves a record of its process. The lock says whether a runtime
is up, whatever happened to the record; pid and start time together identify the process, so that no
other process is ever signalled. A detached runtime logs to .connect/runtime.log and outlives its
terminal; if it fails before it is healthy, the error has the end of that log.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect_reconciler.cli.output import progress
from connect_reconciler.cli.project_files import broker_folder, make_data_folder
from connect_reconciler.cli.runtime_logs import LOG
from connect_reconciler.cli.signals import may_change
from connect_runtime.files import replace_file
from connect_runtime.kafka.local_processes import end_process, is_alive, spawn, start_time
from connect_specs.diagnostics import (
    ConnectError,
    Diagnostic,
    ExitCode,
    Failed,
    Invalid,
    Unreachable,
)

if TYPE_CHECKING:
    from connect_specs.desired import Project


_LOCK = "runtime.lock"
_RECORD = "runtime.json"
# Packages that the extra `runtime` of this package installs
_PACKAGES = ("pyspark", "cryptography")
_PROBE_S = 2.0
_PATIENCE_S = 90.0
# A scan of files that are known ends before
_SCAN_SHOWN_S = 5.0
_ENDING_S = 30.0
_TRIES_S = 0.1
_TAIL_LINES = 15
# A start that fails writes at least so much to its log
_ROOM_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class RuntimeRecord:
    """A runtime's process; `url` is empty until its REST API listens. `scanning`: it looks for Java
    plugins."""

    pid: int
    started: float
    url: str = ""
    scanning: bool = False


def find_runtime(project: Project) -> RuntimeRecord | None:
    """Finds the project's running runtime, or None. Asks only the operating system."""
    record = _read(project.data / _RECORD)
    return record if record and is_alive(record.pid, record.started) else None


@contextlib.contextmanager
def claimed(project: Project) -> Iterator[None]:
    """Makes this process the project's runtime for the context. Raises Failed if one is up."""
    make_data_folder(project)
    with (project.data / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _already_up(find_runtime(project)) from None
        announce(project, "")
        try:
            yield
        finally:
            (project.data / _RECORD).unlink(missing_ok=True)


@contextlib.contextmanager
def scanning(project: Project) -> Iterator[None]:
    """Records that this runtime looks for Java plugins, for the context."""
    announce(project, "", scanning=True)
    try:
        yield
    finally:
        announce(project, "")


def announce(project: Project, url: str, *, scanning: bool = False) -> None:
    """Records this process as the project's runtime, reached at `url`."""
    started = start_time(os.getpid())
    assert started is not None, "this process runs"
    record = RuntimeRecord(os.getpid(), started, url, scanning)
    replace_file(project.data / _RECORD, json.dumps(asdict(record)) + "\n")


def _read(file: Path) -> RuntimeRecord | None:
    try:
        return RuntimeRecord(**json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # Only the lock decides; a record that a full disk truncated loses the pid.
        return None


def _already_up(running: RuntimeRecord | None) -> Failed:
    holder = f"pid {running.pid}" if running else "another process"
    at = f", {running.url}" if running and running.url else ""
    problem = f"this project's runtime is already up ({holder}{at})"
    return Failed(Diagnostic("up.already", problem, hint="`connect down` stops it"))


def probe(project: Project, url: str, login: str | None = None) -> Mapping[str, Any] | None:
    """Returns the JSON object that the project's runtime answers to a GET; None for any other
    response, and without one.

    `login` is `user:password`. Does without an HTTP library, which would take long to import.
    """
    import urllib.request

    request = urllib.request.Request(url)
    # The environment's proxy must not come between the processes of one cluster
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https://"):
        from connect_reconciler.backend.rest.connection import runtime_tls
        from connect_runtime.settings.worker_config import project_tls

        handlers.append(urllib.request.HTTPSHandler(context=runtime_tls(project_tls(project))))
    opener = urllib.request.build_opener(*handlers)
    if login is not None:
        encoded = base64.b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        with opener.open(request, timeout=_PROBE_S) as answer:
            document = json.load(answer)
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def ensure_runtime_installed() -> None:
    """Raises Invalid where the packages of the extra `runtime` are missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        problem = f"connectors cannot be run here: {' and '.join(missing)} not installed"
        reason = "planning and applying do not need them, so they are an extra of this package"
        hint = "pip install '.[runtime]' in the folder of connect's sources"
        raise Invalid(Diagnostic("runtime.not-installed", problem, why=reason, hint=hint))


def start_detached(project: Project, words: Sequence[str]) -> RuntimeRecord:
    """Starts `up` with `words` and returns when GET /health is 200.

    Raises Failed if the runtime is already up, and the process's own error if it exits early. After
    90 s it is stopped; the time in which it looks for Java plugins, which ends by itself, does not
    count.
    """
    running = find_runtime(project)
    if running is not None:
        raise _already_up(running)
    make_data_folder(project)
    log = project.data / LOG
    begin = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-P", "-m", "connect_reconciler.cli"]
    env = [] if project.env is None else ["--env", project.env]
    may_change()
    pid = spawn([*command, "-C", str(project.folder), *env, "up", *words], log=log)
    started = start_time(pid)
    progress(f"starting the runtime (pid {pid}), logging to {log}")
    start_s = time.monotonic()
    deadline, say_at = start_s + _PATIENCE_S, start_s + _SCAN_SHOWN_S
    while started is not None and is_alive(pid, started):
        running = find_runtime(project)
        if running and running.scanning:
            now = time.monotonic()
            deadline = now + _PATIENCE_S
            if now > say_at:
                progress("looking for Java plugins: their files are new, or have changed")
                say_at = math.inf
        if (
            running
            and running.pid == pid
            and running.url
            and probe(project, f"{running.url}/health")
        ):
            return running
        if time.monotonic() > deadline:
            end_process(pid, started, patience_s=_ENDING_S)
            problem = f"the runtime was not healthy within {_PATIENCE_S:.0f} s, and was stopped"
            raise Failed(Diagnostic("up.timeout", problem, str(log), why=_tail(log, begin)))
        time.sleep(_TRIES_S)
    raise _ended(pid, log, begin)


def kafka_address(project: Project) -> str:
    from connect_runtime.kafka.embedded import find_broker
    from connect_runtime.kafka.local_processes import LOOPBACK

    if project.kafka is not None:
        return project.kafka["bootstrap.servers"]
    broker = find_broker(broker_folder(project))
    return "" if broker is None else f"{LOOPBACK}:{broker.port}"


def _ended(pid: int, log: Path, begin: int) -> ConnectError:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    kinds: dict[int, type[ConnectError]] = {
        ExitCode.INVALID: Invalid,
        ExitCode.UNREACHABLE: Unreachable,
    }
    problem = f"the runtime exited during startup with code {code}"
    reason, hint = _tail(log, begin), ""
    no_room = _no_room(log.parent)
    if no_room:
        # Its last words are not in its log
        reason = "\n".join(
            filter(None, (reason, f"nothing more can be written beside the log: {no_room}"))
        )
        hint = "free some space, and run this again"
    return kinds.get(code, Failed)(Diagnostic("up.ended", problem, str(log), why=reason, hint=hint))


def _no_room(folder: Path) -> str:
    """Returns the system's reason why this folder takes no file; empty if it takes one."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * _ROOM_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _tail(log: Path, begin: int) -> str:
    """Returns the last lines that this start logged, not an earlier one."""
    with log.open("rb") as lines:
        # a log that was rotated since has only this start
        lines.seek(begin if begin <= log.stat().st_size else 0)
        text = lines.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
