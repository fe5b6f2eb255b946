"""Which files a project's `specs` name: files, folders and globs, relative to connect.yaml.

Files come sorted by path and once each, so that nothing depends on how they are named. Hidden files
and folders are skipped unless an entry names them.
"""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Location

ENDINGS = (".yaml", ".yml", ".json", ".properties")


def find_spec_files(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    """All spec files; an entry that names nothing is added to `problems`."""
    found: dict[Path, Path] = {}
    for entry in project.specs:
        where = project.specs_locations.get(entry, Location(project.file.name))
        try:
            paths = _named(project.folder, entry, where, problems)
        except OSError as error:
            what, why = f"{entry!r} cannot be read", error.strerror or ""
            problems.append(Diagnostic("file.unreadable", what, where, why=why))
            continue
        for path in paths:
            if path.resolve() != project.file.resolve():
                found.setdefault(path.resolve(), path)
    return tuple(sorted(found.values(), key=lambda path: relative_name(path, project.folder)))


def relative_name(path: Path, folder: Path) -> str:
    """How diagnostics call a file: by its path from the project's folder, with slashes."""
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()


def _named(folder: Path, entry: str, where: Location, problems: list[Diagnostic]) -> list[Path]:
    path = folder / entry
    if path.is_dir():
        return _inside(path, folder, problems)
    if path.exists():
        if path.suffix.lower() in ENDINGS:
            return [path]
        what = f"the format of {entry!r} cannot be told from its name"
        hint = f"name it *{', *'.join(ENDINGS)}"
        problems.append(Diagnostic("project.unknown-format", what, where, hint=hint))
        return []
    is_glob = any(mark in entry for mark in "*?[")
    # Path.glob neither skips hidden files nor takes an absolute pattern
    matches = glob(entry, root_dir=folder, recursive=True) if is_glob else []  # noqa: PTH207
    if not matches:
        # never "no specs": that would read as a wish to delete every connector
        what = f"nothing matches {entry!r}" if is_glob else f"{entry!r} does not exist"
        hint = "paths are relative to connect.yaml; create it, or change 'specs'"
        problems.append(Diagnostic("project.missing-specs", what, where, hint=hint))
    found: list[Path] = []
    for match in matches:
        matched = folder / match
        if matched.is_dir():
            found += _inside(matched, folder, problems)
        elif matched.suffix.lower() in ENDINGS:
            found.append(matched)
    return found


def _inside(top: Path, folder: Path, problems: list[Diagnostic]) -> list[Path]:
    def unreadable(error: OSError) -> None:
        # skipping it would read as a wish to delete the connectors inside
        where = Location(relative_name(Path(error.filename or top), folder))
        why = error.strerror or ""
        what = "the folder cannot be read"
        problems.append(Diagnostic("file.unreadable", what, where, why=why))

    found: list[Path] = []
    for root, folders, files in os.walk(top, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(root, name)
            for name in files
            if not name.startswith(".") and name.lower().endswith(ENDINGS)
        ]
    return found
