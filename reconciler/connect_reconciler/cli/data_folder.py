"""`.connect/` beside connect.yaml: what a project runs keeps everything there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect_runtime.private_files import make_private_folder

if TYPE_CHECKING:
    from connect_specs.desired import Project


def make_data_folder(project: Project) -> None:
    """Makes it, for this user alone, and keeps it out of git."""
    make_private_folder(project.data)
    ignore = project.data / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
