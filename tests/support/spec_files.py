"""Spec files without a project."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Invalid, by_place
from connect_specs.loader import FoundSpecs
from connect_specs.spec_folders import relative_name


def load_connectors(files: Iterable[Path], folder: Path) -> dict[str, DesiredConnector]:
    """The connectors of some files, without templates. Raises Invalid as `load_specs` does."""
    found = FoundSpecs(None, [])
    for path in files:
        found.read(path, relative_name(path, folder))
    if found.problems:
        raise Invalid(*by_place(found.problems))
    return dict(sorted(found.connectors.items()))
