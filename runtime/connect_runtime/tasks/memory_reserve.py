"""Keeps some address space for the end of a task that has run out of memory.

Where memory is limited (`spark.executor.pyspark.memory`), a plugin that takes all of it fails with
MemoryError. To close its clients and to say that it has failed, the task starts threads, and
Python waits for ever for a thread whose start finds no memory. What is reserved cannot be used, so
it costs no memory, also where the system lends no more than it has.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

# Some threads and their stacks
_BYTES: Final = 64 << 20


@contextmanager
def memory_reserve() -> Iterator[None]:
    """Keeps the reserve while the context lasts. What follows it may use it."""
    reserved: mmap.mmap | None = None
    with suppress(OSError):  # there is less than that: the task may do without
        reserved = mmap.mmap(-1, _BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
    try:
        yield
    finally:
        if reserved is not None:
            reserved.close()
