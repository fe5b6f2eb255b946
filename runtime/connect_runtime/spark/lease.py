"""Proves that an attempt's process is dead or never started, if driver and worker share a disk.

The driver creates one file for each attempt. The worker locks it for as long as its process lives;
the kernel releases the lock, however the process ends. Once the driver holds the lock it removes
the file, and a worker that comes later does not run.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import tempfile
import time
from pathlib import Path

from connect_runtime.kafka.process import end_process, start_time

_log = logging.getLogger(__name__)

_POLL_S = 0.05


class Lease:
    """The driver's side of one attempt's file. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self._over = False

    def over(self) -> bool:
        """Whether the process is dead or never started; if so, none will start."""
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


def confirm_death(lease: Lease, grace_s: float, most_s: float) -> bool:
    """Waits until the process is dead, and kills it after `grace_s`. False if it may live after
    `most_s`."""
    began = time.monotonic()
    try:
        while not lease.over():
            waited = time.monotonic() - began
            if waited > most_s:
                return False
            if waited > grace_s:
                lease.kill()
            time.sleep(_POLL_S)
    except OSError as error:
        _log.warning("It is not known whether a process is dead: %s", error)
        return False
    return True


def hold(path: str) -> int | None:
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
