"""What an idle leader costs: `python -m benchmarks.leader BOOTSTRAP CONNECTORS` prints the share of
one core that its process takes, in per cent, once everything is as it should be.

All of a leader but REST and Spark: its attempts run nowhere, so that only the herder is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.decide import decide
from connect_runtime.herder.worker import WorkerSettings
from connect_runtime.joining import ensure_topics
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage import config_topic
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome, TaskLaunch

_MEASURED_S = 20.0
_SETTLED_S = 120.0
_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


class NowhereLauncher:
    """Implements `Launcher`: attempts that never do anything."""

    slots = 1_000_000
    active = 0
    problem: str | None = None

    def lead(self, term: int) -> None:
        pass

    def follow(self) -> None:
        pass

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        self.active += 1

    def kill(self, task: TaskId, attempt: int) -> None:
        self.active -= 1

    def close(self) -> None:
        pass


def measured(bootstrap: str, connectors: int) -> float:
    """`idle_share` of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.leader", bootstrap, str(connectors)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def idle_share(bootstrap: str, connectors: int) -> float:
    """Per cent of one core, over 20 s."""
    group = f"idle-{connectors}-{time.time_ns()}"
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    for kind in ("config", "offset", "status"):
        properties[f"{kind}.storage.topic"] = f"{group}-{kind}"
        properties[f"{kind}.storage.replication.factor"] = "1"
    config, _ = from_properties(properties)
    logs = KafkaLogs(config.client)
    ensure_topics(config, logs)
    url = "http://idle:8083"
    connect = ConnectCluster(
        url,
        WorkerSettings(group, config.topics, "idle:8083", config.properties),
        logs=logs,
        groups=SinkGroups(),
        election=Election(config.client, group, config.topics.config, url),
        launcher=NowhereLauncher(),
        check=lambda name, given: None,
        leader=lambda: None,
    )
    connect.start()
    herder = connect.herder
    _wait(lambda: herder.leading)
    records = [
        config_topic.connector_record(
            config.topics.config,
            f"c{number}",
            {"name": f"c{number}", "connector.class": _SOURCE, "file": "/dev/null", "topic": "t"},
        )
        for number in range(connectors)
    ]
    herder.run_on_thread(lambda: herder.write(records))
    _wait(lambda: len(herder.view.runs) == connectors and not decide(herder.view, herder.now()))
    began, used = time.monotonic(), time.process_time()
    time.sleep(_MEASURED_S)
    share = 100 * (time.process_time() - used) / (time.monotonic() - began)
    connect.close()
    logs.close()
    return share


def _wait(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLED_S
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError("the leader does not come to rest")
        time.sleep(0.2)


if __name__ == "__main__":
    print(f"{idle_share(sys.argv[1], int(sys.argv[2])):.2f}")
