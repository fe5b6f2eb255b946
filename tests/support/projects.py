"""Projects as values, for whatever needs no connect.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connect_specs.desired import Project, RestTarget
from connect_specs.names import ClusterTopics


def project_of(
    group_id: str = "g",
    *,
    name: str = "orders",
    kafka: Mapping[str, str] | None = None,
    target: RestTarget | None = None,
    worker: Mapping[str, str] | None = None,
    folder: Path = Path(),
    specs: tuple[str, ...] = (),
) -> Project:
    """A project whose cluster has this group and the topics that are named after it."""
    topics = ClusterTopics.of(group_id)
    file = folder / "connect.yaml"
    return Project(name, file, group_id, topics, kafka, target, worker or {}, specs)
