"""Files that verbs write into the project: `.connect/`, specs and exports."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.signals import may_change
from connect_runtime.files import make_private_folder, replace_file
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.spec_files import is_no_spec

if TYPE_CHECKING:
    from connect_specs.desired import Project


NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def make_data_folder(project: Project) -> None:
    """Creates `.connect/`, readable only by this user, and keeps it out of git."""
    make_private_folder(project.data)
    ignore = project.data / ".gitignore"
    if not ignore.exists():
        # Whole or not at all: an empty one, of a full disk, would ignore nothing
        replace_file(ignore, "*\n")


def broker_folder(project: Project) -> Path:
    """Returns the folder of the embedded broker."""
    return project.data / "broker"


def first_folder(project: Project) -> Path:
    """Returns the first existing folder in `specs` of connect.yaml, else the first to be created.

    Raises Invalid if there is none.
    """
    folders = [project.folder / entry for entry in project.specs]
    for folder in folders:
        if folder.is_dir():
            return folder
    for folder in folders:
        if _may_be_created(folder):
            return folder
    problem = "connect.yaml's 'specs' names no folder"
    hint = "add one there, such as connectors/, or use --out"
    raise Invalid(Diagnostic("specs.no-folder", problem, str(project.file), hint=hint))


def _may_be_created(folder: Path) -> bool:
    is_glob = any(mark in str(folder) for mark in "*?[")
    return not (is_glob or folder.suffix or folder.exists() or folder.is_symlink())


def before_creating(folder: Path, project: Project) -> Project:
    """Returns the project without this folder in its `specs` if the folder does not exist yet.

    For all other verbs, a missing folder is an error.
    """
    if not _may_be_created(folder):
        return project
    specs = tuple(entry for entry in project.specs if project.folder / entry != folder)
    return replace(project, specs=specs)


def file_names(connectors: Mapping[str, object], ending: str) -> dict[str, str]:
    """Returns a file name for each connector: its own name, if every system allows it and the file
    would be read as a spec."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(connectors):
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
        usable = stem == name and stem.lower() not in taken and len(stem) <= 200
        if not usable or is_no_spec(f"{stem}{ending}"):
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            stem = f"{stem[:200]}-{digest}".lstrip("-")
        taken.add(stem.lower())
        files[name] = f"{stem}{ending}"
    return files


@contextmanager
def written(
    folder: Path, texts: Mapping[str, str], *, force: bool, mode: int = 0o666
) -> Iterator[None]:
    """Writes the files, and restores the earlier ones if the context raises. Raises Invalid.

    `texts` are by paths relative to the folder, which is created even for none. `force` overwrites
    existing files. `mode`, less the umask, is who may read them.
    """
    existing = [name for name in texts if (folder / name).exists()]
    if existing and not force:
        problem, hint = "the file already exists", "--force overwrites it"
        raise Invalid(
            *(
                Diagnostic("file.exists", problem, Location(str(folder / name)), hint=hint)
                for name in existing
            )
        )
    originals: dict[Path, bytes | None] = {}
    folders = {folder, *folder.parents}.union(*((folder / name).parents for name in texts))
    created = [path for path in sorted(folders, reverse=True) if not path.exists()]
    may_change()
    file = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes() if file.is_file() else None
            replace_file(file, text, mode=mode)
            originals[file] = content
        yield
    except OSError as error:
        _restore(originals, created)
        raise not_written("the file cannot be written", file, error) from error
    except BaseException:
        _restore(originals, created)
        raise


def write_file(
    file: Path, text: str, problem: str, code: str = "file.unwritable", *, mode: int = 0o666
) -> None:
    """Writes a file that the user named. Raises Invalid with this problem and code."""
    try:
        replace_file(file, text, mode=mode)
    except OSError as error:
        raise not_written(problem, file, error, code) from error


def not_written(problem: str, file: Path, error: OSError, code: str = "file.unwritable") -> Invalid:
    """Returns the error for a file that the user named; the system may name another, half-written
    one."""
    reason = error.strerror or type(error).__name__
    hint = "name a file in a folder that exists and that you may write to"
    if error.errno in NO_SPACE:
        hint = "free some space, and run this again"
    return Invalid(Diagnostic(code, problem, Location(str(file)), reason, hint))


def _restore(originals: Mapping[Path, bytes | None], created: Sequence[Path]) -> None:
    """Restores the files and removes the `created` folders, inner ones before outer ones."""
    for file, content in originals.items():
        if content is None:
            if file.is_file():
                file.unlink()
        else:
            replace_file(file, content)
    for folder in created:
        with suppress(OSError):
            folder.rmdir()
