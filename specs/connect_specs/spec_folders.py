"""The files in folders and of globs, through symbolic links and without ever going in circles.

Nothing that might hold a spec is skipped silently, because a spec that is not found reads as a wish
to delete its connector: a link that leads nowhere or back to a folder above it, and a folder that
cannot be read, are problems.
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
    """Where the path really is; of a link in a circle, that link."""
    return Path(os.path.realpath(path))


def relative_name(path: Path, folder: Path) -> str:
    """How diagnostics call a file: by its path from the project's folder, with slashes; bytes that
    are no UTF-8 are escaped."""
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
        """The files in the folder and the folders in it whose names end in one of these ways."""
        for each in self._all(folder):
            for path in self._entries(each):
                named = path.suffix.lower() in endings and not path.is_dir()
                if named and self._leads_somewhere(path) and self.is_readable(path):
                    yield path

    def is_readable(self, path: Path) -> bool:
        """Whether this is a file; to read a pipe would never end."""
        if not path.is_file():
            what, hint = "this is no regular file", "remove it, or move it elsewhere"
            self._add("file.unreadable", what, path, "", hint)
        return path.is_file()

    def matches(self, pattern: str) -> list[Path]:
        """What matches a glob, which may be absolute: files and folders. Hidden ones only where a
        part of the pattern begins with a dot."""
        parts = Path(pattern).parts
        return list(dict.fromkeys(self._matches(self._top, list(parts))))

    def _matches(self, folder: Path, parts: list[str]) -> Iterator[Path]:
        if not parts:
            yield folder
            return
        first, *others = parts
        if first == "**":
            # A folder stands for all that is in it
            for each in self._all(folder) if others else (folder,):
                yield from self._matches(each, others)
        elif not _MAGIC.search(first):
            inner = folder / first
            if self._leads_somewhere(inner) and inner.exists():
                yield from self._matches(inner, others)
        else:
            fits = re.compile(translate(first)).match
            for path in self._entries(folder, hidden=first.startswith(".")):
                if not fits(path.name) or not self._leads_somewhere(path):
                    continue
                if not others or path.is_dir():
                    yield from self._matches(path, others)

    def _all(self, top: Path) -> Iterator[Path]:
        """The folder and those in it, each real one once."""
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
                if self._leads_somewhere(path) and path.is_dir() and not self._leads_back(path)
            ]

    def _entries(self, folder: Path, *, hidden: bool = False) -> list[Path]:
        """What is in a folder, by name."""
        try:
            with os.scandir(folder) as found:
                paths = sorted(folder / each.name for each in found)
        except NotADirectoryError:
            return []
        except OSError as error:
            what, hint = "the folder cannot be read", "let the user who runs connect read it"
            self._add("file.unreadable", what, folder, error.strerror or "", hint)
            return []
        return [path for path in paths if hidden or not path.name.startswith(".")]

    def _leads_somewhere(self, path: Path) -> bool:
        """Whether this is no link, or one to something that is there."""
        if not path.is_symlink():
            return True
        try:
            path.stat()
        except OSError as error:
            what = f"the symbolic link leads to {path.readlink()}, which cannot be read"
            hint = "correct the link or remove it; its specs would count as deleted"
            self._add("file.bad-link", what, path, error.strerror or "", hint)
            return False
        return True

    def _leads_back(self, path: Path) -> bool:
        """Whether this is a link to a folder that it is in."""
        real, inside = real_path(path), real_path(path.parent)
        if not path.is_symlink() or real not in (inside, *inside.parents):
            return False
        what = "the symbolic link leads back to a folder that it is in"
        self._add("file.link-loop", what, path, "", "remove the link")
        return True

    def _add(self, code: str, what: str, path: Path, why: str, hint: str) -> None:
        where = Location(relative_name(path, self._top))
        problem = Diagnostic(code, what, where, why, hint)
        if problem not in self._problems:
            self._problems.append(problem)
