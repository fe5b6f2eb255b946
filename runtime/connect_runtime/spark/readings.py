"""Brings what tasks count from their processes to the driver, if both share a disk.

Each attempt has a file beside its lease. Its process overwrites it every few seconds, and the
driver reads it when somebody asks for metrics: nobody waits, and what nobody asks for costs one
small write. A reading that is half written is recognised, and read again.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from connect_runtime.metrics.task_metrics import values_of

_HEAD: Final = struct.Struct("<II")  # length and CRC-32 of what follows
_TRIES: Final = 3


def file_beside(lease: str | Path) -> Path:
    """Returns where the attempt with this lease writes its readings."""
    return Path(f"{lease}.metrics")


class ReadingFile:
    """The task's side. `publish` writes what `reading` returns, unless it is what it was before."""

    def __init__(self, path: Path, reading: Callable[[], bytes]) -> None:
        """Raises OSError."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._reading = reading
        self._last = b""

    def publish(self) -> bool:
        """Returns whether the reading is a new one. Never raises for a full disk: the values stay
        what they were."""
        found = self._reading()
        if found == self._last:
            return False
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _HEAD.pack(len(found), zlib.crc32(found)) + found, 0)
            self._last = found
        return True

    def close(self) -> None:
        """Writes the last reading."""
        self.publish()
        os.close(self._descriptor)


def read(path: Path) -> Mapping[str, Any] | None:
    """Returns the newest reading; None if there is none, or none can be read."""
    for _ in range(_TRIES):
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if len(content) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack_from(content)
        found = content[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(found) == checksum:
            return values_of(found)
    return None
