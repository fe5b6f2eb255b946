"""A task that has run out of memory can still start what it needs to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from connect_runtime.tasks.control.statuses import memory_reserve

# A process of its own: the limit is for all of it
_TAKES_ALL = """
import resource, threading
from connect_runtime.tasks.control.statuses import memory_reserve

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
taken, size = [], 64 << 20
try:
    with memory_reserve():
        while size > 1024:
            try:
                taken.append(bytearray(size))
            except MemoryError:
                size //= 2
        raise MemoryError
except MemoryError:
    thread = threading.Thread(target=print, args=("started",))
    thread.start()
    thread.join()
"""


def test_a_thread_starts_after_all_memory_was_taken() -> None:
    """The trap: `Thread.start` waits for ever for a thread that could not be started."""
    run = subprocess.run(
        [sys.executable, "-c", _TAKES_ALL],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.stdout == "started\n", run.stderr


def test_the_reserve_is_address_space_only() -> None:
    """The trap: where the system lends no more memory than it has, each task takes some."""
    size, data = _kilobytes("VmSize"), _kilobytes("VmData")
    with memory_reserve():
        assert _kilobytes("VmSize") - size >= 30_000
        assert _kilobytes("VmData") - data < 10_000


def _kilobytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))
