"""Finds the files that a project's `specs` and `policies` name: files, folders and globs, relative
to connect.yaml.

Files come sorted by path and once each, so that nothing depends on how they are named. Hidden files
and folders are skipped unless an entry names them; links are followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_specs.consequence_rules import CONSEQUENCES_FILE
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.project import PROJECT_FILE
from connect_specs.spec_folders import Folders, real_path, relative_name
from connect_specs.values import VALUES_FOLDER


@dataclass(frozen=True, slots=True)
class _Kind:
    """What files a field of connect.yaml names."""

    field: str
    endings: tuple[str, ...]


_SPECS = _Kind("specs", (".yaml", ".yml", ".json", ".properties"))
_POLICIES = _Kind("policies", (".yaml", ".yml"))
# Files that hold records to test a spec with, beside the spec
TEST_ENDINGS: Final = (".test.yaml", ".test.yml")


def is_no_spec(name: str) -> bool:
    """Whether a file of this name is no spec: it holds tests, or the project's own settings."""
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
    found = dict.fromkeys(_specs_and_tests(project, problems))
    beside = [
        path.with_name(path.stem + ending)
        for path in found
        if not _holds_tests(path)
        for ending in TEST_ENDINGS
    ]
    found |= dict.fromkeys(path for path in beside if path not in found and path.is_file())
    return _sorted(filter(_holds_tests, found), project.folder)


def _holds_tests(path: Path) -> bool:
    return path.name.lower().endswith(TEST_ENDINGS)


def _specs_and_tests(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    values = real_path(project.folder / VALUES_FOLDER)
    found = _find(project, project.specs, project.specs_locations, _SPECS, problems)
    known = [real_path(path) for path in find_policy_files(project, [])]
    others = {real_path(project.file), real_path(project.folder / CONSEQUENCES_FILE), *known}
    for entry in project.specs:
        if Path(os.path.normpath(entry)).parts[:1] == (VALUES_FOLDER,):
            # never ignored: these connectors would count as deleted
            where = project.specs_locations.get(entry, Location(project.file.name))
            problems.append(_in_values(entry, where))
    named = (project.folder / VALUES_FOLDER).absolute()
    for real, path in found.items():
        if values in real.parents and named not in path.absolute().parents:
            name = relative_name(path, project.folder)
            problems.append(_in_values(name, Location(name)))
    return _sorted(
        (path for real, path in found.items() if real not in others and values not in real.parents),
        project.folder,
    )


def _in_values(name: str, where: Location) -> Diagnostic:
    what = f"{name!r} is in {VALUES_FOLDER}/, which holds values, not specs"
    hint = "move the specs to another folder, such as connectors/"
    return Diagnostic("project.specs-in-values", what, where, hint=hint)


def find_policy_files(project: Project, problems: list[Diagnostic]) -> tuple[Path, ...]:
    """Returns all policy files; an entry that names nothing is added to `problems`."""
    found = _find(project, project.policies, project.policies_locations, _POLICIES, problems)
    return _sorted(found.values(), project.folder)


def _find(
    project: Project,
    entries: Iterable[str],
    locations: Mapping[str, Location],
    kind: _Kind,
    problems: list[Diagnostic],
) -> dict[Path, Path]:
    """Returns the files as they were named, by their real paths."""
    found: dict[Path, Path] = {}
    for entry in entries:
        where = locations.get(entry, Location(project.file.name))
        try:
            paths = _named(project.folder, entry, where, kind, problems)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else str(error)) or ""
            what, hint = (
                f"{entry!r} cannot be read",
                "give the user who runs `connect` permission to read it",
            )
            problems.append(Diagnostic("file.unreadable", what, where, why, hint))
            continue
        for path in paths:
            found.setdefault(real_path(path), path)
    return found


def _sorted(paths: Iterable[Path], folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(paths, key=lambda path: relative_name(path, folder)))


def _named(
    folder: Path, entry: str, where: Location, kind: _Kind, problems: list[Diagnostic]
) -> list[Path]:
    folders = Folders(folder, problems)
    path = folder / entry
    if path.is_dir():
        return list(folders.files(path, kind.endings))
    if path.exists():
        if path.suffix.lower() in kind.endings:
            return [path] if folders.is_readable(path) else []
        what = f"the format of {entry!r} cannot be recognized from its name"
        hint = f"name it *{', *'.join(kind.endings)}"
        problems.append(Diagnostic("project.unknown-format", what, where, hint=hint))
        return []
    before = len(problems)
    matches = folders.matches(entry)
    if not matches and len(problems) == before:
        # an error, not "no specs": every connector would count as deleted
        is_glob = any(mark in entry for mark in "*?[")
        what = f"nothing matches {entry!r}" if is_glob else f"{entry!r} does not exist"
        hint = f"paths are relative to connect.yaml; create it, or change {kind.field!r}"
        problems.append(Diagnostic(f"project.missing-{kind.field}", what, where, hint=hint))
    found: list[Path] = []
    for match in matches:
        if match.is_dir():
            found += folders.files(match, kind.endings)
        elif match.suffix.lower() in kind.endings and folders.is_readable(match):
            found.append(match)
    return found
