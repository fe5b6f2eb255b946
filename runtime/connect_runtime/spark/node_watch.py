"""Watches over the Python processes of a node: Spark's daemon, tasks, and the one that serves them.

Spark notices a process that ends, and an executor that sends no heartbeats, but not a process of a
task that is stopped by a signal: it would keep its slot, and do nothing, for ever. So one process
of the node asks the kernel every few seconds who is stopped, and kills who stays so. The attempt is
LOST and runs again, and cannot wake up beside the new one. A heartbeat of each task would cost a
thousand idle ones their sleep, and is missing, too, while a plugin runs C code. The same process
starts the one that serves tasks (`node/server`), and starts it again.

When the daemon has ended, its tasks drain and end as well. A task that is frozen, or in C code that
never returns, cannot, and is killed then.

`start` must be called before any thread starts. Only Linux tells the state of processes in this
way; elsewhere nobody is taken for frozen.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

from connect_runtime.node import door as node_door
from connect_runtime.node import server
from connect_runtime.spark.worker import DRAIN_S

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 4.0
# A process that is stopped for a moment only goes on. All together are noticed after 8 to 12 s.
LOOKS: Final = 3
_STOPPED: Final = b"T"
_ENDED: Final = b"Z"
_ORPHANS_EVERY_S: Final = 0.25
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A process that is stopped, with its start and the CPU time that it has had, in ticks of the
    kernel: one that ran in between is another one."""

    pid: int
    started: bytes
    ran: tuple[bytes, ...]


def start() -> None:
    """Forks the process that watches over this one, the daemon, and over what it forks. It ends
    soon after this one."""
    door = node_door.open_door()
    if _forked(lambda daemon: _watch(daemon, door)) is None:
        node_door.close_door()
    door.close()


def _watch(daemon: int, door: socket.socket) -> None:
    serving: int | None = None
    looks: Mapping[Seen, int] = {}
    tasks: Mapping[int, bytes] = {}
    ends = _end_of(daemon)
    while True:
        if serving is None or _has_ended(serving):
            serving = _forked(partial(_serve, door))
        ends.poll(_LOOK_EVERY_S * 1000)
        children = _children(daemon)
        if os.getppid() != daemon:
            break
        tasks = {pid: tasks.get(pid) or _start_of(pid) for pid in children}
        servers = () if serving is None else (serving,)
        looks = look((daemon, *tasks, *servers), looks)
    _end_orphans(tasks)


def _end_of(pid: int) -> select.poll:
    """Returns what waits for the end of a process, or only for a time where the system cannot."""
    waiting = select.poll()
    with contextlib.suppress(AttributeError, OSError):
        waiting.register(os.pidfd_open(pid), select.POLLIN)
    return waiting


def _end_orphans(tasks: Mapping[int, bytes]) -> None:
    """Gives them time to drain, and kills those that are still there."""
    until = time.monotonic() + DRAIN_S + 1
    while left := [pid for pid, started in tasks.items() if _start_of(pid) == started != b""]:
        if time.monotonic() > until:
            for pid in left:
                _log.warning("Process %d of this node outlived its daemon: it is killed", pid)
                _kill(pid)
            return
        time.sleep(_ORPHANS_EVERY_S)


def _serve(door: socket.socket, watching: int) -> None:
    """Ends with the one that watches."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    server.serve(door, watching)


def _forked(run: Callable[[int], None]) -> int | None:
    """Returns the pid of a new process that runs this with its parent's pid; None if the system
    refuses one."""
    parent = os.getpid()
    try:
        forked = os.fork()
    except OSError as error:
        _log.warning("Each task of this node asks Kafka by itself: %s", error)
        return None
    if forked == 0:
        _run_and_exit(run, parent)
    return forked


def _run_and_exit(run: Callable[[int], None], parent: int) -> NoReturn:
    """The caller's code must not run in two processes."""
    try:
        gc.enable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):  # Spark speaks to its daemon over these
            os.dup2(nowhere, standard)
        run(parent)
    except BaseException:
        _log.exception("A process that serves this node has failed")
    finally:
        os._exit(0)


def _has_ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG) != (0, 0)


def look(pids: Iterable[int], before: Mapping[Seen, int]) -> Mapping[Seen, int]:
    """Looks once, and kills what is stopped for the `LOOKS`th time. Returns how often in a row each
    was seen; `before` is that of the last look. Only looks count, not time: if the whole node stood
    still, nobody is frozen."""
    found: dict[Seen, int] = {}
    for each in _stopped(pids):
        found[each] = before.get(each, 0) + 1
        if found[each] >= LOOKS:
            _log.warning("Process %d of this node was frozen: it is killed", each.pid)
            _kill(each.pid)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _stopped(pids: Iterable[int]) -> Iterator[Seen]:
    for pid in pids:
        fields = _fields(pid)
        if fields[:1] == [_STOPPED]:
            yield Seen(pid, fields[19], tuple(fields[11:13]))


def _fields(pid: int) -> list[bytes]:
    """Returns those of proc_pid_stat(5) that follow the command's name, which may hold spaces."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _start_of(pid: int) -> bytes:
    """Returns nothing for a process that has ended, and that nobody has waited for."""
    fields = _fields(pid)
    return fields[19] if fields[:1] not in ([], [_ENDED]) else b""


def _children(pid: int) -> list[int]:
    found = map(int, _read(f"/proc/{pid}/task/{pid}/children").split())
    return [each for each in found if each != os.getpid()]


def _read(path: str) -> bytes:
    """Returns nothing for a process that has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 a Path costs twice that
            return file.read()
    except OSError:
        return b""
