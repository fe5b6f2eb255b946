"""Finds the files that a project's `specs` and `policies` name: files, folders and globs, relative
to connect.yaml.

Files come sorted by path and once each, so that nothing depends on how they are named. Hidden files
and folders are skipped unless an entry names them; links are followed, without looping. A file that
might hold a spec is never skipped silently, because a connector without its spec counts as deleted:
a broken link, a link to a folder above it, and a folder that cannot be read are problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Final

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.project import CONSEQUENCES_FILE, PROJECT_FILE
from connect_specs.text_files import real_path, relative_name
from connect_specs.values import VALUES_FOLDER


@dataclass(frozen=True, slots=True)
class _FileKind:
    """The files that a field of connect.yaml names."""

    field: str
    endings: tuple[str, ...]


_SPECS = _FileKind("specs", (".yaml", ".yml", ".json", ".properties"))
_POLICIES = _FileKind("policies", (".yaml", ".yml"))
_PERMISSION: Final = "give the user who runs `connect` permission to read it"
_MAGIC = re.compile(r"[*?[]")
# Files with records to test a spec with, beside the spec
TEST_ENDINGS: Final = (".test.yaml", ".test.yml")


def is_no_spec(name: str) -> bool:
    """Returns True if a file of this name is no spec: it holds tests, or the project's own
    settings."""
    return name.lower().endswith(TEST_ENDINGS) or name.lower() in (PROJECT_FILE, CONSEQUENCES_FILE)


def find_spec_files(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    """Returns all spec files; an entry that names nothing is added to `problems`.

    connect.yaml, consequences.yaml, policies, values files and tests are never specs, whatever
    folder they are in.
    """
    return tuple(path for path in _specs_and_tests(project, problems) if not _holds_tests(path))


def find_test_files(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    """Returns the test files among the spec files and beside them; problems as `find_spec_files`
    reports them."""
    paths = dict.fromkeys(_specs_and_tests(project, problems))
    neighbours = [
        path.with_name(path.stem + ending)
        for path in paths
        if not _holds_tests(path)
        for ending in TEST_ENDINGS
    ]
    paths |= dict.fromkeys(path for path in neighbours if path not in paths and path.is_file())
    return _sorted(filter(_holds_tests, paths), project.folder)


def _holds_tests(path: Path) -> bool:
    return path.name.lower().endswith(TEST_ENDINGS)


def _specs_and_tests(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    values = real_path(project.folder / VALUES_FOLDER)
    values_name = (project.folder / VALUES_FOLDER).absolute()
    paths = _find(project, project.specs, project.specs_locations, _SPECS, problems)
    for entry in project.specs:
        if Path(os.path.normpath(entry)).parts[:1] == (VALUES_FOLDER,):
            # never ignored: these connectors would count as deleted
            location = project.specs_locations.get(entry, Location(project.file.name))
            problems.append(_in_values(entry, location))
    for real, path in paths.items():
        if values in real.parents and values_name not in path.absolute().parents:
            name = relative_name(path, project.folder)
            problems.append(_in_values(name, Location(name)))
    policies = map(real_path, find_policy_files(project, []))
    settings = {real_path(project.file), real_path(project.folder / CONSEQUENCES_FILE), *policies}
    specs = (p for r, p in paths.items() if r not in settings and values not in r.parents)
    return _sorted(specs, project.folder)


def _in_values(name: str, location: Location) -> Diagnostic:
    message = f"{name!r} is in {VALUES_FOLDER}/, which holds values, not specs"
    hint = "move the specs to another folder, such as connectors/"
    return Diagnostic("project.specs-in-values", message, location, hint=hint)


def find_policy_files(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    """Returns all policy files; an entry that names nothing is added to `problems`."""
    paths = _find(project, project.policies, project.policies_locations, _POLICIES, problems)
    return _sorted(paths.values(), project.folder)


def _find(
    project: Project,
    entries: Iterable[str],
    locations: Mapping[str, Location],
    kind: _FileKind,
    problems: list[Diagnostic],
) -> dict[Path, Path]:
    """Returns the files as they were named, by their real paths."""
    files: dict[Path, Path] = {}
    for entry in entries:
        location = locations.get(entry, Location(project.file.name))
        try:
            paths = _files_of(project.folder, entry, location, kind, problems)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else str(error)) or ""
            message = f"{entry!r} cannot be read"
            problems.append(Diagnostic("file.unreadable", message, location, reason, _PERMISSION))
            continue
        for path in paths:
            files.setdefault(real_path(path), path)
    return files


def _sorted(paths: Iterable[Path], folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(paths, key=lambda path: relative_name(path, folder)))


def _files_of(
    folder: Path, entry: str, location: Location, kind: _FileKind, problems: list[Diagnostic]
) -> list[Path]:
    folders = Folders(folder, problems)
    path, valid = folder / entry, len(problems)
    matches = [path] if path.exists() else folders.matches(entry)
    if not matches and len(problems) == valid:
        # an error, not "no specs": every connector would count as deleted
        is_glob = any(mark in entry for mark in "*?[")
        message = f"nothing matches {entry!r}" if is_glob else f"{entry!r} does not exist"
        hint = f"paths are relative to connect.yaml; create it, or change {kind.field!r}"
        problems.append(Diagnostic(f"project.missing-{kind.field}", message, location, hint=hint))
    files: list[Path] = []
    for match in matches:
        if match.is_dir():
            files += folders.files(match, kind.endings)
        elif match.suffix.lower() in kind.endings:
            files += [match] if folders.is_readable(match) else []
        elif match == path:
            message = f"the format of {entry!r} cannot be recognized from its name"
            hint = f"name it *{', *'.join(kind.endings)}"
            problems.append(Diagnostic("project.unknown-format", message, location, hint=hint))
    return files


# --- folders and globs ---


class Folders:
    """Lists folders below `top`, which diagnostics name their paths from; hidden ones are skipped.

    A folder that a link leads to is listed wherever it is, once for each walk.
    """

    def __init__(self, top: Path, problems: list[Diagnostic]) -> None:
        self._top = top
        self._problems = problems

    def files(self, folder: Path, endings: Collection[str]) -> Iterator[Path]:
        """Yields the files in the folder and its subfolders that have one of these endings."""
        for inner in self._all(folder):
            for path in self._entries(inner):
                is_file = path.suffix.lower() in endings and not path.is_dir()
                if is_file and self._is_intact(path) and self.is_readable(path):
                    yield path

    def is_readable(self, path: Path) -> bool:
        """Returns True if this is a regular file; reading a pipe would never end."""
        if not path.is_file():
            message, hint = "this is not a regular file", "remove it, or move it elsewhere"
            self._add("file.unreadable", message, path, "", hint)
        return path.is_file()

    def matches(self, pattern: str) -> list[Path]:
        """Returns the files and folders that match a glob, which may be absolute.

        Hidden ones only where a name of the pattern begins with a dot.
        """
        return list(dict.fromkeys(self._matches(self._top, Path(pattern).parts)))

    def _matches(self, folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
        if not patterns:
            yield folder
            return
        first, *deeper = patterns
        if first == "**":
            # A folder matches with everything in it
            for inner in self._all(folder) if deeper else (folder,):
                yield from self._matches(inner, deeper)
        elif not _MAGIC.search(first):
            inner = folder / first
            if self._is_intact(inner) and inner.exists():
                yield from self._matches(inner, deeper)
        else:
            matches = re.compile(translate(first)).match
            for path in self._entries(folder, hidden=first.startswith(".")):
                if not matches(path.name) or not self._is_intact(path):
                    continue
                if not deeper or path.is_dir():
                    yield from self._matches(path, deeper)

    def _all(self, top: Path) -> Iterator[Path]:
        """Yields the folder and its subfolders, each real one once."""
        visited: set[Path] = set()
        pending = [top]
        while pending:
            folder = pending.pop()
            real = real_path(folder)
            if real in visited:
                continue
            visited.add(real)
            yield folder
            pending += [
                path
                for path in reversed(self._entries(folder))
                if self._is_intact(path) and path.is_dir() and not self._is_loop(path)
            ]

    def _entries(self, folder: Path, *, hidden: bool = False) -> list[Path]:
        """Returns the files and folders in a folder, by name."""
        try:
            with os.scandir(folder) as entries:
                paths = sorted(folder / entry.name for entry in entries)
        except NotADirectoryError:
            return []
        except OSError as error:
            message, reason = "the folder cannot be read", error.strerror or ""
            self._add("file.unreadable", message, folder, reason, _PERMISSION)
            return []
        return [path for path in paths if hidden or not path.name.startswith(".")]

    def _is_intact(self, path: Path) -> bool:
        """Returns True if this is not a broken link."""
        if not path.is_symlink():
            return True
        try:
            path.stat()
        except OSError as error:
            message = f"the symbolic link points to {path.readlink()}, which cannot be read"
            hint = "correct or remove the link; specs behind it would count as deleted"
            self._add("file.bad-link", message, path, error.strerror or "", hint)
            return False
        return True

    def _is_loop(self, path: Path) -> bool:
        """Returns True if this is a link to a folder that contains it."""
        real, inside = real_path(path), real_path(path.parent)
        if not path.is_symlink() or real not in (inside, *inside.parents):
            return False
        message = "the symbolic link points to a folder that contains it"
        self._add("file.link-loop", message, path, "", "remove the link")
        return True

    def _add(self, code: str, message: str, path: Path, reason: str, hint: str) -> None:
        location = Location(relative_name(path, self._top))
        problem = Diagnostic(code, message, location, reason, hint)
        if problem not in self._problems:
            self._problems.append(problem)
