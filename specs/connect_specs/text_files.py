"""Reads and decodes files, and maps offsets in a text to lines and columns.

Columns count characters, not bytes, as editors show them.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from connect_specs.diagnostics import Diagnostic, Invalid, Location

BYTES_MAX = 16 * 1024 * 1024

LINE_END = re.compile(r"\r\n|\r|\n")
_CONFLICT = tuple(re.compile(mark, re.MULTILINE) for mark in (r"^<{7} ", r"^={7}\r?$", r"^>{7} "))


class LineIndex:
    """Maps offsets in a text to places in its file.

    `lines` holds the line in the file of each line of the text; empty if they are the same.
    """

    __slots__ = ("_file", "_lines", "_starts")

    def __init__(self, text: str, file: str, lines: Sequence[int] = ()) -> None:
        self._file = file
        self._lines = lines
        self._starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    def at(self, offset: int) -> Location:
        """Returns the line and column of `offset`."""
        line = bisect_right(self._starts, offset)
        return place_in(self._file, line, offset - self._starts[line - 1] + 1, self._lines)


def place_in(file: str, line: int, column: int, lines: Sequence[int]) -> Location:
    """Returns the place in `file` of a place in a text whose lines are `lines` there."""
    return Location(file, lines[min(line, len(lines)) - 1] if lines else line, column)


def real_path(path: Path) -> Path:
    """Returns the path with symbolic links resolved; a link in a circle stays as it is."""
    return Path(os.path.realpath(path))


def relative_name(path: Path, folder: Path) -> str:
    """Returns a file's name in diagnostics: its path from the project's folder, with slashes; bytes
    that are not UTF-8 are escaped.
    """
    name = Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def read_text(path: Path, file: str, *, latin1_fallback: bool = False) -> str:
    """Returns the text of a file, decoded as `decoded` does. Raises Invalid."""
    return decoded(read_bytes(path, file), file, latin1_fallback=latin1_fallback)


def read_bytes(path: Path, file: str) -> bytes:
    """Returns the content of a file; of one that is too large, BYTES_MAX and one more. Raises
    Invalid."""
    try:
        with path.open("rb") as stream:
            return stream.read(BYTES_MAX + 1)
    except OSError as error:
        message, reason = "the file cannot be read", error.strerror or type(error).__name__
        hint = _unread_hint(path, error)
        raise Invalid(
            Diagnostic("file.unreadable", message, Location(file), reason, hint)
        ) from error


def decoded(data: bytes, file: str, *, latin1_fallback: bool = False) -> str:
    """Decodes UTF-8, without a byte order mark; more than BYTES_MAX is too much.

    `latin1_fallback`: text that is not UTF-8 is ISO 8859-1, as Java reads .properties. Raises
    Invalid.
    """
    if len(data) > BYTES_MAX:
        message = f"the file is larger than {BYTES_MAX // (1024 * 1024)} MiB"
        hint = "split it into several files"
        raise Invalid(Diagnostic("file.too-large", message, Location(file), hint=hint))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if latin1_fallback:
            return data.decode("latin-1")
        valid = data[: error.start].decode("utf-8-sig", errors="replace")
        message, location = "the file is not UTF-8", LineIndex(valid, file).at(len(valid))
        hint = "save the file as UTF-8"
        raise Invalid(Diagnostic("file.encoding", message, location, hint=hint)) from error
    conflict = _conflict(text)
    if conflict is not None:
        location = LineIndex(text, file).at(conflict)
        message, hint = "a merge conflict was left in the file", "keep one of its two sides"
        raise Invalid(Diagnostic("file.conflict", message, location, hint=hint))
    return text


def _conflict(text: str) -> int | None:
    """Returns the offset of a merge's conflict markers, if all three exist in order."""
    offsets: list[int] = []
    for mark in _CONFLICT:
        match = mark.search(text, offsets[-1] if offsets else 0)
        if match is None:
            return None
        offsets.append(match.start())
    return offsets[0]


def _unread_hint(path: Path, error: OSError) -> str:
    if path.is_symlink() and not path.exists():
        return "it is a broken symbolic link: correct or remove it"
    if isinstance(error, PermissionError):
        return "give the user who runs `connect` permission to read it"
    return "name an existing file" if isinstance(error, FileNotFoundError) else "name a file"
