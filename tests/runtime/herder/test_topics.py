"""Which topics connectors use: what the leader shows and forgets (KIP-558)."""

from __future__ import annotations

from collections import Counter

import pytest

from connect_runtime.herder.verbs import RequestError
from connect_runtime.storage import status_topic
from connect_runtime.storage.snapshots import TaskId
from connect_specs.desired import TargetState
from support.connectors import SINK
from support.memory_cluster import TOPICS, MemoryCluster, MemoryRuntime

CONFIG = {"name": "c", "connector.class": SINK, "tasks.max": "2", "tasks": "2", "topics": "t"}


def used(cluster: MemoryCluster, runtime: MemoryRuntime, *topics: str, by: str = "c") -> None:
    """The tasks record that they use these topics."""
    cluster.logs.writer("tasks").write(
        [
            status_topic.topic_in_use_record(TOPICS.status, topic, by, task=0, discovered_ms=1)
            for topic in topics
        ]
    )
    runtime.tick()


def assigned(cluster: MemoryCluster) -> Counter[str]:
    """How many assignments each task has had."""
    return Counter(key for key, _ in cluster.written(TOPICS.assignments))


def test_topics_are_listed_until_they_are_reset() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    runtime.verbs.create("c", CONFIG, None)
    cluster.settle()
    used(cluster, runtime, "b", "a")
    used(cluster, runtime, "x", by="other")
    assert runtime.verbs.topics("c") == ["a", "b"]

    runtime.verbs.reset_topics("c")
    assert (runtime.verbs.topics("c"), runtime.verbs.topics("other")) == ([], ["x"])
    runtime.verbs.reset_topics("c")
    runtime.verbs.reset_topics("no-such")


def test_running_tasks_are_told_that_their_topics_were_forgotten() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    runtime.verbs.create("c", CONFIG, None)
    cluster.settle()
    runtime.verbs.pause("c")
    cluster.settle()
    before, attempts = assigned(cluster), list(cluster.attempts)
    runtime.verbs.reset_topics("c")
    assert assigned(cluster) - before == {"c-0": 1, "c-1": 1}
    assert cluster.assignments.tasks[TaskId("c", 0)].state is TargetState.PAUSED
    cluster.settle()
    assert cluster.attempts == attempts


@pytest.mark.parametrize(
    ("worker", "listed", "reset"),
    [
        (
            {"topic.tracking.enable": "false"},
            "Topic tracking is disabled.",
            "Topic tracking is disabled.",
        ),
        ({"topic.tracking.allow.reset": "false"}, None, "Topic tracking reset is disabled."),
        ({"topic.tracking.allow.reset": "TRUE"}, None, None),
    ],
)
def test_tracking_and_resets_can_be_forbidden(
    worker: dict[str, str], listed: str | None, reset: str | None
) -> None:
    verbs = MemoryCluster(worker=worker).leader().verbs
    for call, expected in ((verbs.topics, listed), (verbs.reset_topics, reset)):
        if expected is None:
            call("c")
            continue
        with pytest.raises(RequestError) as refused:
            call("c")
        assert (refused.value.status, refused.value.message) == (403, expected)
