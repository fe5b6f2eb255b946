"""`up --detach`: starts `up` as a background process and waits until its REST API is healthy.

The process logs to .connect/runtime.log and outlives this terminal. If it fails before it is
healthy, the error has the end of that log.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.connecting import broker_folder
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.project_files import make_data_folder
from connect_reconciler.cli.running.process import (
    LOG,
    RuntimeRecord,
    find_runtime,
    probe,
    refuse_second,
)
from connect_reconciler.cli.signals import may_change
from connect_runtime.kafka.process import end_process, is_alive, spawn, start_time
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


_PATIENCE_S = 90.0
_ENDING_S = 30.0
_TRIES_S = 0.1
_TAIL_LINES = 15


def start_detached(project: Project, words: Sequence[str]) -> RuntimeRecord:
    """Starts `up` with `words` and returns when GET /health is 200.

    Raises Failed if the runtime is already up, and the process's own error if it exits early. After
    90 s it is stopped.
    """
    refuse_second(project)
    make_data_folder(project)
    log = project.data / LOG
    begin = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-P", "-m", "connect_reconciler.cli"]
    env = [] if project.env is None else ["--env", project.env]
    may_change()
    pid = spawn([*command, "-C", str(project.folder), *env, "up", *words], log=log)
    started = start_time(pid)
    progress(f"starting the runtime (pid {pid}), logging to {log}")
    deadline = time.monotonic() + _PATIENCE_S
    while started is not None and is_alive(pid, started):
        running = find_runtime(project)
        if running and running.pid == pid and running.url and probe(f"{running.url}/health"):
            return running
        if time.monotonic() > deadline:
            end_process(pid, started, patience_s=_ENDING_S)
            what = f"the runtime was not healthy within {_PATIENCE_S:.0f} s, and was stopped"
            raise Failed(Diagnostic("up.timeout", what, str(log), why=_tail(log, begin)))
        time.sleep(_TRIES_S)
    raise _ended(pid, log, begin)


def kafka_address(project: Project) -> str:
    """The bootstrap servers of the project's Kafka."""
    from connect_runtime.kafka.embedded import find_broker
    from connect_runtime.kafka.ports import LOOPBACK

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
    what = f"the runtime exited during startup with code {code}"
    return kinds.get(code, Failed)(Diagnostic("up.ended", what, str(log), why=_tail(log, begin)))


def _tail(log: Path, begin: int) -> str:
    """The last lines that this start logged, not an earlier one."""
    with log.open("rb") as lines:
        # a log that was rotated meanwhile has only this start
        lines.seek(begin if begin <= log.stat().st_size else 0)
        text = lines.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
