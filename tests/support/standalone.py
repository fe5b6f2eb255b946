"""A standalone worker on a real broker whose tasks run in threads of this process: all but Spark
and REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.standalone.alone import Alone
from connect_runtime.standalone.logs import StandaloneLogs
from connect_runtime.standalone.server import TopicsServer
from connect_runtime.storage.offset_file import OffsetFile
from support.launcher import ThreadLauncher
from support.thread_cluster import STRING, ThreadCluster
from support.wait import wait_until


@contextmanager
def standalone_worker(
    bootstrap_servers: str,
    file: Path,
    settings: Mapping[str, str] | None = None,
    leaving_s: float = 0.0,
) -> Iterator[ThreadCluster]:
    """Runs with the offsets of `file` until the end. `settings` are further worker properties,
    `leaving_s` as in WorkerSettings."""
    properties = {
        "bootstrap.servers": bootstrap_servers,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": "100",
        "offset.storage.file.filename": str(file),
    }
    config, _ = from_properties(properties | dict(settings or {}), standalone=True)
    logs = StandaloneLogs(config.topics, OffsetFile.open(file), "cluster")
    server = TopicsServer(logs, config.topics)
    launcher = ThreadLauncher()
    providers = ConfigProviders(config.properties)
    connect = ConnectCluster(
        "http://ours:8083",
        WorkerSettings(
            config.group_id,
            config.topics,
            "ours:8083",
            config.properties,
            socket=server.path,
            leaving_s=leaving_s,
        ),
        logs=logs,
        groups=SinkGroups(),
        election=Alone(),
        launcher=launcher,
        check=lambda name, given: None,
        leader=lambda: None,
        topics_problem=lambda: logs.problem,
        providers=providers,
    )
    connect.start()
    try:
        wait_until(lambda: connect.herder.leading, what="the herder to lead")
        yield ThreadCluster(connect, logs, launcher)
    finally:
        connect.close()
        launcher.close()
        server.close()
        logs.close()
        providers.close()
