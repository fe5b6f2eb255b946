"""Files of an attempt that driver and worker share, if both are on one machine: a lease, and
metrics.

The driver creates the lease. The worker locks it for as long as its process lives; the kernel
releases the lock, however the process ends. Once the driver holds the lock it removes the file, and
a worker that comes later does not run. Spark sees the end of the process by the end of its
connection. A process that a plugin forks would hold both, and may outlive the task by days: it
loses them at once.

The worker overwrites the file of metrics every few seconds, and the driver reads it when metrics
are asked for: that costs one small write. A half written reading is recognised, and read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from connect_runtime.kafka.local_processes import end_process, start_time
from connect_runtime.metrics.task_metrics import values_of
from connect_runtime.waiting import wait_until

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_kept: list[int] = []
_HEAD: Final = struct.Struct("<II")  # length and CRC-32 of what follows
_TRIES: Final = 3


class ProcessLease:
    """The driver's side of one attempt's file. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self._over = False

    def over(self) -> bool:
        """Returns whether the process is dead or never started; if so, none will start."""
        if not self._over and _locked(self._descriptor):
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._over = True
        return self._over

    def drop(self) -> None:
        """Removes the file, which is no longer needed."""
        if not self._over:
            self._over = True
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)

    def kill(self) -> None:
        """Sends SIGKILL to the process that holds the lock, if any."""
        pid = os.pread(self._descriptor, 20, 0) if not self.over() else b""
        if not pid.isdigit():
            return
        started = start_time(int(pid))
        # the process that had the pid when its start was read still has the lock, so it is that
        # process
        if started is not None and not self.over():
            end_process(int(pid), started, patience_s=0)


def confirm_death(lease: ProcessLease, grace_s: float, most_s: float) -> bool:
    """Waits until the process is dead, and kills it after `grace_s`. False if it may live after
    `most_s`."""

    def killed() -> bool:
        lease.kill()
        return lease.over()

    try:
        return wait_until(lease.over, grace_s, every_s=_POLL_S) or wait_until(
            killed, most_s - grace_s, every_s=_POLL_S
        )
    except OSError as error:
        _log.warning("It is not known whether a process is dead: %s", error)
        return False


def lock_lease(path: str) -> int | None:
    """Locks the lease until this process, the worker, ends. Returns the descriptor that holds the
    lock; None if the lease is over."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    if not _locked(descriptor) or not os.path.exists(path):  # noqa: PTH110 - a plain string
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):  # such as a full disk: then it cannot be killed by its pid
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keep_from_forks(descriptors: Iterable[int]) -> None:
    """Processes that this one forks from now on lose these descriptors."""
    _kept[:] = descriptors


def sockets() -> list[int]:
    """Returns the descriptors of this process's sockets; none where the system does not list
    them."""
    with contextlib.suppress(OSError):
        numbers = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
        return [number for number in numbers if _is_socket(number)]
    return []


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # that of the list itself
        return False


def _let_go() -> None:
    if not _kept:
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in _kept:
        with contextlib.suppress(OSError):
            # not closed: an object that has the number would close what gets it next
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)


def metrics_file(lease: str | Path) -> Path:
    """Returns where the attempt with this lease writes its readings."""
    return Path(f"{lease}.metrics")


class MetricsFile:
    """The task's side. `publish` writes what `reading` returns, unless it is what it was before."""

    def __init__(self, path: Path, reading: Callable[[], bytes]) -> None:
        """Raises OSError."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._reading = reading
        self._last = b""

    def publish(self) -> bool:
        """Returns whether the reading is a new one. Never raises for a full disk: the values stay
        what they were."""
        reading = self._reading()
        if reading == self._last:
            return False
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _HEAD.pack(len(reading), zlib.crc32(reading)) + reading, 0)
            self._last = reading
        return True

    def close(self) -> None:
        """Writes the last reading."""
        self.publish()
        os.close(self._descriptor)


def read_metrics(path: Path) -> Mapping[str, Any] | None:
    """Returns the newest reading; None if there is none, or none can be read."""
    for _ in range(_TRIES):
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if len(content) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack_from(content)
        payload = content[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(payload) == checksum:
            return values_of(payload)
    return None
