"""Java connectors on a Spark cluster whose nodes have neither plugins nor jars: `connect package`
sends them.

Each worker is in a mount namespace of its own in which the plugins' folder is empty.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.engine.engine_jar import MAIN_CLASS
from connect_runtime.kafka.local_processes import LOOPBACK
from support import http
from support.broker import BrokerAddress, read_to_end
from support.distributed import Runtime, start_runtime
from support.java_plugins import COUNTING, add_compiled
from support.processes import Process, kill, of_session
from support.rig import Rig, lines_of
from support.spark_cluster import SparkCluster
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.long]

OTHER_NODE = "127.0.0.2"
START_S = 180.0
HIDE = 'mount -t tmpfs none "$0" && exec "$@"'


@dataclass(slots=True)
class Site:
    """A cluster of two nodes, and a runtime on it."""

    rig: Rig
    kafka: str
    spark: SparkCluster
    folder: Path
    runtime: Runtime

    def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = http.request(method, f"{self.runtime.at.url}{path}", json=body, timeout=90)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def create(self, name: str, class_name: str, **more: str) -> None:
        config = {"connector.class": class_name, "tasks.max": "1", **more}
        self.ask("PUT", f"/connectors/{name}/config", config)

    def tasks(self, name: str) -> list[Mapping[str, Any]]:
        found = self.runtime.at.get(f"/connectors/{name}/status")
        return [] if found is None else found["tasks"]

    def wait_for(self, name: str, *states: str) -> None:
        wait_until(
            lambda: [task["state"] for task in self.tasks(name)] == list(states),
            what=f"the tasks of {name} to be {states}",
            timeout_s=START_S,
        )

    def counted(self, topic: str, more_than: int = 0) -> list[int]:
        """Returns the numbers in a topic, once there are more."""

        def records() -> list[int] | None:
            numbers = [int(record.value() or b"") for record in read_to_end(self.kafka, topic)]
            return numbers if len(numbers) > more_than else None

        return wait_until(records, what="numbers", timeout_s=START_S)

    def jvms(self) -> list[Process]:
        """Returns the JVMs of tasks, on all nodes."""
        of_workers = [p for each in self.spark.workers for p in of_session(each.pid)]
        parents = {each.pid for each in of_workers}
        stats = Path("/proc").glob("[0-9]*/stat")
        pids = [int(stat.parent.name) for stat in stats if _parent(stat) in parents]
        every = [found for pid in pids for found in of_session(pid)]
        return [each for each in every if MAIN_CLASS in each.command]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _site(broker: BrokerAddress, folder: Path, *words: str) -> Iterator[Site]:
    kafka, plugins = broker.bootstrap_servers, folder / "plugins"
    add_compiled("Counting", COUNTING, plugins)
    (folder / "nobody").mkdir()
    hidden = ["unshare", "-m", "sh", "-c", HIDE, str(plugins)]
    bare = {"HOME": str(folder / "nobody"), "PYTHONPATH": "", "PYSPARK_PYTHON": ""}
    bare |= {"XDG_CACHE_HOME": str(folder / "nobody"), "CONNECT_CACHE": ""}
    spark = SparkCluster(folder / "spark", cores=3)
    rig = Rig(folder / "project", f"java-{os.getpid()}", f"{{bootstrap.servers: '{kafka}'}}")
    try:
        spark.start_master()
        for host in (LOOPBACK, OTHER_NODE):
            spark.start_worker(host, bare, hidden)
        settings = json.loads(rig("package", *words, "--json").stdout)["properties"]
        settings |= {**spark.settings, "spark.master": spark.url, "plugin.path": str(plugins)}
        (folder / "runtime").mkdir()
        runtime = start_runtime(rig, kafka, folder / "runtime", settings)
        wait_until(lambda: runtime.leads, what="it to lead", timeout_s=START_S)
        yield Site(rig, kafka, spark, folder, runtime)
        runtime.command.send_signal(signal.SIGTERM)
        runtime.command.wait(60)
    finally:
        assert rig.end() == []
        spark.end()


@pytest.fixture
def site(broker: BrokerAddress, tmp_path: Path) -> Iterator[Site]:
    yield from _site(broker, tmp_path, "--plugin-path", str(tmp_path / "plugins"))


@pytest.fixture
def site_without_plugins(broker: BrokerAddress, tmp_path: Path) -> Iterator[Site]:
    yield from _site(broker, tmp_path)


def test_java_tasks_run_from_the_archive_and_count_each_number_once(
    site: Site, unique: str
) -> None:
    """Also after the end of the executor, and after that of the JVM."""
    site.create(unique, "Counting", topic=unique)
    file = site.folder / "lines"
    site.create(f"{unique}-sink", "Lines", topics=unique, path=str(file))
    for name in (unique, f"{unique}-sink"):
        site.wait_for(name, "RUNNING")
    site.counted(unique)
    jvms = site.jvms()
    assert jvms
    for jvm in jvms:
        assert "/environment" in jvm.command
    kill(*site.spark.executors())
    after = len(site.counted(unique))
    site.counted(unique, more_than=after + 20)
    site.wait_for(unique, "RUNNING")
    kill(*wait_until(site.jvms, what="their JVMs", timeout_s=START_S))
    numbers = site.counted(unique, more_than=after + 100)
    assert numbers == list(range(1, len(numbers) + 1))
    wait_until(
        lambda: len(set(lines_of(file))) >= len(numbers),
        what="the sink to have them",
        timeout_s=START_S,
    )


def test_a_plugin_that_nodes_lack_is_named_and_another_node_is_tried(
    site_without_plugins: Site, unique: str
) -> None:
    site = site_without_plugins
    site.create(unique, "Counting", topic=unique)
    site.wait_for(unique, "FAILED")
    (task,) = site.tasks(unique)
    for node in (LOOPBACK, OTHER_NODE):
        assert f"Task {unique}-0 cannot run on node {node}: " in task["trace"]
    assert f"{site.folder}/plugins/counting" in task["trace"]
    assert "`connect package`" in task["trace"]
