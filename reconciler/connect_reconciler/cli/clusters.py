"""The project's cluster, for verbs that ask it or change it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connect_reconciler.cli.connecting import client

if TYPE_CHECKING:
    from connect_reconciler.cluster.port import Cluster
    from connect_specs.desired import Project


@contextmanager
def cluster_of(project: Project) -> Iterator[Cluster]:
    """The leader, wherever it is; this process leads while the context lasts if nobody does."""
    from connect_reconciler.cluster.choose import open_cluster

    with client(project) as properties:
        cluster = open_cluster(project, properties)
        try:
            yield cluster
        finally:
            cluster.close()
