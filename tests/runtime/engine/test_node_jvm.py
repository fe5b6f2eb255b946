"""Java tasks that share the JVM of their node: what one of them does to the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import TargetState
from support.broker import BrokerAddress
from support.java_cluster import START_S, Sibling, attempts, java_cluster
from support.java_plugins import COUNTING, SOURCE, add_compiled, engine_jvms
from support.thread_cluster import ThreadCluster
from support.wait import wait_until

pytestmark = pytest.mark.long

Create = Callable[..., str]


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "plugins"
    add_compiled("Counting", COUNTING, folder)
    add_compiled("Unruly", {SOURCE: "tests.Unruly\ntests.Unruly$Slow"}, folder)
    return folder


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

    wait_until(lambda: "was alone in this JVM" in trace(), what="its name", timeout_s=START_S)
    assert "exit code 7" in trace()
    assert f"Task 0 of {name}" in trace()
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
