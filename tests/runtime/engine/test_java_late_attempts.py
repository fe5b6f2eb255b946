"""Attempts at a task of a Java source that are late: their successor runs when they go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields
from connect_runtime.herder.runs import RunPhase
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.tasks import java_task
from connect_runtime.tasks.control.assignments import AssignmentFollower, DesiredTaskState
from connect_specs.desired import TargetState
from support.broker import BrokerAddress, read_to_end
from support.java_plugins import COUNTING, add_compiled, java_catalog
from support.launcher import BlindLauncher
from support.processes import process
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

START_S = 180


@pytest.fixture(scope="module")
def cluster(
    broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadCluster]:
    plugin_path = tmp_path_factory.mktemp("built") / "plugins"
    add_compiled("Counting", COUNTING, plugin_path)
    settings = {
        "plugin.path": str(plugin_path),
        "task.shutdown.graceful.timeout.ms": "1000",
        # whose processes live on
        "java.tasks.jvm": "own",
    }
    group = f"late-{os.getpid()}"
    worker = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
    }
    with (
        java_catalog(worker | settings),
        thread_cluster(
            broker.bootstrap_servers, group, settings, launcher=BlindLauncher()
        ) as cluster,
    ):
        yield cluster


class Held:
    """The first attempt at a task, whose process sees nothing of its assignment: only its JVM can
    end it, and asks once it goes on. `jvms` are those of all attempts, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.waits = threading.Event()
        self.over = threading.Event()
        self.jvms: list[PluginJvm] = []
        self._answers = 0
        self._last = 0
        held = self

        class Noted(PluginJvm):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, **more)
                held.jvms.append(self)

        class Blind(AssignmentFollower):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                self._is_first = not held.jvms

            def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
                if not self._is_first or held.over.is_set():
                    return super().desired(wait_s)
                held.over.wait(wait_s)
                return DesiredTaskState.RUN

        monkeypatch.setattr(java_task, "PluginJvm", Noted)
        monkeypatch.setattr(java_task, "AssignmentFollower", Blind)
        self._is_newest = java_task._JavaTask._is_newest
        monkeypatch.setattr(
            java_task._JavaTask, "_is_newest", lambda task, fields: held._answer(task, fields)
        )

    def before_answer(self, number: int) -> None:
        """Holds the answer to this question, if it has its task: the first one comes before it
        makes its producer, the second one after that."""
        self._last = number

    def _answer(self, task: java_task._JavaTask, fields: Fields) -> bool:
        answer = self._is_newest(task, fields)
        if len(self.jvms) == 1:
            self._answers += 1
            if self._answers == self._last:
                self.waits.set()
                assert self.goes_on.wait(START_S)
        return answer


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held(monkeypatch)
    yield held
    held.goes_on.set()
    held.over.set()


def numbers(broker: BrokerAddress, topic: str) -> list[int]:
    return [int(record.value() or b"") for record in read_to_end(broker.bootstrap_servers, topic)]


def attempts(cluster: ThreadCluster, name: str) -> int:
    return len([a for a in cluster.launcher.launches if a.id.connector == name])


@pytest.mark.parametrize("where", ["before its producer", "before its start", "while it writes"])
def test_a_late_attempt_doubles_and_loses_nothing_and_its_successor_has_not_failed(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str, held: Held, where: str
) -> None:
    """The first two have been answered that they have the task, and do not look again before they
    make a producer or start; the third one is frozen, and goes on after its transaction was
    fenced."""
    held.before_answer({"before its producer": 1, "before its start": 2}.get(where, 0))
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    if where == "while it writes":
        wait_until(lambda: len(numbers(broker, unique)) > 50, what="records", timeout_s=START_S)
        os.kill(held.jvms[0].pid, signal.SIGSTOP)
    else:
        assert held.waits.wait(START_S)
    late = held.jvms[0]
    before = len(numbers(broker, unique)) if where == "while it writes" else 0
    cluster.verbs.restart_task(unique, 0)
    wait_until(
        lambda: len(numbers(broker, unique)) > before + 50,
        what="records of its successor",
        timeout_s=START_S,
    )
    assert process(late.pid) is not None, "it is no late attempt"
    held.goes_on.set()
    os.kill(late.pid, signal.SIGCONT)
    wait_until(lambda: process(late.pid) is None, what="its JVM to end", timeout_s=START_S)
    wait_until(lambda: len(cluster.launcher.running) == 1, what="it to end", timeout_s=START_S)
    before = len(numbers(broker, unique))
    wait_until(
        lambda: len(numbers(broker, unique)) > before + 50,
        what="records after it",
        timeout_s=START_S,
    )
    # who made a producer late has fenced its successor, which starts again
    assert attempts(cluster, unique) == (3 if where == "before its producer" else 2)
    run = cluster.connect.herder.view.runs[TaskId(unique, 0)]
    assert (run.phase, run.failures) == (RunPhase.LAUNCHED, 0)
    status = cluster.connect.herder.view.status.tasks[TaskId(unique, 0)]
    assert status.state is State.RUNNING
    cluster.verbs.delete(unique)
    wait_until(lambda: not cluster.launcher.running, what="its end", timeout_s=START_S)
    records = numbers(broker, unique)
    assert records == list(range(1, len(records) + 1))
