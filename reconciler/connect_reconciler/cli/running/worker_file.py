"""Reads a worker.properties file, and says where in it the keys of errors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_specs.connector_spec import read_config
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.documents import Map
from connect_specs.properties_documents import parse_properties
from connect_specs.text_files import read_text


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """The properties of one file, and where each of them is written."""

    file: str
    properties: Mapping[str, str] = field(repr=False)
    places: Mapping[str, Location]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Adds to errors about a key its place in the file, or the file for a missing one."""
        try:
            yield
        except Invalid as invalid:
            raise Invalid(*map(self._placed, invalid.diagnostics)) from invalid

    def _placed(self, diagnostic: Diagnostic) -> Diagnostic:
        key = diagnostic.where
        if not diagnostic.code.startswith("worker.") or not isinstance(key, str):
            return diagnostic
        problem = diagnostic.what if key in diagnostic.what else f"{key}: {diagnostic.what}"
        return replace(diagnostic, what=problem, where=self.places.get(key, Location(self.file)))


def read_worker_file(path: Path, file: str) -> WorkerFile:
    """Reads the file, which errors call `file`. Raises Invalid."""
    parsed = parse_properties(read_text(path, file, latin1_fallback=True), file)
    problems = list(parsed.problems)
    (document,) = parsed.documents
    assert isinstance(document, Map), "a properties file is one map"
    config = read_config(document, problems)
    if problems:
        raise Invalid(*problems)
    return WorkerFile(file, config.values, config.places)
