"""Files that a verb writes for connectors: all of them, or none if what follows fails."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.interruption import may_change
from connect_specs.diagnostics import Diagnostic, Invalid, Location

if TYPE_CHECKING:
    from connect_specs.desired import Project


def first_folder(project: Project) -> Path:
    """The first folder that connect.yaml's `specs` names; one that does not exist only where none
    does. Raises Invalid."""
    folders = [project.folder / entry for entry in project.specs]
    for folder in folders:
        if folder.is_dir():
            return folder
    for folder in folders:
        if _may_be_created(folder):
            return folder
    what = "connect.yaml's 'specs' names no folder"
    hint = "name one there, such as connectors/, or with --out"
    raise Invalid(Diagnostic("specs.no-folder", what, str(project.file), hint=hint))


def _may_be_created(folder: Path) -> bool:
    is_glob = any(mark in str(folder) for mark in "*?[")
    return not (is_glob or folder.suffix or folder.exists() or folder.is_symlink())


def before_creating(folder: Path, project: Project) -> Project:
    """The project without the entries of `specs` that name this folder, as long as it does not
    exist: for all other verbs, that would be an error."""
    if not _may_be_created(folder):
        return project
    left = tuple(each for each in project.specs if project.folder / each != folder)
    return replace(project, specs=left)


def file_names(connectors: Mapping[str, object], ending: str) -> dict[str, str]:
    """A file's name for each connector: its own where that is one on every system."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(connectors):
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
        if stem != name or stem.lower() in taken or len(stem) > 200:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            stem = f"{stem[:200]}-{digest}".lstrip("-")
        taken.add(stem.lower())
        found[name] = f"{stem}{ending}"
    return found


@contextmanager
def written(
    folder: Path, texts: Mapping[str, str], *, force: bool, mode: int = 0o666
) -> Iterator[None]:
    """Writes the files, for good if nothing is raised while the context lasts. Raises Invalid.

    `force`: over files that are there. `mode`, less the umask, is who may read them.
    """
    there = [name for name in texts if (folder / name).exists()]
    if there and not force:
        what, hint = "this file is there already", "--force writes over it"
        raise Invalid(
            *(
                Diagnostic("file.exists", what, Location(str(folder / name)), hint=hint)
                for name in there
            )
        )
    before: dict[Path, bytes | None] = {}
    created = [each for each in (folder, *folder.parents) if not each.exists()]
    may_change()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            file = folder / name
            content = file.read_bytes() if file.exists() else None
            _replace(file, text.encode(), mode)
            before[file] = content
        yield
    except OSError as error:
        _restore(before, created)
        what, why = "the file cannot be written", error.strerror or type(error).__name__
        where = Location(str(error.filename or folder))
        raise Invalid(Diagnostic("file.unwritable", what, where, why)) from error
    except BaseException:
        _restore(before, created)
        raise


def _restore(before: Mapping[Path, bytes | None], created: Sequence[Path]) -> None:
    """`created` are folders that did not exist, the innermost first."""
    for file, content in before.items():
        if content is None:
            file.unlink(missing_ok=True)
        else:
            _replace(file, content, 0o666)
    with suppress(OSError):
        for folder in created:
            folder.rmdir()


def _replace(file: Path, content: bytes, mode: int) -> None:
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
