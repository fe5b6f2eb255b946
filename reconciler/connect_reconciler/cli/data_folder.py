"""`.connect/` beside connect.yaml: what a project runs keeps everything there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connect_specs.desired import Project


def make_data_folder(project: Project) -> None:
    """Makes it, and keeps it out of git."""
    project.data.mkdir(exist_ok=True)
    ignore = project.data / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
