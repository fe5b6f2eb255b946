"""The processes that a test is answerable for: found, frozen, killed, and none left behind.

A session is what one `connect` process and all that it started have in common, also after their
parent died. A mark in the environment finds everything that a test ever started. Linux only.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from connect_runtime.kafka.local_processes import is_alive, start_time
from support.wait import wait_until

_DAEMON = "-m connect_runtime.spark.daemon"


@dataclass(frozen=True, slots=True)
class Process:
    """A pid with its start time, which together name one process, and its command line."""

    pid: int
    started: float
    command: str

    @property
    def alive(self) -> bool:
        """Whether this very process runs."""
        return is_alive(self.pid, self.started)


def process(pid: int) -> Process | None:
    """The living process of that pid."""
    started = start_time(pid)
    if started is None:
        return None
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(pid, started, b" ".join(words).decode(errors="replace"))


def of_session(leader: int) -> list[Process]:
    """All living processes of the session that `leader` began, itself first if it lives."""
    return sorted(
        (found for pid in _pids() if _session(pid) == leader and (found := process(pid))),
        key=lambda found: (found.pid != leader, found.pid),
    )


def children(parent: int) -> list[Process]:
    """All living processes that this one has started."""
    return [found for pid in _pids() if _parent(pid) == parent and (found := process(pid))]


def marked(mark: str) -> list[Process]:
    """All living processes with `mark` in the environment that they were started with."""
    wanted = mark.encode()
    return [found for pid in _pids() if wanted in _environment(pid) and (found := process(pid))]


def task_processes(among: Sequence[Process]) -> list[Process]:
    """Those that run one task each: forked by Spark's Python daemons, and in their groups until
    they lead groups of their own."""
    daemons = {each.pid for each in daemon_processes(among)}
    return [
        each
        for each in _python(among)
        if _parent(each.pid) in daemons and _group(each.pid) in (each.pid, _parent(each.pid))
    ]


def daemon_processes(among: Sequence[Process]) -> list[Process]:
    """Those from which Spark forks Python: each leads a group, and none of them forked it."""
    python = _python(among)
    forkers = {each.pid for each in python} | {1}  # 1 adopts tasks whose daemon is gone
    return [
        each for each in python if _group(each.pid) == each.pid and _parent(each.pid) not in forkers
    ]


def node_servers(among: Sequence[Process]) -> list[Process]:
    """Those that serve all tasks of a daemon: forked by who watches over them, its only fork that
    keeps the group in which the daemon was started."""
    daemons, tasks = daemon_processes(among), task_processes(among)
    forkers = {each.pid for each in daemons}
    watching = {
        each.pid for each in _python(among) if _parent(each.pid) in forkers and each not in tasks
    }
    return [each for each in _python(among) if _parent(each.pid) in watching]


def _python(among: Sequence[Process]) -> list[Process]:
    return [each for each in among if _DAEMON in each.command]


def pss_mb(of: Process) -> float:
    """Its share of memory in MB; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{of.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def kill(*processes: Process) -> None:
    """SIGKILL to each, and returns when all are gone."""
    for each in processes:
        _send(each, signal.SIGKILL)
    for each in processes:
        wait_until(partial(_is_gone, each), what=f"pid {each.pid} to be gone")


@contextmanager
def frozen(processes: Sequence[Process]) -> Iterator[None]:
    """All of them stopped (SIGSTOP) while the context lasts; whoever lives then goes on."""
    try:
        for each in processes:
            _send(each, signal.SIGSTOP)
        for each in processes:
            wait_until(partial(_is_frozen, each), what=f"pid {each.pid} to be frozen")
        yield
    finally:
        for each in processes:
            _send(each, signal.SIGCONT)


def _send(to: Process, number: int) -> None:
    if to.alive:
        os.kill(to.pid, number)


def _is_gone(found: Process) -> bool:
    # it may be a child of this process
    with suppress(ChildProcessError):
        os.waitpid(found.pid, os.WNOHANG)
    return not found.alive


def _is_frozen(found: Process) -> bool:
    return not found.alive or _stat(found.pid)[:1] == ["T"]


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may hold spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _group(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[2]) if fields else None


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
