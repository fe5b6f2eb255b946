"""Keeps spark.log small by moving what the JVM and Python workers append to older files.

They write to one open file, so it is copied and emptied; lines written in between are lost.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO

_BYTES_MAX = 10 * 1024 * 1024
_OLDER = 2


def open_log(file: Path) -> IO[bytes]:
    """Opens the file for appending; only its user may read it."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def rotate(file: Path, most_bytes: int = _BYTES_MAX) -> None:
    """Moves the content to `<file>.1`, and that to `.2`, if it is larger than `most_bytes`.

    Raises OSError."""
    if not file.exists() or file.stat().st_size <= most_bytes:
        return
    for number in range(_OLDER, 1, -1):
        newer = _older(file, number - 1)
        if newer.exists():
            newer.replace(_older(file, number))
    try:
        shutil.copyfile(file, _private(_older(file, 1)))
    finally:
        # also if the disk is full
        os.truncate(file, 0)


def _older(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def _private(file: Path) -> Path:
    file.touch(mode=0o600)
    return file
