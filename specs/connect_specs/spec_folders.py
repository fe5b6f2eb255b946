"""Lists the files of folders and globs; follows symbolic links without looping.

Nothing that might hold a spec is skipped silently, because a connector whose spec is not found
counts as deleted: a broken link, a link to a folder above it, and a folder that cannot be read are
problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from fnmatch import translate
from pathlib import Path

from connect_specs.diagnostics import Diagnostic, Location

_MAGIC = re.compile(r"[*?[]")


def real_path(path: Path) -> Path:
    """Returns the path with symbolic links resolved; a link in a circle stays as it is."""
    return Path(os.path.realpath(path))


def relative_name(path: Path, folder: Path) -> str:
    """Returns a file's name in diagnostics: its path from the project's folder, with slashes; bytes
    that are not UTF-8 are escaped.
    """
    name = Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class Folders:
    """Lists folders below `top`, which diagnostics name their paths from; hidden ones are skipped.

    A folder that a link leads to is listed wherever it is, once for each walk.
    """

    def __init__(self, top: Path, problems: list[Diagnostic]) -> None:
        self._top = top
        self._problems = problems

    def files(self, folder: Path, endings: Collection[str]) -> Iterator[Path]:
        """Returns the files in the folder and its subfolders that have one of these endings."""
        for each in self._all(folder):
            for path in self._entries(each):
                named = path.suffix.lower() in endings and not path.is_dir()
                if named and self._is_intact(path) and self.is_readable(path):
                    yield path

    def is_readable(self, path: Path) -> bool:
        """Whether this is a regular file; reading a pipe would never end."""
        if not path.is_file():
            what, hint = "this is not a regular file", "remove it, or move it elsewhere"
            self._add("file.unreadable", what, path, "", hint)
        return path.is_file()

    def matches(self, pattern: str) -> list[Path]:
        """Returns the files and folders that match a glob, which may be absolute.

        Hidden ones only where a part of the pattern begins with a dot.
        """
        parts = Path(pattern).parts
        return list(dict.fromkeys(self._matches(self._top, list(parts))))

    def _matches(self, folder: Path, parts: list[str]) -> Iterator[Path]:
        if not parts:
            yield folder
            return
        first, *others = parts
        if first == "**":
            # A folder stands for everything in it
            for each in self._all(folder) if others else (folder,):
                yield from self._matches(each, others)
        elif not _MAGIC.search(first):
            inner = folder / first
            if self._is_intact(inner) and inner.exists():
                yield from self._matches(inner, others)
        else:
            fits = re.compile(translate(first)).match
            for path in self._entries(folder, hidden=first.startswith(".")):
                if not fits(path.name) or not self._is_intact(path):
                    continue
                if not others or path.is_dir():
                    yield from self._matches(path, others)

    def _all(self, top: Path) -> Iterator[Path]:
        """Yields the folder and its subfolders, each real one once."""
        seen: set[Path] = set()
        left = [top]
        while left:
            folder = left.pop()
            real = real_path(folder)
            if real in seen:
                continue
            seen.add(real)
            yield folder
            left += [
                path
                for path in reversed(self._entries(folder))
                if self._is_intact(path) and path.is_dir() and not self._is_loop(path)
            ]

    def _entries(self, folder: Path, *, hidden: bool = False) -> list[Path]:
        """Returns what is in a folder, by name."""
        try:
            with os.scandir(folder) as found:
                paths = sorted(folder / each.name for each in found)
        except NotADirectoryError:
            return []
        except OSError as error:
            what, hint = (
                "the folder cannot be read",
                "give the user who runs `connect` permission to read it",
            )
            self._add("file.unreadable", what, folder, error.strerror or "", hint)
            return []
        return [path for path in paths if hidden or not path.name.startswith(".")]

    def _is_intact(self, path: Path) -> bool:
        """Whether this is not a broken link."""
        if not path.is_symlink():
            return True
        try:
            path.stat()
        except OSError as error:
            what = f"the symbolic link points to {path.readlink()}, which cannot be read"
            hint = "correct or remove the link; specs behind it would count as deleted"
            self._add("file.bad-link", what, path, error.strerror or "", hint)
            return False
        return True

    def _is_loop(self, path: Path) -> bool:
        """Whether this is a link to a folder that contains it."""
        real, inside = real_path(path), real_path(path.parent)
        if not path.is_symlink() or real not in (inside, *inside.parents):
            return False
        what = "the symbolic link points to a folder that contains it"
        self._add("file.link-loop", what, path, "", "remove the link")
        return True

    def _add(self, code: str, what: str, path: Path, why: str, hint: str) -> None:
        where = Location(relative_name(path, self._top))
        problem = Diagnostic(code, what, where, why, hint)
        if problem not in self._problems:
            self._problems.append(problem)
