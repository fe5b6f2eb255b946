"""Java plugins that hang, exit, take all memory or flood: what becomes of them and of a sibling."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect_runtime.engine import java_connectors
from connect_runtime.engine import jvm as jvm_module
from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_specs.desired import TargetState
from support.broker import BrokerAddress, read_to_end
from support.java_plugins import (
    COUNTING,
    SOURCE,
    add_compiled,
    engine_jvms,
    java_catalog,
)
from support.own_broker import own_broker
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

START_S = 180


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "plugins"
    add_compiled("Counting", COUNTING, folder)
    add_compiled("Unruly", {SOURCE: "tests.Unruly"}, folder)
    return folder


@contextmanager
def java_cluster(kafka: str, group: str, plugin_path: Path) -> Iterator[ThreadCluster]:
    settings = {"plugin.path": str(plugin_path), "task.shutdown.graceful.timeout.ms": "3000"}
    worker = {
        "bootstrap.servers": kafka,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
    }
    with java_catalog(worker | settings), thread_cluster(kafka, group, settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress, plugin_path: Path) -> Iterator[ThreadCluster]:
    with java_cluster(broker.bootstrap_servers, f"faults-{os.getpid()}", plugin_path) as cluster:
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
        attempts = [a for a in self._cluster.launcher.launches if a.id.connector == self.name]
        assert len(attempts) == 1
        records = self.records()
        assert records == list(range(1, len(records) + 1))


@pytest.fixture(scope="module")
def sibling(cluster: ThreadCluster, broker: BrokerAddress) -> Sibling:
    return Sibling(cluster, broker, f"sibling-{os.getpid()}")


@pytest.fixture
def unruly(
    cluster: ThreadCluster, sibling: Sibling, unique: str
) -> Iterator[Callable[[str, str], str]]:
    """Creates a connector that misbehaves, and deletes it in the end, when all of it is gone and
    its sibling has moved on."""
    names: list[str] = []

    def create(where: str, how: str) -> str:
        name = f"{unique}-{len(names)}"
        config = {"connector.class": "Unruly", "topic": name, "where": where, "how": how}
        cluster.verbs.create(name, {"name": name, **config}, TargetState.RUNNING)
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
    sibling.check()


def connector_status(cluster: ThreadCluster, name: str) -> Status | None:
    return cluster.connect.herder.view.status.connectors.get(name)


def task_status(cluster: ThreadCluster, name: str) -> Status | None:
    return cluster.connect.herder.view.status.tasks.get(TaskId(name, 0))


Read = Callable[[ThreadCluster, str], Status | None]


def traced(cluster: ThreadCluster, name: str, read: Read, state: State, text: str) -> None:
    """Waits until the status has this text."""

    def is_written() -> bool:
        status = read(cluster, name)
        return status is not None and status.state is state and text in (status.trace or "")

    wait_until(is_written, what=f"{state} of {name} with {text}", timeout_s=START_S)


@pytest.mark.parametrize(
    ("where", "how", "trace"),
    [
        ("start", "exits", "exit code 7"),
        ("start", "takes the heap", "exit code 3 (out of memory)"),
        ("start", "takes threads", "unable to create native thread"),
        ("taskConfigs", "exits", "exit code 7"),
        ("monitor", "", "Its table is gone"),
    ],
)
def test_a_connector_that_fails_or_ends_its_jvm_has_failed_alone(
    cluster: ThreadCluster, unruly: Callable[[str, str], str], where: str, how: str, trace: str
) -> None:
    name = unruly(where, how)
    traced(cluster, name, connector_status, State.FAILED, trace)


@pytest.mark.parametrize(
    ("how", "state", "trace"),
    [
        ("exits", State.UNASSIGNED, "exit code 7"),
        ("takes the heap", State.UNASSIGNED, "exit code 3 (out of memory)"),
        ("takes direct memory", State.FAILED, "OutOfMemoryError: Cannot reserve"),
        ("takes threads", State.FAILED, "unable to create native thread"),
    ],
)
def test_a_task_that_ends_its_jvm_starts_again_and_one_that_throws_has_failed(
    cluster: ThreadCluster,
    unruly: Callable[[str, str], str],
    how: str,
    state: State,
    trace: str,
) -> None:
    name = unruly("task.poll", how)
    traced(cluster, name, task_status, state, trace)
    starts = [a for a in cluster.launcher.launches if a.id.connector == name]
    if state is State.UNASSIGNED:
        wait_until(
            lambda: (
                len([a for a in cluster.launcher.launches if a.id.connector == name]) > len(starts)
            ),
            what="another attempt",
            timeout_s=START_S,
        )


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("start", "hangs"),
        ("taskConfigs", "loops"),
        ("stop", "hangs"),
        ("task.start", "hangs"),
        ("task.poll", "loops"),
        ("task.stop", "hangs"),
        ("task.poll", "leaves a thread"),
    ],
)
def test_a_connector_that_hangs_is_stopped_and_another_one_starts_after_it(
    cluster: ThreadCluster, unruly: Callable[[str, str], str], where: str, how: str
) -> None:
    before = engine_jvms()
    name = unruly(where, how)
    if where.startswith("task.") and where != "task.start":
        cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    elif where.startswith("task."):
        wait_until(lambda: engine_jvms() - before, what="its JVM", timeout_s=START_S)
    other = unruly("nowhere", "")
    cluster.wait_for(other, State.RUNNING, State.RUNNING, timeout_s=START_S)
    began = time.monotonic()
    cluster.verbs.stop(name)
    cluster.wait_for(name, State.STOPPED, timeout_s=30)
    assert time.monotonic() - began < 20


def test_a_connector_that_does_not_divide_its_work_says_so(
    cluster: ThreadCluster, unruly: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_module, "SLOW_S", 2.0)
    monkeypatch.setattr(java_connectors, "SLOW_S", 2.0)
    name = unruly("taskConfigs", "hangs")
    traced(cluster, name, connector_status, State.RUNNING, "has not returned its task configs")


@pytest.mark.parametrize("how", ["closes its outputs", "floods"])
def test_a_task_that_closes_or_floods_its_outputs_goes_on(
    cluster: ThreadCluster,
    broker: BrokerAddress,
    unruly: Callable[[str, str], str],
    how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    name = unruly("task.poll", how)
    wait_until(
        lambda: len(read_to_end(broker.bootstrap_servers, name)) > 20,
        what="its records",
        timeout_s=START_S,
    )
    if how == "floods":
        wait_until(lambda: "were left out in a second" in caplog.text, what="the count")
    assert len([a for a in cluster.launcher.launches if a.id.connector == name]) == 1


def test_the_end_of_a_transaction_that_is_answered_late_ends_nothing(
    tmp_path: Path, plugin_path: Path
) -> None:
    """By one producer, nothing is lost or repeated: whoever takes a task for dead that waits makes
    a second one."""
    with own_broker(tmp_path / "broker") as own:
        (way, _) = own.ways
        kafka = f"{LOOPBACK}:{way.port}"
        with java_cluster(kafka, f"late-{os.getpid()}", plugin_path) as cluster:
            sibling = Sibling(cluster, BrokerAddress(own.kafka, ""), "late")
            sibling.moves_on()
            began = time.monotonic()
            with way.late_ends(30.0):
                before = len(sibling.records())
                wait_until(
                    lambda: len(sibling.records()) > before, what="the next end", timeout_s=60
                )
            sibling.moves_on()
            assert time.monotonic() - began > 25
            sibling.check()
            cluster.verbs.delete("late")
