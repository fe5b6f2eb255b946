"""Watches over the Python processes of a node: Spark's daemon, tasks, and their agent.

Spark notices a process that ends, and an executor that sends no heartbeats, but not a process of a
task that is stopped by a signal: it would keep its slot, and do nothing, for ever. So one process
of the node asks the kernel every few seconds for those that are stopped, and kills the ones that
stay so. The attempt is LOST and runs again, and cannot wake up beside the next one. A heartbeat of
each task would cost a thousand idle ones their sleep, and is missing, too, while a plugin runs C
code. A JVM that a task or the agent has started is watched like it, also after that has ended.

The same process starts the agent (`agent/node`), and starts it again as soon as it ends. If it
cannot for a minute, it ends the daemon; the daemon ends, too, if this process is killed. Its tasks
are LOST then, and Spark starts another daemon.

When the daemon has ended, its tasks drain and end as well. A task that is frozen, or in C code that
never returns, cannot, and is killed then.

`start` must be called before any thread starts. Only Linux shows the state of processes in this
way, and ends the daemon with this process; elsewhere none is taken for frozen.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import logging
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NoReturn

from connect_runtime.agent import client
from connect_runtime.agent.node import serve_node
from connect_runtime.engine.engine_jar import MAIN_CLASS
from connect_runtime.spark.worker import DRAIN_S
from connect_runtime.stopped_processes import (
    LOOK_EVERY_S,
    StoppedProcess,
    kill,
    look,
    proc_file,
    stat_fields,
    threads_of,
)

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = LOOK_EVERY_S
# No JVM runs a task sooner; once its agent has ended, nothing says whose it was
_AGENTS_JVMS_EVERY_S: Final = 1.0
# An agent that ends sooner than that is started again only then
_AGENT_LIVES_S: Final = 1.0
_WITHOUT_AGENT_S: Final = 60.0
_ENDED: Final = b"Z"
_ORPHANS_EVERY_S: Final = 0.25
# A JVM ends by itself when its agent is gone
_WITH_AGENT_S: Final = 2.0
_PR_SET_PDEATHSIG: Final = 1


def start() -> None:
    """Forks the process that watches over this one, the daemon, and over what it forks. Each of
    both ends soon after the other one. Raises OSError if the system refuses a process."""
    door = client.open_door()
    ours, of_watch = os.pipe()
    _forked(lambda daemon: _watch(daemon, door))
    os.close(of_watch)
    door.close()
    _end_with(ours)


def _end_with(pipe: int) -> None:
    """Has this process terminated once all others have closed the pipe."""
    if sys.platform == "linux":
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def _watch(daemon: int, door: socket.socket) -> None:
    agent = _Agent(door)
    looks: Mapping[StoppedProcess, int] = {}
    tasks: Mapping[int, bytes] = {}
    jvms: Mapping[int, bytes] = {}
    ends = select.poll()
    _wait_for(daemon, ends)
    look_at = time.monotonic() + _LOOK_EVERY_S
    while True:
        agent.start_if_ended(ends)
        wait_s = min(look_at - time.monotonic(), agent.wait_s(), _AGENTS_JVMS_EVERY_S)
        ends.poll(max(wait_s, 0.0) * 1000)
        children = _children(daemon)
        if os.getppid() != daemon:
            break
        tasks = {pid: tasks.get(pid) or _start_of(pid) for pid in children}
        jvms = _jvms(agent.children(), jvms)
        if time.monotonic() >= look_at:
            if agent.is_missed():
                _log.error("No agent could be started on this node: its tasks end")
                os.kill(daemon, signal.SIGTERM)
            jvms = _jvms(chain.from_iterable(map(_children, tasks)), jvms)
            looks = look((daemon, *tasks, *agent.pids, *jvms), looks)
            look_at = time.monotonic() + _LOOK_EVERY_S
    of_agent = _jvms(agent.children(), {})
    _end_orphans({**tasks, **{pid: at for pid, at in jvms.items() if pid not in of_agent}})
    agent.kill()
    _end_orphans(of_agent, patience_s=_WITH_AGENT_S)


class _Agent:
    """The process of the node's agent, which is forked again when it has ended: at once, unless it
    ended soon."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._pid: int | None = None
        self._descriptor: int | None = None
        self._start_at = 0.0
        self._missed_since = time.monotonic()

    @property
    def pids(self) -> Sequence[int]:
        return () if self._pid is None else (self._pid,)

    def start_if_ended(self, ends: select.poll) -> None:
        """Has `ends` wait for the end of the process that it starts."""
        time_s = time.monotonic()
        if self._pid is not None and os.waitpid(self._pid, os.WNOHANG) != (0, 0):
            self._pid = None
            if self._descriptor is not None:
                ends.unregister(self._descriptor)
                os.close(self._descriptor)
            if time_s > self._start_at:  # it has lived
                self._missed_since = time_s
        if self._pid is None and time_s >= self._start_at:
            self._start_at = time_s + _AGENT_LIVES_S
            try:
                self._pid = _forked(partial(_serve, self._door))
            except OSError as error:
                _log.warning("The agent of this node cannot be started: %s", error)
            else:
                self._descriptor = _wait_for(self._pid, ends)

    def children(self) -> Iterator[int]:
        """Yields the processes that it has started, also on threads that still run."""
        for pid in self.pids:
            for thread in threads_of(pid):
                yield from _children(pid, thread)

    def kill(self) -> None:
        """Ends its JVM, too."""
        for pid in self.pids:
            kill(pid)

    def wait_s(self) -> float:
        """Returns how long until it may be started again."""
        return math.inf if self._pid is not None else self._start_at - time.monotonic()

    def is_missed(self) -> bool:
        """Returns whether none has lived for long."""
        lives = self._pid is not None and time.monotonic() > self._start_at
        return not lives and time.monotonic() - self._missed_since > _WITHOUT_AGENT_S


def _wait_for(pid: int, ends: select.poll) -> int | None:
    """Has `ends` wait for the end of a process, where the system can. Returns the descriptor."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
    ends.register(descriptor, select.POLLIN)
    return descriptor


def _end_orphans(tasks: Mapping[int, bytes], patience_s: float = DRAIN_S + 1) -> None:
    """Gives them time to drain, and kills those that are still there."""
    until = time.monotonic() + patience_s
    while alive := [pid for pid, started in tasks.items() if _start_of(pid) == started != b""]:
        if time.monotonic() > until:
            for pid in alive:
                _log.warning("Process %d of this node outlived its daemon: it is killed", pid)
                kill(pid)
            return
        time.sleep(_ORPHANS_EVERY_S)


def _serve(door: socket.socket, watching: int) -> None:
    """Ends with the one that watches."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    serve_node(door, watching)


def _forked(run: Callable[[int], None]) -> int:
    """Returns the pid of a new process that runs this with its parent's pid. Raises OSError."""
    parent = os.getpid()
    forked = os.fork()
    if forked == 0:
        _run_and_exit(run, parent)
    return forked


def _run_and_exit(run: Callable[[int], None], parent: int) -> NoReturn:
    """Ends the process after `run`: the caller's code must not run in two processes."""
    try:
        gc.enable()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):  # Spark speaks to its daemon over these
            os.dup2(null, standard)
        run(parent)
    except BaseException:
        _log.exception("A process that serves this node has failed")
    finally:
        os._exit(0)


def _start_of(pid: int) -> bytes:
    """Returns nothing for a process that has ended, and whose parent has not waited for it."""
    fields = stat_fields(pid)
    return fields[19] if fields[:1] not in ([], [_ENDED]) else b""


def _children(pid: int, thread: int | None = None) -> list[int]:
    """Returns the processes that a thread has started, the main one by default, which gets those of
    threads that have ended."""
    children = map(int, proc_file(pid, f"task/{thread or pid}/children").split())
    return [child for child in children if child != os.getpid()]


def _jvms(children: Iterable[int], earlier: Mapping[int, bytes]) -> Mapping[int, bytes]:
    """Returns the starts of the JVMs among processes, and of `earlier` ones, by pid."""
    engine = MAIN_CLASS.encode()
    jvms = {pid: _start_of(pid) for pid in children if engine in proc_file(pid, "cmdline")}
    return {**{pid: at for pid, at in earlier.items() if _start_of(pid) == at}, **jvms}
