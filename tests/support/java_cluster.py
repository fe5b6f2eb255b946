"""A runtime in this process with Java plugins, and a connector that others must not disturb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connect_runtime.storage.snapshots import State
from connect_specs.desired import TargetState
from support.broker import BrokerAddress, read_to_end
from support.java_plugins import COUNTING, SOURCE, add_compiled, java_catalog
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

START_S = 180


def add_unruly(folder: Path) -> Path:
    """Adds plugins that count and that misbehave to a folder, and returns it."""
    add_compiled("Counting", COUNTING, folder)
    add_compiled("Unruly", {SOURCE: "tests.Unruly\ntests.Unruly$Slow"}, folder)
    return folder


@contextmanager
def java_cluster(kafka: str, group: str, plugin_path: Path, **more: str) -> Iterator[ThreadCluster]:
    settings = {"plugin.path": str(plugin_path), "task.shutdown.graceful.timeout.ms": "3000"}
    settings |= more
    worker = {
        "bootstrap.servers": kafka,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
    }
    with java_catalog(worker | settings), thread_cluster(kafka, group, settings) as cluster:
        yield cluster


class Sibling:
    """A connector that counts beside the unruly ones."""

    def __init__(self, cluster: ThreadCluster, broker: BrokerAddress, name: str) -> None:
        self._cluster, self._broker, self.name = cluster, broker, name
        config = {"name": name, "connector.class": "Counting", "topic": name, "tasks.max": "1"}
        cluster.verbs.create(name, config, TargetState.RUNNING)
        cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)

    def records(self) -> list[int]:
        records = read_to_end(self._broker.bootstrap_servers, self.name)
        return [int(record.value() or b"") for record in records]

    def moves_on(self) -> None:
        before = len(self.records())
        wait_until(lambda: len(self.records()) > before + 20, what="records", timeout_s=START_S)

    def check(self) -> None:
        """Each number once, in order, by one attempt."""
        self.moves_on()
        assert attempts(self._cluster, self.name) == 1
        records = self.records()
        assert records == list(range(1, len(records) + 1))


def attempts(cluster: ThreadCluster, name: str) -> int:
    return len([a for a in cluster.launcher.launches if a.id.connector == name])
