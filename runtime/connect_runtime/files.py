"""Folders that only this user may read, because configs hold secrets; files written as a whole."""

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


def replace_file(file: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Writes the whole file or none of it. `mode`, less the umask, is its permissions from the
    first moment on.

    A device or a pipe, such as /dev/stdout, is written to, and stays. Raises OSError.
    """
    data = content.encode() if isinstance(content, str) else content
    if file.exists() and not file.is_file():
        with file.open("wb") as out:
            out.write(data)
        return
    file = Path(os.path.realpath(file))
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _tighten(path: Path) -> None:
    # it may be gone, or owned by another user
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & 0o7700)
