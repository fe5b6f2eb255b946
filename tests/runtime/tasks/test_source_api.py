"""What a source task may return and ask for, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from connect_runtime.api import (
    RetriableError,
    SourceBatch,
    SourceRecord,
    SourceTask,
)
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Ended
from support.broker import read_to_end
from support.wait import wait_until

TASK = TaskId("src", 0)


class Scripted(SourceTask):
    """Polls what the test's script says, once."""

    script: list[Any]
    events: list[Any]

    def start(self, props: Mapping[str, str]) -> None:
        self.props = props
        self.left = list(self.script)

    def poll(self) -> Any:
        step = self.left.pop(0) if self.left else None
        if isinstance(step, Exception):
            raise step
        return step(self) if callable(step) else step

    def commit(self) -> None:
        self.events.append("commit")

    def stop(self) -> None:
        self.events.append("stop")


class Counted(Scripted):
    """Is told of each record, too."""

    def commit_record(self, record: SourceRecord) -> None:
        self.events.append(record.value)


def record(cluster: Any, value: str, n: int, **more: Any) -> SourceRecord:
    return SourceRecord({"p": 1}, {"n": n}, cluster.data, value, **more)


def scripted(base: type[Scripted], script: Sequence[Any]) -> type[Scripted]:
    return type("Task", (base,), {"script": list(script), "events": []})


def started(
    cluster: Any, install: Callable[[type[Any]], str], task: type[Scripted], **config: str
) -> Any:
    cluster.assign(TASK, 1)
    config = {"name": "src", "task.class": install(task)} | config
    return cluster.run(cluster.launch(TASK, config))


def stopped(cluster: Any, running: Any) -> Ended:
    cluster.assign(TASK, None)
    ended: Ended = running.outcome().ended
    return ended


def offsets(cluster: Any) -> dict[str, Any]:
    found: dict[str, Any] = cluster.newest(cluster.topics.offsets)
    return found


def test_records_with_everything(cluster: Any, topic: Any, install: Any) -> None:
    topic(2)
    more = {"key": "k", "partition": 1, "timestamp": 1234}
    headers = [("h", b"\xff"), ("t", "text"), ("n", None)]
    task = scripted(
        Counted,
        [
            [
                record(cluster, "a", 1, **more),
                record(cluster, "b", 2, headers=headers, **more),
                SourceRecord({"p": 2}, {"n": 9}, cluster.data, "c", timestamp=1),
            ],
            RetriableError("later"),
            [],
            SourceBatch(cluster.data, {"p": 1}, ["d"], source_offset={"n": 3}, keys=["k"]),
        ],
    )
    running = started(cluster, install, task)
    wait_until(lambda: len(cluster.values()) == 4, what="all records")
    assert stopped(cluster, running) is Ended.STOPPED

    found = {m.value(): m for m in read_to_end(cluster.bootstrap_servers, cluster.data)}
    a, b, c = found[b"a"], found[b"b"], found[b"c"]
    assert (a.key(), a.partition(), a.timestamp()[1]) == (b"k", 1, 1234)
    assert b.headers() == [("h", b"\xff"), ("t", b"text"), ("n", None)]
    assert (c.key(), c.timestamp()[1]) == (None, 1)
    assert offsets(cluster) == {'["src",{"p":1}]': {"n": 3}, '["src",{"p":2}]': {"n": 9}}
    assert task.events == ["a", "b", "c", "commit", "d", "commit", "stop"]


def test_what_was_not_committed_is_not_told(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    task = scripted(
        Counted,
        [[record(cluster, "a", 1), record(cluster, 1, -1, timestamp=-5)]],  # type: ignore[arg-type]
    )
    running = started(cluster, install, task)

    assert "Invalid record timestamp -5" in (running.outcome().trace or "")
    assert cluster.values() == []
    assert task.events == ["stop"]


def test_offsets_that_connect_could_not_hold(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    bad = SourceRecord({"p": 1}, {"n": [1]}, cluster.data, "a")
    running = started(cluster, install, scripted(Scripted, [[bad]]))

    assert "Offsets may only contain primitive types" in (running.outcome().trace or "")
    assert cluster.values() == []


def test_the_task_sets_boundaries(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    records = [record(cluster, f"r{n}", n) for n in range(6)]

    def first(task: Any) -> Any:
        transactions = task.context.transaction_context
        transactions.commit_transaction(records[1])
        transactions.abort_transaction(records[3])
        return records[:5]

    def second(task: Any) -> Any:
        task.context.transaction_context.commit_transaction()
        return records[5:]

    task = scripted(Counted, [first, None, second])
    running = started(cluster, install, task, **{"transaction.boundary": "connector"})
    wait_until(lambda: cluster.values() == ["r0", "r1", "r4", "r5"], what="the others")

    assert offsets(cluster) == {'["src",{"p":1}]': {"n": 5}}
    assert stopped(cluster, running) is Ended.STOPPED


@pytest.mark.parametrize("asked", ["commit_transaction", "abort_transaction"])
def test_an_open_transaction_of_the_task_is_dropped_at_stop(
    cluster: Any, topic: Any, install: Any, asked: str
) -> None:
    topic(1)
    records = [record(cluster, f"r{n}", n) for n in range(2)]

    def poll(task: Any) -> Any:
        getattr(task.context.transaction_context, asked)(records[0])
        return records

    task = scripted(Scripted, [poll])
    running = started(cluster, install, task, **{"transaction.boundary": "connector"})
    wait_until(lambda: offsets(cluster), what="offsets")

    assert stopped(cluster, running) is Ended.STOPPED
    assert cluster.values() == (["r0"] if asked == "commit_transaction" else [])
    assert offsets(cluster) == {'["src",{"p":1}]': {"n": 0}}


def test_an_interval(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    task = scripted(Scripted, [[record(cluster, "a", 1)], None, [record(cluster, "b", 2)]])
    config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "60000"}
    running = started(cluster, install, task, **config)
    cluster.wait_for_state(TASK, "RUNNING")
    committed = read_to_end(cluster.bootstrap_servers, cluster.data)

    assert stopped(cluster, running) is Ended.STOPPED
    assert committed == []
    assert cluster.values() == ["a", "b"]
    assert task.events == ["commit", "stop"]


def test_an_idle_task_may_move_offsets(cluster: Any, topic: Any, install: Any) -> None:
    class Moving(Scripted):
        def update_offsets(self, offsets: Any) -> Any:
            return [({"p": 1}, {"n": 41}), ({"p": 2}, None)]

    cluster.worker["offset.flush.interval.ms"] = "50"
    started(cluster, install, scripted(Moving, []))

    wait_until(lambda: offsets(cluster) == {'["src",{"p":1}]': {"n": 41}}, what="the offset")
