"""What the reading verbs make of a view."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.herder import reads
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.herder import Herder
from connect_runtime.herder.offset_changes import ConnectorOffsets
from connect_runtime.herder.view import View
from connect_runtime.rest.connectors import Connectors
from connect_runtime.rest.exchange import Call
from connect_runtime.settings.topic_tracking import TopicTracking
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_specs.names import ClusterTopics

RUNNING = Status(State.RUNNING, "w:1", 1)


class CountedTasks(dict[TaskId, Status]):
    """Counts how often all tasks are looked at."""

    looks = 0

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()


def view_of(connectors: int, tasks: int) -> View:
    names = [f"c{number:04}" for number in range(connectors)]
    found = CountedTasks(
        {TaskId(name, number): RUNNING for name in names for number in reversed(range(tasks))}
    )
    return View(status=StatusSnapshot(dict.fromkeys(names, RUNNING), found))


def test_all_statuses_look_at_all_tasks_once() -> None:
    view = view_of(300, 12)
    for name in view.status.connectors:
        assert list(reads.status(view, name, lambda _: "source").tasks) == list(range(12))
    assert isinstance(view.status.tasks, CountedTasks)
    assert view.status.tasks.looks == 1


def test_expanding_all_connectors_looks_at_all_tasks_once() -> None:
    """`GET /connectors?expand=status&expand=info`: each connector costs what it has itself."""
    view = view_of(1000, 2)
    configs = {
        name: ConnectorState(name, {"connector.class": "C"}, task_configs=({}, {}))
        for name in view.status.connectors
    }
    cluster = SimpleNamespace(view=replace(view, config=ConfigSnapshot(connectors=configs)))
    verbs = ConnectCluster(
        cast(Herder, cluster),
        ClusterTopics.of("g"),
        cast(ConnectorOffsets, None),
        check=lambda name, config: None,
        leader=lambda: None,
        problem=lambda: None,
        tracking=TopicTracking.of({}),
        offsets_problem=lambda: None,
    )
    call = Call(query=[("expand", "status"), ("expand", "info")])
    found = Connectors(lambda: verbs).all(call).json
    assert len(found) == 1000
    assert [each["id"] for each in found["c0999"]["status"]["tasks"]] == [0, 1]
    assert len(found["c0999"]["info"]["tasks"]) == 2
    assert isinstance(view.status.tasks, CountedTasks)
    assert view.status.tasks.looks == 1


def test_the_newest_snapshot_counts() -> None:
    assert len(reads.status(view_of(1, 2), "c0000", str).tasks) == 2
    assert len(reads.status(view_of(1, 3), "c0000", str).tasks) == 3
    with pytest.raises(RequestError, match="No status found for connector c0001"):
        reads.status(view_of(1, 3), "c0001", str)
