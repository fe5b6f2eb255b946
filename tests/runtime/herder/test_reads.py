"""What the reading verbs make of a view."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.herder import requests
from connect_runtime.herder.runs import ConnectorFailure, RunPhase
from connect_runtime.herder.verbs import RequestError
from connect_runtime.herder.view import View
from connect_runtime.plugins.definitions import ConnectorTypes
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.rest.exchange import Call
from connect_runtime.rest.resources import ConnectorResources
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_runtime.waiting import WouldWait
from support.connectors import SOURCE
from support.memory_cluster import MemoryCluster
from support.wait import wait_until

RUNNING = Status(State.RUNNING, "w:1", 1)


class CountedTasks(dict[TaskId, Status]):
    """Counts how often all tasks are looked at."""

    looks = 0

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()


def test_a_worker_that_lost_its_leader_is_unhealthy_and_not_starting() -> None:
    """As Kafka's clients see it while Kafka is away."""
    cluster = MemoryCluster()
    runtime = cluster.runtime()
    assert not runtime.verbs.ready()
    cluster.ballot.elect(runtime.candidate)
    runtime.tick()
    assert runtime.verbs.ready() and runtime.verbs.problem() is None
    cluster.ballot.elect(cluster.ballot.candidate())
    runtime.tick()
    assert runtime.verbs.ready()
    problem = runtime.verbs.problem()
    assert problem is not None and "No worker leads" in problem


def test_a_worker_that_led_is_not_starting_though_nobody_asked() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    cluster.ballot.elect(cluster.ballot.candidate())
    runtime.tick()
    assert runtime.verbs.ready()


def view_of(connectors: int, tasks: int) -> View:
    names = [f"c{number:04}" for number in range(connectors)]
    found = CountedTasks(
        {TaskId(name, number): RUNNING for name in names for number in reversed(range(tasks))}
    )
    return View(status=StatusSnapshot(dict.fromkeys(names, RUNNING), found))


def test_all_statuses_look_at_all_tasks_once() -> None:
    view = view_of(300, 12)
    for name in view.status.connectors:
        assert list(requests.status(view, name, lambda _: "source").tasks) == list(range(12))
    assert isinstance(view.status.tasks, CountedTasks)
    assert view.status.tasks.looks == 1


def test_expanding_all_connectors_looks_at_all_tasks_once() -> None:
    """`GET /connectors?expand=status&expand=info`: each connector costs what it has itself."""
    view = view_of(1000, 2)
    configs = {
        name: ConnectorState(name, {"connector.class": "C"}, task_configs=({}, {}))
        for name in view.status.connectors
    }
    verbs = MemoryCluster().runtime().verbs
    verbs.herder.view = replace(view, config=ConfigSnapshot(connectors=configs))
    call = Call(query=[("expand", "status"), ("expand", "info")])
    found = ConnectorResources(lambda: verbs).all(call).json
    assert len(found) == 1000
    assert [each["id"] for each in found["c0999"]["status"]["tasks"]] == [0, 1]
    assert len(found["c0999"]["info"]["tasks"]) == 2
    assert isinstance(view.status.tasks, CountedTasks)
    assert view.status.tasks.looks == 1


def test_the_newest_snapshot_counts() -> None:
    assert len(requests.status(view_of(1, 2), "c0000", str).tasks) == 2
    assert len(requests.status(view_of(1, 3), "c0000", str).tasks) == 3
    with pytest.raises(RequestError, match="No status found for connector c0001"):
        requests.status(view_of(1, 3), "c0001", str)


def test_a_class_that_hangs_or_exits_when_it_is_imported_holds_up_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    begun = tmp_path / "begun"
    (tmp_path / "hanging_plugin.py").write_text(
        f"import pathlib, threading\npathlib.Path({str(begun)!r}).touch()\n"
        "threading.Event().wait()\n"
    )
    (tmp_path / "exiting_plugin.py").write_text("import sys\nsys.exit('no licence')\n")
    (tmp_path / "interrupting_plugin.py").write_text("raise KeyboardInterrupt\n")
    allow_modules({PLUGIN_MODULES: "hanging_plugin, exiting_plugin, interrupting_plugin"})
    kinds = ConnectorTypes(wait_s=0.2)
    assert kinds.of("exiting_plugin.Source") == "unknown"
    assert kinds.of("interrupting_plugin.Source") == "unknown"
    assert kinds.of("hanging_plugin.Source") == "unknown"
    wait_until(begun.exists, what="the import to hang")
    for _ in range(1_000):
        assert kinds.of("hanging_plugin.Source") == "unknown"

    async def asked_on_a_loop() -> str:
        return ConnectorTypes(wait_s=60).of("hanging_plugin.Source")

    with pytest.raises(WouldWait):
        asyncio.run(asked_on_a_loop())
    assert kinds.of("FileStreamSource") == "source"
    assert kinds.of("org.apache.kafka.connect.file.FileStreamSinkConnector") == "sink"


def test_a_class_that_could_not_be_used_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = tmp_path / "late_plugin.py"
    module.write_text("raise RuntimeError('no licence yet')\n")
    allow_modules({PLUGIN_MODULES: "late_plugin"})
    kinds = ConnectorTypes(wait_s=0.1)
    assert kinds.of("late_plugin.Source") == "unknown"
    module.write_text("from support.connectors import ObedientSource as Source\n")
    wait_until(lambda: kinds.of("late_plugin.Source") == "source", what="the class")


def test_a_class_is_asked_again_after_there_was_no_thread_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = ConnectorTypes(wait_s=0.0)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            kinds.of("FileStreamSource")
    wait_until(lambda: kinds.of("FileStreamSource") == "source", what="the class")


def test_no_class_is_looked_for_on_the_herders_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import may hang, and would hold up the requests of all connectors."""
    cluster = MemoryCluster()
    runtime = cluster.leader()
    runtime.verbs.create("c", {"name": "c", "connector.class": SOURCE}, None)
    cluster.settle()
    on_thread = False
    run = runtime.herder.run_on_thread

    def noted(what: Callable[[], object]) -> object:
        nonlocal on_thread
        on_thread = True
        try:
            return run(what)
        finally:
            on_thread = False

    def of(_: str) -> str:
        assert not on_thread
        return "source"

    monkeypatch.setattr(runtime.herder, "run_on_thread", noted)
    monkeypatch.setattr(runtime.verbs._kinds, "of", of)
    for asked in (
        lambda: runtime.verbs.restart("c", include_tasks=True),
        lambda: runtime.verbs.put_config("c", {"name": "c", "connector.class": SOURCE})[0],
    ):
        assert asked().type == "source"


def test_a_runtime_does_not_say_that_it_leads_once_another_one_is_elected() -> None:
    """Its herder may wait for Kafka, and not know it yet."""
    cluster = MemoryCluster()
    first, second = cluster.leader(), cluster.runtime()
    assert first.verbs.runtime().leading
    cluster.ballot.elect(second.candidate)
    assert not first.verbs.runtime().leading


def test_a_lost_task_that_finds_no_slot_is_one_that_waits() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    config = {"name": "c", "connector.class": SOURCE, "tasks.max": "1"}
    runtime.verbs.create("c", config, None)
    cluster.settle()
    task, view = TaskId("c", 0), runtime.herder.view
    assert runtime.verbs.runtime().waiting == ()
    unassigned = replace(view.status, tasks={task: replace(RUNNING, state=State.UNASSIGNED)})
    lost = replace(view.runs[task], phase=RunPhase.ENDED)
    runtime.herder.view = replace(view, status=unassigned, runs={task: lost})
    assert runtime.verbs.runtime().waiting == (task,)
    soon = replace(lost, deadline=cluster.clock() + 1)
    runtime.herder.view = replace(runtime.herder.view, runs={task: soon})
    assert runtime.verbs.runtime().waiting == (), "it pauses, and then has a slot"
    failed = ConnectorFailure("boom", view.config.connectors["c"])
    runtime.herder.view = replace(view, status=unassigned, runs={}, failures={"c": failed})
    assert runtime.verbs.runtime().waiting == (), "it waits for its connector"
