"""Processes of this machine, by pid and start time; free ports for them, and Java.

A pid alone does not identify a process, because pids are reused. Works on processes that are not
children of this one.

A port is picked from below the range that Linux and macOS use for outgoing connections: nothing
picks from there automatically. A port that was picked here within the last minute, in any process,
and is not listened on yet is not picked.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from connect_runtime.waiting import wait_until

_POLL_S = 0.02


# Sets the umask of a process that then becomes another command.
_PRIVATELY = ("/bin/sh", "-c", 'umask 077 && exec "$@"', "sh")
LOOPBACK = "127.0.0.1"

_CANDIDATES = range(20000, 32768)
NO_JAVA_HINT = "Install Java, or correct JAVA_HOME; without it, java is looked for on PATH."


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
    """Returns whether the process that started at `started` runs."""
    return start_time(pid) == started


def note_process(descriptor: int, pid: int) -> None:
    """Appends the process to an open file, for `noted_processes`. Raises OSError."""
    line = f"{pid} {start_time(pid)}\n".encode()
    os.pwrite(descriptor, line, os.fstat(descriptor).st_size)


def noted_processes(descriptor: int) -> list[tuple[int, float]]:
    """Returns pids and start times, without a line that was not written whole, such as on a full
    disk. Raises OSError."""
    lines = os.pread(descriptor, os.fstat(descriptor).st_size, 0).split(b"\n")[:-1]
    words = [line.split() for line in lines]
    return [(int(pid), float(started)) for pid, started in words if started != b"None"]


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
        if wait_until(lambda: _has_ended(pid, started), wait_s, every_s=_POLL_S):
            return number is signal.SIGTERM
    return False


def _has_ended(pid: int, started: float) -> bool:
    # It may be another process's child, or reaped already.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not is_alive(pid, started)


def is_free(port: int) -> bool:
    """Returns whether a server could listen on that loopback port now."""
    with socket.socket() as probe:
        # as servers bind: a port with only closed connections is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port(*, other_than: Collection[int] = ()) -> int:
    """Returns a free port, picked at random, and reserves it for servers that are started now.
    Raises OSError if none is found."""
    for port in random.sample(_CANDIDATES, 500):
        if port not in other_than and _reserve(port):
            return port
    raise OSError(f"no free port found from {_CANDIDATES.start} to {_CANDIDATES.stop - 1}")


def _reserve(port: int) -> bool:
    """Returns whether the port was free. It then has a closed connection for a minute (TIME_WAIT,
    RFC 9293): servers bind to it, as they set SO_REUSEADDR, and a socket as the one here cannot."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
            # after this socket's own bind, and for that of the server
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.listen()
            with socket.create_connection((LOOPBACK, port)) as client:
                # this side closes first, so the wait is on the port
                probe.accept()[0].close()
                client.recv(1)
        except OSError:
            return False
        return True


def find_java() -> Path | None:
    """Returns the `java` command of JAVA_HOME or PATH, or None.

    Does not check its version: a process that cannot run on it writes that to its log, which the
    error shows. The Makefile checks the version before.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return Path(java) if java else None
