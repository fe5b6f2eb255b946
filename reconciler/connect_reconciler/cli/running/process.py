"""Is this project's runtime up, and as which process?

`up` holds a lock for its life and leaves a record of its process. The lock says whether one runs,
whatever happened to the record; pid and start time together name the process, so that nothing else
is ever signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.data_folder import make_data_folder
from connect_runtime.kafka.process import is_alive, start_time
from connect_specs.diagnostics import Diagnostic, Failed

if TYPE_CHECKING:
    from connect_specs.desired import Project

_LOCK = "runtime.lock"
_RECORD = "runtime.json"
LOG = "runtime.log"


@dataclass(frozen=True, slots=True)
class RuntimeRecord:
    """A runtime's process; `url` is empty until its REST API listens."""

    pid: int
    started: float
    url: str = ""


def find_runtime(project: Project) -> RuntimeRecord | None:
    """The project's living runtime, or None. Asks the system only."""
    record = _read(project.data / _RECORD)
    return record if record and is_alive(record.pid, record.started) else None


def refuse_second(project: Project) -> None:
    """Raises Failed if the project's runtime is up."""
    running = find_runtime(project)
    if running is not None:
        raise _already_up(running)


@contextlib.contextmanager
def claimed(project: Project) -> Iterator[None]:
    """This process is the project's runtime while the context lasts. Raises Failed if one is."""
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


def announce(project: Project, url: str) -> None:
    """Records this process as the project's runtime, reached at `url`."""
    started = start_time(os.getpid())
    assert started is not None, "this process runs"
    record = RuntimeRecord(os.getpid(), started, url)
    unfinished = project.data / f"{_RECORD}.new"
    unfinished.write_text(json.dumps(asdict(record)) + "\n")
    unfinished.replace(project.data / _RECORD)


def _read(file: Path) -> RuntimeRecord | None:
    try:
        return RuntimeRecord(**json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # The lock alone decides; a record that a full disk cut short only loses the pid.
        return None


def _already_up(running: RuntimeRecord | None) -> Failed:
    who = f"pid {running.pid}" if running else "another process"
    at = f", {running.url}" if running and running.url else ""
    what = f"this project's runtime is up already ({who}{at})"
    return Failed(Diagnostic("up.already", what, hint="`connect down` stops it"))
