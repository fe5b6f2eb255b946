"""Java plugins that hang, exit, take all memory or flood: what becomes of them and of a sibling."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.engine import java_connectors, jvm_connection, jvm_on_demand
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.java_connectors import JavaConnectors
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.herder import offset_changes
from connect_runtime.herder.instances import PluginCalls
from connect_runtime.herder.runs import Event, InstanceFailed
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.rest.plugin_resources import keys_json
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_runtime.tasks import java_task
from connect_runtime.validation.java_infos import validate_java
from connect_specs.desired import OffsetEntry, TargetState
from support.broker import BrokerAddress, read_to_end
from support.java_cluster import START_S, Sibling, add_unruly, attempts, java_cluster
from support.own_broker import own_broker
from support.processes import process
from support.thread_cluster import ThreadCluster
from support.wait import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_unruly(tmp_path_factory.mktemp("built") / "plugins")


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress, plugin_path: Path) -> Iterator[ThreadCluster]:
    own = {"java.tasks.jvm": "own"}
    group = f"faults-{os.getpid()}"
    with java_cluster(broker.bootstrap_servers, group, plugin_path, **own) as cluster:
        yield cluster


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


@pytest.fixture
def jvms(monkeypatch: pytest.MonkeyPatch) -> list[PluginJvm]:
    """Those of attempts at tasks."""
    jvms: list[PluginJvm] = []

    class Noted(PluginJvm):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            jvms.append(self)

    monkeypatch.setattr(java_task, "PluginJvm", Noted)
    return jvms


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


def test_a_connector_that_fails_as_another_ends_its_jvm_starts_again(
    cluster: ThreadCluster, unruly: Callable[[str, str], str], tmp_path: Path
) -> None:
    once = tmp_path / "once"
    name = unruly("start", f"fails as its JVM ends, once: {once}")
    wait_until(once.exists, what="the start of the first", timeout_s=START_S)
    culprit = unruly("start", "exits")
    traced(cluster, culprit, connector_status, State.FAILED, "exit code 7")
    cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)


@pytest.mark.parametrize(
    ("how", "state", "trace"),
    [
        ("exits", State.UNASSIGNED, "exit code 7"),
        ("exits, and a hook hangs", State.UNASSIGNED, "exit code 105 (its shutdown hooks did not"),
        ("exits, and a hook hangs and interrupts", State.UNASSIGNED, "exit code 105 (its shutdown"),
        ("takes the heap", State.UNASSIGNED, "exit code 3 (out of memory)"),
        ("leaves a process", State.UNASSIGNED, "exit code 7"),
        ("interrupts itself", State.UNASSIGNED, "has ended by itself"),
        ("takes direct memory", State.FAILED, "OutOfMemoryError: Cannot reserve"),
        ("takes threads", State.FAILED, "unable to create native thread"),
        ("throws what cannot be shown", State.FAILED, "Unshown"),
    ],
)
def test_a_task_that_ends_its_jvm_starts_again_and_one_that_throws_has_failed(
    cluster: ThreadCluster,
    unruly: Callable[[str, str], str],
    jvms: list[PluginJvm],
    how: str,
    state: State,
    trace: str,
) -> None:
    """Either has another JVM then, as the first one may lack memory or threads."""
    name = unruly("task.poll", how)
    traced(cluster, name, task_status, state, trace)
    if state is State.FAILED:
        assert attempts(cluster, name) == 1
        wait_until(lambda: process(jvms[0].pid) is None, what="its JVM to end", timeout_s=30)
        cluster.verbs.restart_task(name, 0)
    wait_until(lambda: attempts(cluster, name) > 1, what="another attempt", timeout_s=START_S)
    wait_until(lambda: len(jvms) > 1, what="its JVM", timeout_s=START_S)
    assert process(jvms[0].pid) is None


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
    cluster: ThreadCluster,
    unruly: Callable[[str, str], str],
    jvms: list[PluginJvm],
    where: str,
    how: str,
) -> None:
    name = unruly(where, how)
    has_task = where.startswith("task.")
    if has_task:
        wait_until(lambda: jvms, what="its JVM", timeout_s=START_S)
    if has_task and where != "task.start":
        cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    other = unruly("nowhere", "")
    cluster.wait_for(other, State.RUNNING, State.RUNNING, timeout_s=START_S)
    began = time.monotonic()
    cluster.verbs.stop(name)
    cluster.wait_for(name, State.STOPPED, timeout_s=30)
    assert time.monotonic() - began < 20
    if has_task:
        wait_until(lambda: process(jvms[0].pid) is None, what="its JVM to end", timeout_s=30)


def test_a_connector_that_does_not_divide_its_work_says_so(
    cluster: ThreadCluster, unruly: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_connection, "SLOW_S", 2.0)
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
        wait_until(lambda: "of a second were left out" in caplog.text, what="the count")
    assert attempts(cluster, name) == 1


def test_a_connector_that_is_stopped_before_it_is_made_is_not_made(
    cluster: ThreadCluster, plugin_path: Path
) -> None:
    """Such as one whose config provider hangs: nothing would stop it any more."""
    hold, asked, started = (plugin_path / "unruly" / name for name in ("hold", "asked", "started"))
    events: list[Event] = []
    worker = cluster.connect._settings.properties
    connectors = JavaConnectors(events.append, worker, "w", PluginCalls(), lambda config, keys: [])

    def start(name: str, serial: int, class_name: str) -> None:
        config = {"name": name, "connector.class": class_name, "topic": name, "tasks.max": "1"}
        connectors.start(name, serial, config)
        wait_until(lambda: any(e.name == name for e in events), what=name, timeout_s=START_S)

    try:
        start("first", 1, "Counting")
        hold.touch()
        connectors._call_s = 2.0
        start("slow", 2, "tests.Unruly$Slow")
        assert isinstance(events[-1], InstanceFailed)
        assert asked.exists()
        connectors.stop("slow", 2)
        hold.unlink()
        connectors._call_s = START_S
        start("last", 3, "Counting")
        assert not started.exists()
    finally:
        hold.unlink(missing_ok=True)
        connectors.close(5.0)


def validated(config: Mapping[str, str]) -> str:
    """The refusal of a config; nothing if it is valid."""
    catalog = used_catalog()
    assert catalog is not None
    try:
        return "\n".join(validate_java(config).errors)
    except RequestError as error:
        return f"{error.status}: {error.message}"


@pytest.mark.parametrize(
    ("how", "answer"),
    [
        ("hangs", "500: Request timed out"),
        ("loops", "500: Request timed out"),
        ("exits", "500: The JVM ended with exit code 7"),
        ("takes the heap", "500: The JVM ended with exit code 3 (out of memory)"),
    ],
)
def test_a_validation_that_does_not_return_is_refused_and_others_are_answered(
    cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, how: str, answer: str
) -> None:
    """Within Apache's 90 s, which are fewer here."""
    good = {"name": "good", "connector.class": "Counting", "topic": "t", "tasks.max": "1"}
    bad = {"name": "bad", "connector.class": "Unruly", "topic": "t", "how": how}
    assert validated(good) == ""
    catalog = used_catalog()
    assert catalog is not None
    hung = catalog._jvm._jvm.get()
    if answer.endswith("timed out"):
        monkeypatch.setattr(jvm_on_demand, "SLOW_S", 8.0)
    with ThreadPoolExecutor(4) as pool:
        began = time.monotonic()
        refused = pool.submit(validated, {**bad, "where": "validate"})
        others = [pool.submit(validated, good) for _ in range(3)]
        assert [other.result(START_S) for other in others] == [""] * 3
        assert refused.result(START_S).startswith(answer)
        if answer.endswith("timed out"):
            assert 8 <= time.monotonic() - began < 16
    wait_until(lambda: process(hung.pid) is None, what="its JVM to end", timeout_s=60)
    monkeypatch.setattr(jvm_on_demand, "SLOW_S", START_S)
    assert validated(good) == ""


def test_keys_that_are_not_returned_are_refused_and_others_are_answered(
    cluster: ThreadCluster, plugin_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"name": "good", "connector.class": "Counting", "topic": "t", "tasks.max": "1"}
    hold = plugin_path / "unruly" / "hold"
    assert validated(good) == ""
    hold.touch()
    monkeypatch.setattr(jvm_on_demand, "SLOW_S", 8.0)
    try:
        with ThreadPoolExecutor(1) as pool:
            keys = pool.submit(keys_json, "tests.Unruly$Slow")
            assert validated(good) == ""
            with pytest.raises(RequestError, match="Request timed out") as refused:
                keys.result(START_S)
            assert refused.value.status == 500
    finally:
        hold.unlink()
    monkeypatch.setattr(jvm_on_demand, "SLOW_S", START_S)
    assert any(key["name"] == "topic" for key in keys_json("tests.Unruly$Slow"))


def test_offsets_whose_change_is_not_answered_are_as_they_were(
    cluster: ThreadCluster,
    sibling: Sibling,
    unruly: Callable[[str, str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = unruly("alterOffsets", "hangs")
    cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
    wait_until(lambda: cluster.verbs.offsets(name), what="offsets", timeout_s=START_S)
    cluster.stop_connector(name)
    before = cluster.verbs.offsets(name)
    monkeypatch.setattr(jvm_on_demand, "SLOW_S", 8.0)
    monkeypatch.setattr(offset_changes, "_HOOK_S", 8)
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(cluster.verbs.alter_offsets, name, [OffsetEntry({}, {"count": 7})])
        sibling.moves_on()
        with pytest.raises(RequestError, match=r"alterOffsets of connector .* has not returned"):
            change.result(START_S)
    assert cluster.verbs.offsets(name) == before
    cluster.verbs.resume(name)
    cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)


def test_a_connector_that_hangs_for_longer_than_a_call_may_take_has_failed(
    broker: BrokerAddress, plugin_path: Path, unique: str
) -> None:
    timeout = {"java.call.timeout.ms": "20000"}
    traces = {
        "start": "The connector did not start in time",
        "taskConfigs": "has not returned its task configs in 20 s",
    }
    kafka, group = broker.bootstrap_servers, f"slow-{os.getpid()}"
    with java_cluster(kafka, group, plugin_path, **timeout) as cluster:
        for where in traces:
            config = {"connector.class": "Unruly", "topic": unique, "where": where, "how": "hangs"}
            cluster.verbs.create(where, {"name": where, **config}, TargetState.RUNNING)
        for where, trace in traces.items():
            traced(cluster, where, connector_status, State.FAILED, trace)


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


def test_the_open_transaction_of_a_task_that_died_holds_no_other_start_up(
    tmp_path: Path, plugin_path: Path, jvms: list[PluginJvm]
) -> None:
    """Kafka would end it after a minute only, and hides the offsets of all until then."""
    with own_broker(tmp_path / "broker") as own:
        way = own.ways[0]
        kafka = f"{LOOPBACK}:{way.port}"
        own_jvms = {"java.tasks.jvm": "own"}
        with java_cluster(kafka, f"open-{os.getpid()}", plugin_path, **own_jvms) as cluster:
            sibling = Sibling(cluster, BrokerAddress(own.kafka, ""), "died")
            sibling.moves_on()
            with way.kept_ends("-died-0") as kept:
                assert kept.wait(60)
                jvms[0].end()
            began = time.monotonic()
            other = Sibling(cluster, BrokerAddress(own.kafka, ""), "other")
            wait_until(other.records, what="its records", timeout_s=START_S)
            assert time.monotonic() - began < 45
            sibling.moves_on()
            assert attempts(cluster, "died") == 2
            for each in (sibling, other):
                records = each.records()
                assert records == list(range(1, len(records) + 1))
                cluster.verbs.delete(each.name)
