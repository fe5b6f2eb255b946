"""Decides how many tasks can run at once on this machine, by its memory, unless a setting does; and
names the setting for paused tasks.

Memory is the machine's, or what cgroups allow this process. A group's limit holds for all groups
below it, so the lowest on the way to the root counts. Inside of a container the path of
/proc/self/cgroup may be one of the host's; the container's own limit is then at the root of the
mount. See memory.max in the kernel's cgroup-v2.rst, and memory.limit_in_bytes in
cgroup-v1/memory.rst.

Sizes were measured with Python 3.11, PySpark 4.3 and Kafka 4.1, as PSS of smaps_rollup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

# Our own worker property: tasks of paused connectors end, and run again when resumed.
PAUSED_RELEASE: Final = "paused.tasks.release.slots"

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

_CGROUPS: Final = "sys/fs/cgroup"
_V1: Final = ("memory", "memory.limit_in_bytes")
_V2: Final = ("", "memory.max")


def default_slots(memory_bytes: int) -> int:
    """Returns the slots of a machine or container with so much memory: 64 to 1,000."""
    for_tasks = memory_bytes - DRIVER_BYTES - BROKER_BYTES
    return max(FEWEST, min(for_tasks // LOADED_TASK_BYTES, MOST))


def memory_limit(root: Path = Path("/"), machine_bytes: int | None = None) -> int:
    """Returns bytes. `root` is the folder of proc and sys."""
    if machine_bytes is None:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine_bytes, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    for mount, name, group in _groups(root):
        folder = root / _CGROUPS / mount
        for ancestor in (group, *group.parents):
            try:
                text = (folder / ancestor.relative_to("/") / name).read_text().strip()
            except (OSError, ValueError):
                continue
            if text.isdecimal():  # without a limit: `max` in v2, in v1 a number beyond any machine
                yield int(text)


def _groups(root: Path) -> Iterator[tuple[str, str, PurePosixPath]]:
    """Yields the mount of the controller of memory, its file, and this process's group."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, _, place = line.partition(":")
        controllers, _, path = place.partition(":")
        if "memory" in controllers.split(","):
            yield *_V1, PurePosixPath(path)
        elif not controllers:
            yield *_V2, PurePosixPath(path)
