"""Spec files without a project."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Invalid, by_place
from connect_specs.loader import SpecReader
from connect_specs.text_files import relative_name


def load_connectors(files: Iterable[Path], folder: Path) -> dict[str, DesiredConnector]:
    """The connectors of some files, without templates. Raises Invalid as `load_specs` does."""
    reader = SpecReader(None, [])
    for path in files:
        reader.read(path, relative_name(path, folder))
    if reader.problems:
        raise Invalid(*by_place(reader.problems))
    return dict(sorted(reader.connectors.items()))
