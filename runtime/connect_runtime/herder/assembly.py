"""Assembles a herder from its parts, for `connect up` and for an apply without a runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connect_cluster import Check, ConnectCluster
from connect_runtime.herder.connector_logs import OpenLogs
from connect_runtime.herder.herder import Candidate, Herder
from connect_runtime.herder.launcher import Launcher
from connect_runtime.herder.offset_changes import ConnectorOffsets, Groups
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.herder.worker import Worker
from connect_runtime.herder.worker_settings import WorkerSettings
from connect_runtime.kafka.log import connector_logs
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.settings.topic_tracking import TopicTracking
from connect_runtime.storage.log import Logs


@dataclass(frozen=True, slots=True)
class Edges:
    """The herder's outside dependencies: Kafka's logs, groups and election, the launcher (None: run
    nothing), the config check, the leader's URL if another runtime leads, logs for connectors that
    need their own, which topics that it needs, and which others, cannot be used now, and the
    worker's config providers, which the caller closes. Tests pass their own clock and pool."""

    logs: Logs
    groups: Groups
    election: Candidate
    launcher: Launcher | None
    check: Check
    leader: Callable[[], str | None]
    open_logs: OpenLogs = connector_logs
    clock: Callable[[], float] = time.monotonic
    pool: Executor | None = None
    topics_problem: Callable[[], str | None] = lambda: None
    topics_degraded: Callable[[], str | None] = lambda: None
    providers: ConfigProviders = field(default_factory=lambda: ConfigProviders({}))


class ConnectHerder:
    """A herder with Connect's verbs. Call `start`, then `stop`, which also closes what it
    opened."""

    def __init__(self, url: str, settings: WorkerSettings, edges: Edges) -> None:
        allow_modules(settings.properties)
        self._settings = settings
        self._sources = SourceOffsets(
            edges.logs,
            settings.group_id,
            settings.topics.offsets,
            settings.properties,
            edges.providers,
            edges.open_logs,
            in_file=settings.socket is not None,
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
            settings.leaving_s,
        )
        self.verbs = ConnectCluster(
            self.herder,
            settings.topics,
            offsets,
            check=edges.check,
            leader=edges.leader,
            problem=lambda: edges.launcher.problem if edges.launcher else None,
            tracking=TopicTracking.of(settings.properties),
            topics_problem=edges.topics_problem,
            topics_degraded=edges.topics_degraded,
        )

    def _fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        self._sources.fence(self._sources.clients(name, config, "source"), tasks)

    def start(self) -> None:
        """Starts reading the topics, taking part in the election and answering requests."""
        self.herder.start()

    def stop(self) -> None:
        """Stops tasks and connectors in order, writes their statuses, and leaves the group."""
        self.herder.stop(self._settings.graceful_s + 20)
        self._sources.close()
