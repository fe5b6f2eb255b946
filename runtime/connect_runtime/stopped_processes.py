"""Processes that a signal has stopped, and that do not go on: nothing else notices them.

Only Linux shows the state of processes in this way; elsewhere none is taken for frozen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 3.0
# A process that is stopped for a moment only goes on. All together are noticed after 6 to 9 s.
LOOKS: Final = 3
_STOPPED: Final = b"T"


@dataclass(frozen=True, slots=True)
class StoppedProcess:
    """A process that is stopped, with its start and the CPU time that it has had, in ticks of the
    kernel: one that ran in between is another one."""

    pid: int
    started: bytes
    ran: tuple[bytes, ...]


def look(
    pids: Iterable[int], earlier: Mapping[StoppedProcess, int]
) -> Mapping[StoppedProcess, int]:
    """Looks once, and kills what is stopped for the `LOOKS`th time. Returns how often in a row each
    was stopped; `earlier` is that of the last look. Only looks count, not time: if the whole node
    stood still, none is frozen."""
    looks: dict[StoppedProcess, int] = {}
    for process in _stopped(pids):
        looks[process] = earlier.get(process, 0) + 1
        if looks[process] >= LOOKS:
            _log.warning("Process %d of this node was frozen: it is killed", process.pid)
            kill(process.pid)
    return looks


def kill(pid: int) -> None:
    """Sends SIGKILL to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def stat_fields(pid: int) -> list[bytes]:
    """Returns those of proc_pid_stat(5) that follow the command's name, which may hold spaces."""
    return proc_file(pid, "stat").rpartition(b")")[2].split()


def threads_of(pid: int) -> list[int]:
    """Returns the threads of a process; none if it has ended."""
    try:
        return [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 as below
    except OSError:
        return []


def proc_file(pid: int, name: str) -> bytes:
    """Returns what the kernel says of a process; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 a Path costs twice that
            return file.read()
    except OSError:
        return b""


def _stopped(pids: Iterable[int]) -> Iterator[StoppedProcess]:
    for pid in pids:
        fields = stat_fields(pid)
        if fields[:1] == [_STOPPED]:
            yield StoppedProcess(pid, fields[19], tuple(fields[11:13]))
