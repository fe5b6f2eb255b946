"""Creates folders and files that only this user may read, because configs hold secrets."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_OTHERS = 0o077


def make_private_folder(folder: Path) -> None:
    """Creates the folder and its parents if missing, and removes others' permissions."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _tighten(folder)


def tighten(folder: Path) -> None:
    """Removes others' permissions from the folder and all its contents, except symbolic links."""
    _tighten(folder)
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _tighten(Path(above, name))


def write_private(file: Path, text: str) -> None:
    """Replaces the file with this text; others cannot read it at any moment."""
    unfinished = file.with_name(f"{file.name}.new")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    unfinished.replace(file)


def _tighten(path: Path) -> None:
    # it may be gone, or owned by another user
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & 0o7700)
