"""Ends Python processes of a node that are frozen: stopped by a signal, and nobody lets them go on.

Spark notices a process that ends, and an executor that sends no heartbeats, but not a process of a
task that is stopped: it would keep its slot, and do nothing, for ever. The process that follows the
node's assignments therefore asks the kernel every few seconds. Once a frozen process is killed, its
attempt is LOST and runs again; it cannot wake up beside the new one. A heartbeat of each task would
cost a thousand idle ones their sleep, and is missing, too, while a plugin runs C code.

Only Linux tells the state of processes in this way; elsewhere nothing is looked at.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 4.0
# A process that is stopped for a moment only goes on. All together are noticed after 8 to 12 s.
LOOKS: Final = 3
_STOPPED: Final = b"T"


@dataclass(frozen=True, slots=True)
class Seen:
    """A process that is stopped. `started`, in ticks of the kernel, tells two of one pid apart."""

    pid: int
    started: bytes


def end_frozen(daemon: int) -> None:
    """Looks after Spark's Python daemon and the processes that it forked. Never returns."""
    looks: Mapping[Seen, int] = {}
    while True:
        time.sleep(_LOOK_EVERY_S)
        looks = look(daemon, looks)


def look(daemon: int, before: Mapping[Seen, int]) -> Mapping[Seen, int]:
    """Looks once, and kills what is stopped for the `LOOKS`th time. Returns how often in a row each
    was seen; `before` is that of the last look, of this process's own clock: if the node stood
    still, the others stood still, too."""
    found: dict[Seen, int] = {}
    for each in _stopped(daemon):
        found[each] = before.get(each, 0) + 1
        if found[each] >= LOOKS:
            _log.warning(
                "Process %d, which ran a task or starts them, was frozen: it is killed", each.pid
            )
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
    return found


def _stopped(daemon: int) -> Iterator[Seen]:
    for pid in (daemon, *_children(daemon)):
        # see proc_pid_stat(5); the command's name may hold spaces and parentheses
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if fields[:1] == [_STOPPED]:
            yield Seen(pid, fields[19])


def _children(pid: int) -> list[int]:
    return [int(each) for each in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _read(path: str) -> bytes:
    """Returns nothing for a process that has ended."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
