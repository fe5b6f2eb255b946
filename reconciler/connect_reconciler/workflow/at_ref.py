"""Reads a project as it is at a git ref, from a copy of its folder or of its whole repository."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.project import load_project

_CODE = "git.ref"


@contextmanager
def project_at(project: Project, ref: str, *, whole: bool) -> Iterator[Project]:
    """Opens the project at `ref`, read with the same values. Its files are there within the
    context: those of its own folder, or with `whole` all of the repository, which may take long.

    Raises Invalid where there is no such ref, or no project in it.
    """
    folder = project.folder.resolve()
    commit = _git(folder, ref, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    # From within a folder, git archives this folder alone
    top = Path(_git(folder, ref, "rev-parse", "--show-toplevel")).resolve() if whole else folder
    place = folder.relative_to(top)
    with TemporaryDirectory(prefix="connect-") as temporary:
        copy, archive = Path(temporary, "copy"), Path(temporary, "archive")
        _git(top, ref, "archive", "--format=tar", f"--output={archive}", commit)
        with tarfile.open(archive) as files:
            try:
                files.extractall(copy, filter=partial(_without_others, place.as_posix()))
            except tarfile.FilterError as error:
                message = f"the project at {ref} cannot be read: a link leads out of the repository"
                raise Invalid(Diagnostic(_CODE, message, ref, type(error).__name__)) from None
        archive.unlink()
        file = copy / place / project.file.name
        if not file.is_file():
            message = f"there is no {project.file.name} at {ref}"
            hint = "name a commit that has this project"
            raise Invalid(Diagnostic(_CODE, message, ref, hint=hint))
        yield load_project(file, project.env, given=project.given)


def _without_others(place: str, member: tarfile.TarInfo, copy: str) -> tarfile.TarInfo | None:
    """Leaves out links of others that lead elsewhere. Raises FilterError for the project's own."""
    try:
        return tarfile.data_filter(member, copy)
    except tarfile.FilterError:
        if place == "." or member.name.startswith(f"{place}/"):
            raise
        return None


def _git(folder: Path, ref: str, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message, hint = "git cannot be run", "install git, or use --against live"
        raise Invalid(Diagnostic(_CODE, message, ref, type(error).__name__, hint)) from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        message = f"git cannot read this project at {ref!r}"
        hint = "name a branch, a tag or a commit; in CI, fetch it first: git fetch origin main"
        raise Invalid(Diagnostic(_CODE, message, ref, reason, hint))
    return os.fsdecode(done.stdout).removesuffix("\n")
