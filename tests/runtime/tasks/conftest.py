"""A Connect cluster as tasks see it: its topics, with assignments that the test writes itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.storage.assignments_topic import assignment_record
from connect_runtime.storage.snapshots import Assignment, TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.tasks.run import run_task
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.desired import TargetState
from connect_specs.names import ClusterTopics
from support.agent import ensure_agent
from support.broker import BrokerAddress, create_topic, create_topics, produce, read_to_end
from support.guarded_broker import GuardedBroker
from support.task_setups import task_launch
from support.wait import wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(slots=True)
class Running:
    """An attempt in a thread of its own."""

    cluster: Cluster
    task: TaskId
    thread: threading.Thread
    orphan: threading.Event
    outcomes: list[Outcome] = field(default_factory=list)

    def outcome(self) -> Outcome:
        self.thread.join(30)
        assert self.outcomes, "the attempt has not ended"
        return self.outcomes[0]

    def stop(self) -> None:
        """Stops the task as the leader would, and expects it to have ended as requested."""
        self.cluster.assign(self.task, None)
        assert self.outcome().ended is AttemptEnd.STOPPED


class Cluster:
    """Topics of one Connect cluster, named after the test."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name
        self.topics = ClusterTopics.of(name)
        self.data = f"{name}-data"
        self.worker = {
            "bootstrap.servers": bootstrap_servers,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.flush.interval.ms": "60000",
        }
        self._running: list[Running] = []
        ensure_agent()
        topics = self.topics
        create_topics(
            bootstrap_servers, {topics.offsets: 3, topics.status: 2, topics.assignments: 1}
        )

    def assign(self, task: TaskId, attempt: int | None, state: str = "running") -> None:
        """Writes an assignment as the leader would; attempt None is a stop."""
        wanted = None
        if attempt is not None:
            wanted = Assignment(attempt, "test", TargetState(state), 0)
        record = assignment_record(self.topics.assignments, task, wanted)
        produce(self.bootstrap_servers, record.topic, [(record.key, record.value)])

    def launch(self, task: TaskId, config: Mapping[str, str], attempt: int = 1) -> TaskLaunch:
        return task_launch(
            task.connector,
            task=task.task,
            attempt=attempt,
            leader_term=7,
            group_id=self.name,
            config=config,
            worker=self.worker,
        )

    def setup(self, task: TaskId, config: Mapping[str, str]) -> TaskSetup:
        return TaskSetup(self.launch(task, config))

    def run(self, launch: TaskLaunch) -> Running:
        """Starts the attempt in a thread."""
        orphan = threading.Event()
        running = Running(self, launch.id, threading.Thread(daemon=True), orphan)
        running.thread = threading.Thread(
            target=lambda: running.outcomes.append(run_task(launch, orphan.is_set)), daemon=True
        )
        running.thread.start()
        self._running.append(running)
        return running

    def values(self, topic: str | None = None) -> list[str]:
        """Committed values of a topic, the test's data by default."""
        found = read_to_end(self.bootstrap_servers, topic or self.data)
        return [m.value().decode() for m in found]

    def newest(self, topic: str) -> dict[str, Any]:
        """Committed records by key, the newest of each, without tombstones."""
        found = read_to_end(self.bootstrap_servers, topic)
        newest = {m.key().decode(): m.value() for m in found}
        return {k: orjson.loads(v) for k, v in newest.items() if v is not None}

    def status(self, task: TaskId) -> dict[str, Any]:
        found: dict[str, Any] = self.newest(self.topics.status).get(f"status-task-{task}", {})
        return found

    def wait_for_state(self, task: TaskId, state: str) -> dict[str, Any]:
        def reached() -> dict[str, Any]:
            status = self.status(task)
            return status if status.get("state") == state else {}

        return wait_until(reached, what=f"{task} to be {state}")

    def close(self) -> None:
        for running in self._running:
            running.orphan.set()
        for running in self._running:
            running.thread.join(15)
            assert not running.thread.is_alive()


@pytest.fixture
def cluster(broker: BrokerAddress, unique: str) -> Iterator[Cluster]:
    """A cluster of the test's own; attempts that still run are orphaned at the end."""
    made = Cluster(broker.bootstrap_servers, unique)
    yield made
    made.close()


@pytest.fixture
def guarded_cluster(guarded: GuardedBroker, unique: str) -> Iterator[Cluster]:
    """The same on a Kafka with an authorizer; the runtime itself may do everything."""
    made = Cluster(guarded.open["bootstrap.servers"], unique)
    yield made
    made.close()


@pytest.fixture
def topic(cluster: Cluster) -> Callable[[int], str]:
    """Makes the test's data topic with so many partitions."""

    def make(partitions: int) -> str:
        create_topic(cluster.bootstrap_servers, cluster.data, partitions=partitions)
        return cluster.data

    return make


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, unique: str) -> Callable[[type[Any]], str]:
    """Makes a task class of the test known; returns its `task.class`."""

    def make(cls: type[Any]) -> str:
        module = unique.replace("-", "_")
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(Task=cls))  # type: ignore[arg-type]
        allow_modules({PLUGIN_MODULES: module})
        return f"{module}:Task"

    return make


@pytest.fixture
def make_cluster() -> type[Cluster]:
    """For a Kafka of the test's own."""
    return Cluster
