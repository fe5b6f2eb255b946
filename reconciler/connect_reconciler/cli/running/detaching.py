"""`up --detach`: the same command as a process of its own, until its REST API is healthy.

It writes to .connect/runtime.log and outlives this terminal. What goes wrong before it is healthy
is told here, with the end of that log.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.asking import get
from connect_reconciler.cli.connecting import broker_folder
from connect_reconciler.cli.data_folder import make_data_folder
from connect_reconciler.cli.interruption import may_change
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.running.process import LOG, RuntimeRecord, find_runtime, refuse_second
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

    Raises Failed if the runtime is up already, and what the process ended with if it did not get
    there; after 90 s it is ended.
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
    progress(f"starting the runtime (pid {pid}), which writes to {log}")
    deadline = time.monotonic() + _PATIENCE_S
    while started is not None and is_alive(pid, started):
        running = find_runtime(project)
        if running and running.pid == pid and running.url and get(f"{running.url}/health"):
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
    what = f"the runtime ended while it started, with {code}"
    return kinds.get(code, Failed)(Diagnostic("up.ended", what, str(log), why=_tail(log, begin)))


def _tail(log: Path, begin: int) -> str:
    """The last lines of this start, not of one before it."""
    with log.open("rb") as lines:
        # a log that was cut meanwhile has this start alone
        lines.seek(begin if begin <= log.stat().st_size else 0)
        text = lines.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
