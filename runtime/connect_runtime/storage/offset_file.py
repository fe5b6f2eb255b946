"""Keeps source offsets in a standalone worker's file, `offset.storage.file.filename`.

The file is Apache's (`java/offset_bytes`), so that either worker continues where the other
stopped. A file that this process does not understand, or that changed since it was read, is never
overwritten. Each write replaces the whole file, so a crash leaves the old one or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from connect_runtime.java import offset_bytes
from connect_runtime.storage.log import OffsetsNotWritten
from connect_specs.diagnostics import Diagnostic, Failed

# Some 500,000 partitions
BYTES_MAX: Final = 64 * 1024 * 1024

Entries = Mapping[bytes | None, bytes | None]
# Device, inode, size and time of the last change
_Mark = tuple[int, int, int, int]


@dataclass(slots=True, eq=False)
class _FileWrite:
    """One write. `over` once it is on the disk, or `error` says why not."""

    changes: Entries
    check: Callable[[], None]
    over: bool = False
    error: Exception | None = None


class _TooLarge(OffsetsNotWritten):
    """The file may not hold so much."""


class OffsetFile:
    """The offsets in one file, which this process has locked until `close`. Thread-safe.

    Keys and values are the bytes of Connect's offsets topic. A null value removes its key.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self._path = path
        self._lock = lock
        self._mutex = threading.Lock()
        self._waiting: deque[_FileWrite] = deque()
        self._problem: str | None = None
        self._entries, self._mark = _read(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Locks and reads the file; one that is missing or empty holds no offsets.

        Raises Failed: offsets.file-in-use, offsets.file-unknown, offsets.file-unreadable.
        """
        # a rename onto a symbolic link would replace the link
        path = Path(os.path.realpath(path))
        lock = _locked(path)
        try:
            return cls(path, lock)
        except BaseException:
            os.close(lock)
            raise

    @property
    def entries(self) -> Entries:
        """Returns what the file holds."""
        return self._entries

    @property
    def problem(self) -> str | None:
        """Returns why the last write failed; None if it did not."""
        return self._problem

    def write(self, changes: Entries, check: Callable[[], None] = lambda: None) -> Entries:
        """Applies `changes` and returns what the file then holds, on the disk.

        Raises OffsetsNotWritten: offsets.file-changed, offsets.file-not-written. The file and
        `entries` are then as before. `check` is called when earlier writes are over; what it raises
        prevents this one. Waiting writes become one: tasks commit at the same time, and
        each would write the whole file.
        """
        write = _FileWrite(changes, check)
        self._waiting.append(write)
        with self._mutex:
            if not write.over:
                self._write_waiting()
        if write.error is not None:
            raise write.error
        return self._entries

    def close(self) -> None:
        """Releases the lock. The file for it stays: removing it could let two others in."""
        os.close(self._lock)

    def _write_waiting(self) -> None:
        writes = []
        while self._waiting:
            write = self._waiting.popleft()
            write.over = True
            try:
                write.check()
            except Exception as error:
                write.error = error
                continue
            writes.append(write)
        if writes:
            self._write_all(writes)

    def _write_all(self, writes: Sequence[_FileWrite]) -> None:
        """Halves writes that are too large together until those are found that are by themselves:
        one connector must not hold up the others."""
        changed = dict(self._entries)
        for write in writes:
            changed.update(write.changes)
        try:
            self._replace({key: value for key, value in changed.items() if value is not None})
            self._problem = None
        except OffsetsNotWritten as error:
            if isinstance(error, _TooLarge) and len(writes) > 1:
                half = len(writes) // 2
                self._write_all(writes[:half])
                self._write_all(writes[half:])
                return
            self._problem = f"{error}: {error.diagnostics[0].why}"
            for write in writes:
                write.error = OffsetsNotWritten(*error.diagnostics)
        except Exception as error:
            for write in writes:
                write.error = error

    def _replace(self, entries: Entries) -> None:
        data = offset_bytes.encode_map(entries)
        if len(data) > BYTES_MAX:
            too_large = self._not_written(f"its offsets take more than {_mib(BYTES_MAX)}")
            raise _TooLarge(*too_large.diagnostics)
        unfinished = self._path.with_name(f"{self._path.name}.new")
        try:
            self._check_unchanged()
            mark = _write(unfinished, data, self._path)
            unfinished.replace(self._path)
            # from here on the file holds them, whether or not the folder reaches the disk
            self._entries, self._mark = entries, mark
            _sync_folder(self._path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise self._not_written(error.strerror or type(error).__name__) from error

    def _check_unchanged(self) -> None:
        if _mark_of(self._path) in (None, self._mark):
            return
        # touched or copied back; not every file system keeps inode numbers
        with contextlib.suppress(Failed):
            entries, mark = _read(self._path)
            if entries == self._entries:
                self._mark = mark
                return
        problem = "the offset file was changed by another program, and is left as it is"
        reason = "this worker would overwrite what it has not read"
        hint = "only one worker may use an offset file: stop the other one, then restart this one"
        place = str(self._path)
        raise OffsetsNotWritten(Diagnostic("offsets.file-changed", problem, place, reason, hint))

    def _not_written(self, reason: str) -> OffsetsNotWritten:
        problem = "the offset file cannot be written, and is as before"
        hint = "the next commit tries again; until then, a restart sends records again"
        place = str(self._path)
        return OffsetsNotWritten(
            Diagnostic("offsets.file-not-written", problem, place, reason, hint)
        )


def _read(path: Path) -> tuple[Entries, _Mark | None]:
    """Returns the entries, and the mark of the file that held them; None if there is none."""
    try:
        # a replacement would need no permission to write this file
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _unreadable(path, "it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(BYTES_MAX + 1)
        except OSError as error:
            raise _unreadable(path, error.strerror or type(error).__name__) from error
    if len(data) > BYTES_MAX:
        raise _unknown(path, f"it is larger than {_mib(BYTES_MAX)}")
    try:
        # Apache's worker leaves an empty file if it is killed before its first write
        entries = offset_bytes.decode_map(data) if data else {}
    except offset_bytes.NotAMap as error:
        raise _unknown(path, str(error)) from None
    return entries, _mark(status)


def _write(unfinished: Path, data: bytes, replaced: Path) -> _Mark:
    """Writes a file to the disk, with mode and owner of the file that it will replace."""
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            status = replaced.stat()
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
        return _mark(os.fstat(descriptor))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Returns a descriptor that holds the lock. Writes replace the file itself, so the lock is on
    one beside it."""
    lock_file = path.with_name(f"{path.name}.lock")
    try:
        # in /tmp, another user's link may lead to any file
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise _unreadable(path, f"{lock_file.name}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode(errors="replace")
        os.close(descriptor)
        problem = "another worker uses the offset file"
        reason = f"the process {pid} has locked {lock_file.name}" if pid.isdigit() else ""
        hint = "stop that worker, or name another file as offset.storage.file.filename"
        raise Failed(Diagnostic("offsets.file-in-use", problem, str(path), reason, hint)) from None
    except OSError as error:
        os.close(descriptor)
        raise _unreadable(path, f"{lock_file.name} cannot be locked: {error.strerror}") from error
    with contextlib.suppress(OSError):  # a full disk; the pid is only for the message
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _mark_of(path: Path) -> _Mark | None:
    try:
        return _mark(path.stat())
    except FileNotFoundError:
        return None


def _mark(status: os.stat_result) -> _Mark:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _unreadable(path: Path, reason: str) -> Failed:
    problem = "the offset file cannot be used"
    hint = "name a file in a folder that this user can write to"
    return Failed(Diagnostic("offsets.file-unreadable", problem, str(path), reason, hint))


def _unknown(path: Path, reason: str) -> Failed:
    problem = "this is not an offset file of Connect, and is left as it is"
    hint = "restore the file from a copy, or remove it to read all sources from their start"
    return Failed(Diagnostic("offsets.file-unknown", problem, str(path), reason, hint))


def _mib(size: int) -> str:
    return f"{size // (1024 * 1024)} MiB"
