"""A runtime that leads, without Spark: what a verb finds where it asks over REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.joining import ensure_topics
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.rest.app import create_app
from connect_runtime.rest.http_server import BoundSocket, RestServer
from connect_runtime.settings.worker_config import from_project
from connect_specs.desired import Project
from support.wait import wait_until


@contextmanager
def leading(project: Project, client: Mapping[str, str], host: str = "127.0.0.1") -> Iterator[str]:
    """Its URL, for as long as it leads; `host` is the one that it says it is on."""
    group_id, topics = project.group_id, project.topics
    logs = KafkaLogs(client)
    worker, _ = from_project(project, None)
    ensure_topics(worker, logs)
    bound = BoundSocket.at("127.0.0.1", 0)
    url = f"http://{host}:{bound.port}"
    herder = ConnectCluster(
        url,
        WorkerSettings(group_id, topics, url, worker.properties),
        logs=logs,
        groups=SinkGroups(),
        election=Election(client, group_id, topics.config, url),
        launcher=None,
        check=lambda name, config: None,
        leader=lambda: url,
    )
    rest = RestServer(create_app(lambda: herder, {}, cluster_id=str, commit="c"), bound)
    rest.start()
    herder.start()
    try:
        wait_until(lambda: herder.herder.leading, what="the herder to lead")
        yield url
    finally:
        herder.close()
        rest.stop()
        logs.close()
