"""A Connect cluster as connect uses it: read, changed, read back, with its ledger and lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connect_reconciler.backend.backend import Backend
    from connect_specs.desired import Project


def open_backend(project: Project, kafka: Mapping[str, str]) -> Backend:
    """Returns the project's cluster. `kafka` are properties of the Kafka that this project uses
    now."""
    # Each imports much that the others do not need
    if project.target is None:
        from connect_reconciler.backend.runtime import RuntimeBackend

        return RuntimeBackend(project, kafka)
    if kafka:
        from connect_reconciler.backend.on_kafka import ConnectBackend

        return ConnectBackend(project, kafka, project.target)
    from connect_reconciler.backend.rest_only import RestOnlyBackend

    return RestOnlyBackend(project, project.target)
