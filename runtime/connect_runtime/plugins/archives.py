"""Unpacks archives of Java plugins: zip and tar.gz, from anywhere, so nothing in them is trusted.

Only folders and plain files are unpacked, below the folder and nowhere else, without owners and
permissions. Links and devices are refused, as is an archive that unpacks to far more than a plugin
has. The folder is then incomplete, and the caller removes it.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import IO, Final, TypeAlias

from connect_specs.diagnostics import Diagnostic, Invalid

JAR: Final = ".jar"
ZIPS: Final = (".zip",)
TARS: Final = (".tar.gz", ".tgz")
ENDINGS: Final = (JAR, *ZIPS, *TARS)

_BYTES_MOST: Final = 2 << 30
# Jars are compressed already, so plugins unpack to little more than their archive
_RATIO_MOST: Final = 100
_SMALL_BYTES: Final = 64 << 20
_FILES_MOST: Final = 50_000
_BLOCK: Final = 1 << 20
_TOO_LARGE: Final = "it unpacks to far more than its size"
_MODE_BITS: Final = 16
# RuntimeError: it is encrypted, or its compression is not supported
_BROKEN: Final = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)

# Paths, and what opens their content unless they are folders
_Members: TypeAlias = Generator[tuple[str, Callable[[], AbstractContextManager[IO[bytes]]] | None]]


def unpack(archive: Path, folder: Path, name: str) -> None:
    """Unpacks an archive into an empty folder; `name`, by which messages name it, has one of the
    endings. Raises Invalid, OSError."""
    allowed = min(_BYTES_MOST, max(_SMALL_BYTES, _RATIO_MOST * archive.stat().st_size))
    is_zip = name.lower().endswith(ZIPS)
    members = _zip_members(archive) if is_zip else _tar_members(archive, 2 * allowed)
    try:
        with closing(members):
            for number, (path, content) in enumerate(members):
                if number >= _FILES_MOST:
                    raise _Refusal(f"it has more than {_FILES_MOST} files")
                target = folder / _inside(path)
                if content is None:
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                with content() as source:
                    allowed -= _write(source, target, allowed)
    except _Refusal as error:
        raise _refused(name, str(error)) from error
    except FileExistsError as error:
        raise _refused(name, f"it has a file twice: {error.filename}") from error
    except (*_BROKEN, gzip.BadGzipFile) as error:
        raise _refused(name, f"it cannot be read: {error}", "download it again") from error


def check_jar(jar: Path, name: str) -> None:
    """Raises Invalid if the file is no jar, such as a page that asks for a login."""
    if not zipfile.is_zipfile(jar):
        raise _refused(name, "it is no jar", "download it again")


class _Refusal(Exception):
    """The reason why an archive is not to be unpacked."""


def _zip_members(archive: Path) -> _Members:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            mode = member.external_attr >> _MODE_BITS
            # Archives that were not made on Unix have no modes
            if mode and not (S_ISREG(mode) or S_ISDIR(mode)) and mode & 0o170000:
                raise _Refusal(f"{member.filename} is a link or a device")
            # The name as it was written: Python's is cut at a null byte
            yield member.orig_filename, None if member.is_dir() else partial(opened.open, member)


def _tar_members(archive: Path, allowed: int) -> _Members:
    with (
        gzip.open(archive) as stream,
        tarfile.open(fileobj=_Limited(stream, allowed), mode="r|") as opened,
    ):
        for member in opened:
            if not (member.isreg() or member.isdir()):
                raise _Refusal(f"{member.name} is a link or a device")
            yield member.name, None if member.isdir() else partial(_content, opened, member)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None, "a plain file has content"
    return content


class _Limited(io.RawIOBase):
    """A stream that ends with an error after `allowed` bytes: headers of members are read into
    memory."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, allowed: int) -> None:
        self._stream = stream
        self._allowed = allowed

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes. Raises _Refusal."""
        data = self._stream.read(size)
        self._allowed -= len(data)
        if self._allowed < 0:
            raise _Refusal(_TOO_LARGE)
        return data


def _inside(path: str) -> PurePosixPath:
    """Returns a member's path relative to the folder. Raises _Refusal if it leads out of it."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or set(path) & set("\\:\0"):
        raise _Refusal(f"{path!r} leads out of the folder")
    return relative


def _write(source: IO[bytes], target: Path, allowed: int) -> int:
    """Returns the number of bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with target.open("xb") as out:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > allowed:
                raise _Refusal(_TOO_LARGE)
            out.write(block)
    return size


def _refused(name: str, reason: str, hint: str = "") -> Invalid:
    hint = hint or "nothing was installed: ask its vendor, or unpack it by hand and pack the jars"
    return Invalid(
        Diagnostic("plugins.archive", f"{name} cannot be unpacked", why=reason, hint=hint)
    )
