"""What a leader tries again by itself: it waits in between, and neither decides nor writes then."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from connect_runtime.herder import herder as herder_module
from connect_runtime.herder.effects import Effect
from connect_runtime.herder.view import View
from connect_runtime.storage.snapshots import State
from support.connectors import SOURCE
from support.memory_cluster import GROUP_ID, MemoryCluster, MemoryRuntime
from support.misbehaving import RefusingLogs, silent


def source(**more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": SOURCE, "tasks.max": "3", "tasks": "2", **more}


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the leader decided."""
    times: list[float] = []
    decide = herder_module.decide

    def noted(view: View, now: float, names: Collection[str] | None) -> Sequence[Effect]:
        times.append(now)
        return decide(view, now, names)

    monkeypatch.setattr(herder_module, "decide", noted)
    return times


def running(**worker: str) -> tuple[MemoryCluster, RefusingLogs, MemoryRuntime]:
    logs = RefusingLogs()
    cluster = MemoryCluster(logs, worker=worker)
    runtime = cluster.running(source())
    return cluster, logs, runtime


def test_a_successor_that_waits_is_looked_at_now_and_then(decided: list[float]) -> None:
    cluster, _, runtime = running(**{"exactly.once.source.support": "disabled"})
    runtime.launcher.live[0].hung = True
    runtime.verbs.put_config("c", source(note="x"))
    cluster.pass_time(40)
    decided.clear()
    cluster.pass_time(60)
    assert 12 <= len(decided) <= 60


def test_what_is_left_of_a_deleted_connector_ends_when_kafka_takes_the_records(
    decided: list[float],
) -> None:
    cluster, logs, runtime = running()
    logs.refuses = lambda record: record.key.startswith(b"c-")
    runtime.verbs.delete("c")
    decided.clear()
    cluster.pass_time(200)
    assert len(decided) < 60
    assert len(runtime.launcher.live) == 2
    logs.refuses = lambda record: False
    cluster.settle()
    assert runtime.launcher.live == []
    assert not cluster.status.tasks and not cluster.status.connectors


def test_a_fence_that_is_tried_again_and_again_is_said_once(decided: list[float]) -> None:
    cluster, logs, runtime = running()
    logs.unfenced, logs.fence_error = f"{GROUP_ID}-c-", silent
    runtime.verbs.put_config("c", source(note="x"))
    cluster.pass_time(20)
    before = cluster.ends()
    decided.clear()
    cluster.pass_time(200)
    assert runtime.verbs.status("c").connector.state is State.FAILED
    assert cluster.ends() == before
    assert len(decided) < 60
