"""Are the properties in connect.yaml ones that somebody reads? Asked without a cluster.

Under a REST target `worker` only says what its workers are set to: what our runtime would not heed
is nothing to warn of, and a name that no worker knows still is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from connect_runtime.worker_config import from_project
from connect_runtime.worker_keys import is_known, unheeded
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place

# For rules that need to know a Kafka; nothing connects to it
NO_KAFKA = "localhost:9092"
OF_NULL = "Invalid value null for configuration "


def check_project(project: Project) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Errors and warnings about connect.yaml, by place."""
    warnings = by_place((*project.warnings, *_unheeded(project)))
    return tuple(by_place(_wrong_values(project))), tuple(warnings)


def _unheeded(project: Project) -> Iterator[Diagnostic]:
    for key, sentence in unheeded(project.worker):
        if project.target is None or not is_known(key):
            hint = "remove it, or correct its name"
            yield Diagnostic("project.worker-key", sentence, _place(project, key), hint=hint)


def _wrong_values(project: Project) -> Iterator[Diagnostic]:
    if project.target is not None:
        return
    try:
        from_project(project, NO_KAFKA if project.kafka is None else None, resolve=False)
    except Invalid as invalid:
        for found in invalid.diagnostics:
            key = str(found.where)
            # A value that could not be parsed is then judged as null
            if project.worker.get(key) is None or not found.what.startswith(OF_NULL):
                hint = found.hint or f"correct {key} in connect.yaml, or remove it for its default"
                yield replace(found, where=_place(project, key), hint=hint)


def _place(project: Project, key: str) -> Location:
    places = project.worker_locations.get(key) or project.kafka_locations.get(key)
    return places or Location(project.file.name)
