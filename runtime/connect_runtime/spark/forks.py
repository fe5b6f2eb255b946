"""Takes from the processes that a plugin forks what proves that its task runs.

Spark sees the end of a task's process by the end of its connection, and the driver by a lock
(`lease.py`). A forked process would hold both, and may outlive the task's by days: its task would
count as running, and do nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_kept: list[int] = []


def keep_from_forks(descriptors: Iterable[int]) -> None:
    """Processes that this one forks from now on lose these descriptors."""
    _kept[:] = descriptors


def sockets() -> list[int]:
    """Returns the descriptors of this process's sockets; none where the system does not list
    them."""
    with contextlib.suppress(OSError):
        numbers = [int(each.name) for each in Path("/dev/fd").iterdir()]
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
    for each in _kept:
        with contextlib.suppress(OSError):
            # not closed: an object that has the number would close what gets it next
            os.dup2(nowhere, each, inheritable=False)
    os.close(nowhere)
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)
