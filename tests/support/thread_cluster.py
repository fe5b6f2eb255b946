"""A runtime on a real broker whose tasks run in threads of this process: all but Spark and REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connect_cluster import Check, ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.joining import ensure_topics
from connect_runtime.kafka import election
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.topics import TopicsWatch
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.log import Logs
from connect_runtime.storage.snapshots import State
from support.launcher import ThreadLauncher
from support.wait import wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True, slots=True)
class ThreadCluster:
    """A leader, and what a test may want of it."""

    connect: ConnectCluster
    logs: Logs
    launcher: ThreadLauncher

    @property
    def verbs(self) -> ConnectCluster:
        return self.connect

    def wait_for(self, name: str, connector: State, *tasks: State, timeout_s: float = 60) -> None:
        """Until the connector and its tasks are in these states, and no other task runs."""

        def reached() -> bool:
            status = self.connect.herder.view.status
            found = status.connectors.get(name)
            ours = [t for t in sorted(status.tasks) if t.connector == name]
            runs = [t for t in self.launcher.running if t.connector == name]
            return (
                found is not None
                and found.state is connector
                and [status.tasks[t].state for t in ours] == list(tasks)
                and len(runs) == sum(state is not State.FAILED for state in tasks)
            )

        what = f"{name} to be {connector} {tasks}"
        wait_until(reached, what=what, timeout_s=timeout_s)

    def stop_connector(self, name: str) -> None:
        """Stopped, and all its tasks gone."""
        self.verbs.stop(name)
        self.wait_for(name, State.STOPPED)


@contextmanager
def thread_cluster(
    bootstrap_servers: str,
    group_id: str,
    settings: Mapping[str, str] | None = None,
    check: Check = lambda name, given: None,
    logger_levels: str | None = None,
    launcher: ThreadLauncher | None = None,
) -> Iterator[ThreadCluster]:
    """Leads the group, until the end, also if a busy machine keeps the broker from answering for
    longer than a session. `settings` are further worker properties."""
    patient = {"session.timeout.ms": 45_000, "max.poll.interval.ms": 45_000}
    with patch.multiple(election, _SESSION_S=45.0, _SETTINGS=election._SETTINGS | patient):
        yield from _leading(bootstrap_servers, group_id, settings, check, logger_levels, launcher)


def _leading(
    bootstrap_servers: str,
    group_id: str,
    settings: Mapping[str, str] | None,
    check: Check,
    logger_levels: str | None,
    launcher: ThreadLauncher | None,
) -> Iterator[ThreadCluster]:
    properties = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": "200",
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
    }
    for kind, suffix in (("config", "configs"), ("offset", "offsets"), ("status", "status")):
        properties[f"{kind}.storage.topic"] = f"{group_id}-{suffix}"
        properties[f"{kind}.storage.replication.factor"] = "1"
    config, _ = from_properties(properties | dict(settings or {}))
    logs = KafkaLogs(config.client)
    launcher = launcher or ThreadLauncher()
    providers = ConfigProviders(config.properties)
    ensure_topics(config, logs)
    watch = TopicsWatch(config.client, config.topics)
    watch.start()
    connect = ConnectCluster(
        "http://ours:8083",
        WorkerSettings(
            config.group_id,
            config.topics,
            "ours:8083",
            config.properties,
            logger_levels=logger_levels,
        ),
        logs=logs,
        groups=SinkGroups(),
        election=Election(config.client, config.group_id, config.topics.config, "http://ours:8083"),
        launcher=launcher,
        check=check,
        leader=lambda: None,
        topics_problem=lambda: watch.problem,
        topics_degraded=lambda: watch.degraded,
        providers=providers,
    )
    connect.start()
    try:
        wait_until(lambda: connect.herder.leading, what="the herder to lead")
        yield ThreadCluster(connect, logs, launcher)
    finally:
        connect.close()
        launcher.close()
        watch.close()
        logs.close()
        providers.close()
