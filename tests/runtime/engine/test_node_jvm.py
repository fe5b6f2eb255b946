"""Java tasks that share the JVM of their node: what one of them does to the others."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmConnection, framed
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.traces import names_own_jvm
from connect_specs.desired import TargetState
from support.broker import BrokerAddress, create_topic, read_to_end
from support.java_cluster import START_S, Sibling, add_unruly, attempts, java_cluster
from support.java_plugins import engine_jvms
from support.thread_cluster import STRING, ThreadCluster
from support.wait import wait_until

pytestmark = pytest.mark.long

Create = Callable[..., str]


@contextmanager
def closing_jvm(jvm: PluginJvm) -> Iterator[None]:
    try:
        yield
    finally:
        jvm.end()


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_unruly(tmp_path_factory.mktemp("built") / "plugins")


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress, plugin_path: Path) -> Iterator[ThreadCluster]:
    group = f"node-jvm-{os.getpid()}"
    with java_cluster(broker.bootstrap_servers, group, plugin_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def siblings(cluster: ThreadCluster, broker: BrokerAddress) -> list[Sibling]:
    names = [f"node-sibling-{number}-{os.getpid()}" for number in range(3)]
    return [Sibling(cluster, broker, name) for name in names]


@pytest.fixture
def unruly(cluster: ThreadCluster, siblings: list[Sibling], unique: str) -> Iterator[Create]:
    """Creates connectors that misbehave, and deletes them in the end."""
    names: list[str] = []

    def create(where: str, how: str, **more: str) -> str:
        name = f"{unique}-{len(names)}"
        config = {"name": name, "connector.class": "Unruly", "topic": name}
        config |= {"where": where, "how": how, **more}
        cluster.verbs.create(name, config, TargetState.RUNNING)
        names.append(name)
        return name

    yield create
    for name in names:
        cluster.verbs.delete(name)
    wait_until(
        lambda: not any(task.connector in names for task in cluster.launcher.running),
        what="its tasks to end",
        timeout_s=30,
    )


def interrupted(cluster: ThreadCluster, siblings: list[Sibling]) -> Mapping[str, int]:
    return {sibling.name: attempts(cluster, sibling.name) for sibling in siblings}


def all_once(siblings: list[Sibling]) -> None:
    """Each number once, in order, and more to come."""
    for sibling in siblings:
        sibling.moves_on()
        records = sibling.records()
        assert records == list(range(1, len(records) + 1))


class Peer(JvmConnection):
    """The process of a task that shares a JVM."""

    def __init__(self, path: str, number: int) -> None:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        connected.sendall(framed({"peer": number}))
        answers = {
            "offsets": lambda fields: [None for _ in fields["keys"]],
            "write-offsets": lambda fields: None,
        }
        super().__init__(connected, {}, lambda event, fields: None, answers)
        self._start_reading()

    def _reason(self) -> tuple[str, bool]:
        return "its connection is over", False

    def ask(self, name: str, **arguments: Any) -> None:
        """Sends a request, and waits for no answer."""
        self._write({"id": 1, "call": name, **arguments})

    def start_task(self, topic: str) -> None:
        """Begins to start a task without transactions."""
        config = {"name": topic, "connector.class": "tests.Counting", "topic": topic}
        attempt = {
            "connector": topic,
            "task": 0,
            "attempt": 1,
            "count": 1,
            "connectorConfig": config,
            "taskConfig": {"task.class": "tests.Counting$Counter", "number": "0"} | config,
            "exactlyOnce": False,
            "paused": False,
            "tail": None,
        }
        self.ask("start-task", attempt=attempt)


def test_what_runs_for_a_connection_ends_with_it_whatever_is_on_its_way(
    broker: BrokerAddress, plugin_path: Path, unique: str
) -> None:
    ends: queue.SimpleQueue[Fields] = queue.SimpleQueue()
    kafka = broker.bootstrap_servers
    worker = {
        "bootstrap.servers": kafka,
        "group.id": unique,
        "key.converter": STRING,
        "value.converter": STRING,
        **{f"{kind}.storage.topic": f"{unique}-{kind}" for kind in ("config", "offset", "status")},
        "plugin.path": str(plugin_path),
    }
    jvm = PluginJvm(
        worker, "w:1", on_event=lambda event, fields: event == "peer-ended" and ends.put(fields)
    )

    def count(topic: str) -> int:
        return len(read_to_end(kafka, topic))

    def is_over(number: int) -> None:
        end = ends.get(timeout=START_S)
        assert (end["peer"], end["threadLeft"], end["outOfMemory"]) == (number, False, False)

    # pytest's folders may be too long for a socket
    with TemporaryDirectory(prefix="peers-") as folder, closing_jvm(jvm):
        path = f"{folder}/socket"
        jvm.call("listen", START_S, path=path)
        for number in range(200):
            peer = Peer(path, number)
            for _ in range(3):  # answers are on their way when it is gone
                peer.ask("loggers")
            peer.end()
            is_over(number)
        create_topic(kafka, f"{unique}-runs", partitions=1)
        create_topic(kafka, f"{unique}-starts", partitions=1)
        create_topic(kafka, f"{unique}-other", partitions=1)
        runs = Peer(path, 1_000)
        runs.start_task(f"{unique}-runs")
        wait_until(lambda: count(f"{unique}-runs") > 20, what="records", timeout_s=START_S)
        runs.end()
        is_over(1_000)
        for number in range(1_001, 1_011):
            starts = Peer(path, number)
            starts.start_task(f"{unique}-starts")
            starts.end()
            is_over(number)
        before = [count(f"{unique}-{name}") for name in ("runs", "starts")]
        other = Peer(path, 2_000)
        other.start_task(f"{unique}-other")
        wait_until(lambda: count(f"{unique}-other") > 200, what="records", timeout_s=START_S)
        assert [count(f"{unique}-{name}") for name in ("runs", "starts")] == before
        other.end()
        is_over(2_000)


def test_tasks_share_one_jvm(
    cluster: ThreadCluster, siblings: list[Sibling], unruly: Create
) -> None:
    before = engine_jvms()
    name = unruly("nowhere", "", **{"tasks.max": "1"})
    cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert engine_jvms() == before
    own = unruly("nowhere", "", **{"java.tasks.jvm": "own"})
    cluster.wait_for(own, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert len(engine_jvms() - before) == 1
    cluster.verbs.stop(own)
    wait_until(lambda: engine_jvms() <= before, what="its JVM to end", timeout_s=START_S)
    all_once(siblings)


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("task.start", "hangs"),
        ("task.poll", "loops"),
        ("task.stop", "hangs"),
        ("task.poll", "leaves a thread"),
        ("task.poll", "closes its outputs"),
        ("task.poll", "floods"),
        ("task.poll", "interrupts itself"),
    ],
)
def test_a_task_that_hangs_is_left_behind_and_starts_again_elsewhere(
    cluster: ThreadCluster, siblings: list[Sibling], unruly: Create, where: str, how: str
) -> None:
    before = interrupted(cluster, siblings)
    name = unruly(where, how)
    wait_until(lambda: attempts(cluster, name), what="its attempt", timeout_s=START_S)
    if where != "task.start" and how != "interrupts itself":
        cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    cluster.verbs.stop(name)
    cluster.wait_for(name, State.STOPPED, timeout_s=30)
    began = attempts(cluster, name)
    cluster.verbs.resume(name)
    wait_until(lambda: attempts(cluster, name) > began, what="another one", timeout_s=START_S)
    all_once(siblings)
    assert interrupted(cluster, siblings) == before


def test_a_task_that_ends_the_jvm_stands_alone_in_the_end_and_is_named(
    cluster: ThreadCluster, siblings: list[Sibling], unruly: Create
) -> None:
    before = interrupted(cluster, siblings)
    name = unruly("task.poll", "exits")

    def trace() -> str:
        status = cluster.connect.herder.view.status.tasks.get(TaskId(name, 0))
        return (status.trace if status is not None else None) or ""

    wait_until(lambda: names_own_jvm(trace()), what="its name", timeout_s=START_S)
    assert "exit code 7" in trace()
    assert cluster.verbs.runtime().own_jvms == (TaskId(name, 0),)
    now = interrupted(cluster, siblings)
    assert all(now[sibling] - before[sibling] <= 2 for sibling in now)
    wait_until(
        lambda: attempts(cluster, name) >= 6, what="further attempts of it", timeout_s=START_S
    )
    assert interrupted(cluster, siblings) == now
    all_once(siblings)
    cluster.verbs.delete(name)
    config = {"name": name, "connector.class": "Unruly", "topic": name, "where": "nowhere"}
    cluster.verbs.create(name, {**config, "how": ""}, TargetState.RUNNING)
    cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert cluster.verbs.runtime().own_jvms == ()
    jvms = engine_jvms()
    other = unruly("nowhere", "")
    cluster.wait_for(other, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert engine_jvms() <= jvms


def test_a_task_that_takes_all_memory_has_failed_and_the_next_ones_have_another_jvm(
    cluster: ThreadCluster, siblings: list[Sibling], unruly: Create
) -> None:
    before, jvms = interrupted(cluster, siblings), engine_jvms()
    name = unruly("task.poll", "takes direct memory")
    cluster.wait_for(name, State.RUNNING, State.FAILED, timeout_s=START_S)
    other = unruly("nowhere", "")
    cluster.wait_for(other, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert len(engine_jvms() - jvms) == 1
    all_once(siblings)
    assert interrupted(cluster, siblings) == before
