"""Keeps a log small by moving what processes append to it to older files.

Several write to one open file, such as the JVM, so it is copied and emptied; lines written in
between are lost.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO

_BYTES_MAX = 10 * 1024 * 1024


def open_log(file: Path) -> IO[bytes]:
    """Opens the file for appending; only its user may read it."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def rotate(file: Path, *, kept: int = 2, most_bytes: int = _BYTES_MAX) -> None:
    """Moves the content to `<file>.1`, that to `.2`, and so on, if it is larger than `most_bytes`.
    So many older files are `kept`. Raises OSError."""
    if not file.exists() or file.stat().st_size <= most_bytes:
        return
    for number in range(kept, 1, -1):
        newer = older(file, number - 1)
        if newer.exists():
            newer.replace(older(file, number))
    try:
        shutil.copyfile(file, _private(older(file, 1)))
    finally:
        # also if the disk is full
        os.truncate(file, 0)


def older(file: Path, number: int = 1) -> Path:
    """Where the text went when the file became large, so many times ago."""
    return file.with_name(f"{file.name}.{number}")


def _private(file: Path) -> Path:
    file.touch(mode=0o600)
    return file
