"""Decides how many tasks can run at once on this machine, where nobody says: as its memory allows.

Measured with Python 3.11, PySpark 4.3 and Kafka 4.1, as PSS of smaps_rollup. Pure.
"""

from __future__ import annotations

from typing import Final

_MIB: Final = 1 << 20

# A source or a sink with JSON and three transformations at 1,000 lines of 100 bytes a second takes
# 16 MiB, and its share of Spark's JVM is up to 2 MiB; idle tasks take less.
LOADED_TASK_BYTES: Final = 18 * _MIB
# The leader's Python takes 70 MiB, and Spark's JVM 350 MiB; its heap may grow to 1 GiB.
DRIVER_BYTES: Final = 1280 * _MIB
# A broker of ours takes 350 MiB; its heap may grow to 512 MiB.
BROKER_BYTES: Final = 768 * _MIB

FEWEST: Final = 64
MOST: Final = 1000


def default_slots(memory_bytes: int) -> int:
    """Returns the slots of a machine or container with so much memory: 64 to 1,000."""
    for_tasks = memory_bytes - DRIVER_BYTES - BROKER_BYTES
    return max(FEWEST, min(for_tasks // LOADED_TASK_BYTES, MOST))
