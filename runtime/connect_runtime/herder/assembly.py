"""Puts a herder together: what `connect up` runs beside REST and Spark, and what an apply leads
with when no runtime is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from connect_runtime import plugins
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connect_cluster import Check, ConnectCluster
from connect_runtime.herder.connector_logs import OpenLogs
from connect_runtime.herder.herder import Candidate, Herder
from connect_runtime.herder.launcher import Launcher
from connect_runtime.herder.offsets import ConnectorOffsets, Groups
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.herder.worker import Worker, WorkerSettings
from connect_runtime.kafka.log import connector_logs
from connect_runtime.storage.log import Logs


@dataclass(frozen=True, slots=True)
class Edges:
    """Everything outside: Kafka's logs, groups and election, the launcher (None: run nothing), the
    check of configs, who leads if not this one, logs where connectors need their own, and the
    worker's config providers, which the caller closes. Tests bring a clock and a pool of their
    own."""

    logs: Logs
    groups: Groups
    election: Candidate
    launcher: Launcher | None
    check: Check
    leader: Callable[[], str | None]
    open_logs: OpenLogs = connector_logs
    clock: Callable[[], float] = time.monotonic
    pool: Executor | None = None
    providers: ConfigProviders = field(default_factory=lambda: ConfigProviders({}))


class ConnectHerder:
    """A herder and the verbs over it. `start`, then `stop`, which also closes what it opened."""

    def __init__(self, url: str, settings: WorkerSettings, edges: Edges) -> None:
        plugins.allow_modules(settings.properties)
        self._settings = settings
        self._sources = SourceOffsets(
            edges.logs,
            settings.group_id,
            settings.topics.offsets,
            settings.properties,
            edges.providers,
            edges.open_logs,
        )
        self._worker = Worker(
            settings, edges.launcher, self._sources, edges.providers, self._fence, edges.pool
        )
        self.herder = Herder(
            url=url,
            group_id=settings.group_id,
            topics=settings.topics,
            logs=edges.logs,
            election=edges.election,
            worker=self._worker,
            clock=edges.clock,
        )
        offsets = ConnectorOffsets(
            self.herder,
            settings.topics,
            self._sources,
            edges.groups,
            edges.providers,
        )
        self.verbs = ConnectCluster(
            self.herder,
            settings.topics,
            offsets,
            check=edges.check,
            leader=edges.leader,
            problem=lambda: edges.launcher.problem if edges.launcher else None,
        )

    def _fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        self._sources.fence(self._sources.clients(name, config, "source"), tasks)

    def start(self) -> None:
        """Begins to read, to take part in the election and to answer."""
        self.herder.start()

    def stop(self) -> None:
        """Ends tasks and connectors in order, says so in the status topic, leaves the group."""
        self.herder.stop(self._settings.graceful_s + 20)
        self._sources.close()
