"""Folders and files that only this user may read, because they hold secrets; files written as a
whole; their checksums."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600

_OTHERS: Final = 0o077
_PASSWORD_BYTES: Final = 24


def make_private_folder(folder: Path) -> None:
    """Creates the folder and its parents if missing, and removes others' permissions."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _tighten(folder)


def tighten(folder: Path) -> None:
    """Removes others' permissions from the folder and all its contents, except symbolic links."""
    _tighten(folder)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _tighten(Path(parent, name))


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
    # another process may be writing the same file
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def sha256_of(file: Path) -> str:
    """Returns the checksum of a file's content in hexadecimal digits. Raises OSError."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def stamp(file: Path) -> tuple[int, int, int] | None:
    """Returns what changes with a file's content; None if there is no file to see."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def read_password(file: Path) -> str | None:
    """Returns the password in a file; None if there is none or it cannot be read."""
    try:
        return file.read_text().strip() or None
    except (OSError, ValueError):
        return None


def ensure_password(file: Path) -> str:
    """Returns the password in a private file; makes one if there is none. Raises OSError."""
    password = read_password(file)
    if password is None:
        return replace_password(file)
    file.chmod(PRIVATE)
    return password


def replace_password(file: Path) -> str:
    """Returns a new password, which replaces that in the file at once. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    replace_file(file, f"{password}\n", mode=PRIVATE)
    return password


def _tighten(path: Path) -> None:
    # it may be gone, or owned by another user
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & 0o7700)
