"""Reads how much memory this process may use: the machine's, or what its cgroups allow.

A group's limit holds for all groups below it, so the lowest on the way to the root counts. Inside
of a container the path of /proc/self/cgroup may be one of the host's; the container's own limit is
then at the root of the mount. See memory.max in the kernel's cgroup-v2.rst, and
memory.limit_in_bytes in cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_CGROUPS: Final = "sys/fs/cgroup"
_V1: Final = ("memory", "memory.limit_in_bytes")
_V2: Final = ("", "memory.max")


def memory_limit(root: Path = Path("/"), machine_bytes: int | None = None) -> int:
    """Returns bytes. `root` is where proc and sys are."""
    if machine_bytes is None:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine_bytes, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    for mount, name, group in _groups(root):
        folder = root / _CGROUPS / mount
        for each in (group, *group.parents):
            try:
                text = (folder / each.relative_to("/") / name).read_text().strip()
            except (OSError, ValueError):
                continue
            if text.isdecimal():  # v2 says `max` for no limit, v1 a number beyond any machine
                yield int(text)


def _groups(root: Path) -> Iterator[tuple[str, str, PurePosixPath]]:
    """Yields where the controller of memory is mounted, its file, and this process's group."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            yield *_V1, PurePosixPath(path)
        elif not controllers:
            yield *_V2, PurePosixPath(path)
