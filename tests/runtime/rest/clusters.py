"""Runtimes of one group on a broker, with REST and without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.joining import LeaderLookup, ensure_topics
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.rest.app import create_app
from connect_runtime.rest.http_server import BoundSocket, RestServer
from connect_runtime.settings.worker_config import from_properties
from connect_specs.names import ClusterTopics
from runtime.rest.serving import Served

_STRING = "org.apache.kafka.connect.storage.StringConverter"


def create_topics(client: dict[str, str], group: str) -> None:
    """Creates the internal topics of a group."""
    topics = ClusterTopics.of(group)
    named = {"config": topics.config, "offset": topics.offsets, "status": topics.status}
    worker, _ = from_properties(
        {
            **client,
            "group.id": group,
            **{f"{kind}.storage.topic": topic for kind, topic in named.items()},
            **{f"{kind}.storage.replication.factor": "1" for kind in named},
            "offset.storage.partitions": "1",
            "key.converter": _STRING,
            "value.converter": _STRING,
        }
    )
    logs = KafkaLogs(client)
    ensure_topics(worker, logs)
    logs.close()


@contextlib.contextmanager
def runtime_without_spark(
    client: dict[str, str], group: str, advertised: Callable[[str], str] = str
) -> Iterator[tuple[Served, ConnectCluster]]:
    """A herder and its REST API. `advertised` gives the URL that others reach it at."""
    bound = BoundSocket.at("127.0.0.1", 0)
    url = advertised(f"http://127.0.0.1:{bound.port}")
    topics = ClusterTopics.of(group)
    logs = KafkaLogs(client)
    herder = ConnectCluster(
        url,
        WorkerSettings(group, topics, url, {}),
        logs=logs,
        groups=SinkGroups(),
        election=Election(client, group, topics.config, url),
        launcher=None,
        check=lambda name, config: None,
        leader=LeaderLookup(client, group, topics.config),
    )
    rest = RestServer(create_app(lambda: herder, {}, cluster_id=lambda: "k", commit="c"), bound)
    rest.start()
    herder.start()
    try:
        yield Served(bound.port, rest), herder
    finally:
        herder.close()
        rest.stop()
        logs.close()
