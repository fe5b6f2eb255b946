"""Starts, identifies and ends processes by pid and start time.

A pid alone does not identify a process, because pids are reused. Works on processes that are not
children of this one.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_POLL_S = 0.02


# Sets the umask of a process that then becomes another command.
_PRIVATELY = ("/bin/sh", "-c", 'umask 077 && exec "$@"', "sh")


def spawn(command: Sequence[str], *, log: Path, private: bool = False) -> int:
    """Starts a process in its own session, so that no terminal's Ctrl-C reaches it.

    `command` begins with a path. Both outputs are appended to `log`. Only this user can read files
    of a `private` process. Returns the pid.
    """
    if private:
        command = [*_PRIVATELY, *command]
    to_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # Not Popen, which warns when it is collected while its process still runs, as this one may.
    return os.posix_spawn(
        command[0],
        list(command),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), to_log, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGINT],
    )


def start_time(pid: int) -> float | None:
    """Returns when the process started, in seconds of a clock that only compares with itself.

    None if the process does not exist, or only its exit status is left.
    """
    if sys.platform == "linux":
        return _start_time_from_proc(pid)
    else:
        return _start_time_from_ps(pid)


def _start_time_from_proc(pid: int) -> float | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name may hold spaces and parentheses; the fields after it are plain.
    fields = stat.rpartition(")")[2].split()
    # A killed process's first thread is gone while others still hold its ports and locks.
    if fields[0] in "ZX" and int(fields[17]) <= 1:
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _start_time_from_ps(pid: int) -> float | None:
    done = subprocess.run(
        ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, started = done.stdout.strip().partition(" ")
    if not started or state.startswith("Z"):
        return None
    return time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y"))


def is_alive(pid: int, started: float) -> bool:
    """Whether the process that started at `started` runs."""
    return start_time(pid) == started


def end_process(pid: int, started: float, *, patience_s: float) -> bool:
    """Ends that process: SIGTERM, and SIGKILL if it still runs after `patience_s` seconds.

    A different process with the same pid is left unchanged. Returns False if SIGKILL was needed.
    """
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        if not is_alive(pid, started):
            return number is signal.SIGTERM
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return number is signal.SIGTERM
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            _reap(pid)
            if not is_alive(pid, started):
                return number is signal.SIGTERM
            time.sleep(_POLL_S)
    return False


def _reap(pid: int) -> None:
    # It may be another process's child, or reaped already.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
