"""What a source task may return and ask for, on a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pytest

from connect_runtime.api import (
    STRING,
    Header,
    RetriableError,
    SourceBatch,
    SourceRecord,
    SourceTask,
)
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source import transactions
from support.broker import produce, read_to_end
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


def stopped(cluster: Any, running: Any) -> AttemptEnd:
    cluster.assign(TASK, None)
    ended: AttemptEnd = running.outcome().ended
    return ended


def offsets(cluster: Any) -> dict[str, Any]:
    found: dict[str, Any] = cluster.newest(cluster.topics.offsets)
    return found


def test_records_with_everything(cluster: Any, topic: Any, install: Any) -> None:
    topic(2)
    more = {"key": "k", "partition": 1, "timestamp": 1234}
    headers = (Header("h", [1, "x"]), Header("t", "text", STRING), Header("n"))
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
    assert stopped(cluster, running) is AttemptEnd.STOPPED

    found = {m.value(): m for m in read_to_end(cluster.bootstrap_servers, cluster.data)}
    a, b, c = found[b"a"], found[b"b"], found[b"c"]
    assert (a.key(), a.partition(), a.timestamp()[1]) == (b"k", 1, 1234)
    assert b.headers() == [("h", b'[1,"x"]'), ("t", b"text"), ("n", None)]
    assert (c.key(), c.timestamp()[1]) == (None, 1)
    assert offsets(cluster) == {'["src",{"p":1}]': {"n": 3}, '["src",{"p":2}]': {"n": 9}}
    assert task.events == ["a", "b", "c", "commit", "d", "commit", "stop"]


def test_a_record_may_be_as_large_as_with_javas_producer(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    large = "x" * 1_047_000  # of max.request.size, 1 MiB
    running = started(cluster, install, scripted(Scripted, [[record(cluster, large, 1)]]))
    wait_until(lambda: cluster.values() == [large], what="the record")
    assert stopped(cluster, running) is AttemptEnd.STOPPED


def test_hooks_are_called_only_for_committed_records(
    cluster: Any, topic: Any, install: Any
) -> None:
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
    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert task.events == ["r0", "r1", "commit", "commit", "r4", "r5", "commit", "stop"]


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

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert cluster.values() == (["r0"] if asked == "commit_transaction" else [])
    assert offsets(cluster) == {'["src",{"p":1}]': {"n": 0}}


def test_records_of_an_interval_are_committed_together(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    task = scripted(Scripted, [[record(cluster, "a", 1)], None, [record(cluster, "b", 2)]])
    config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "60000"}
    running = started(cluster, install, task, **config)
    cluster.wait_for_state(TASK, "RUNNING")
    committed = read_to_end(cluster.bootstrap_servers, cluster.data)

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert committed == []
    assert cluster.values() == ["a", "b"]
    assert task.events == ["commit", "stop"]


@pytest.mark.parametrize("task", ["idle", "within a poll", "asked before commits"])
def test_an_interval_ends_whatever_the_task_does(
    cluster: Any, topic: Any, install: Any, task: str
) -> None:
    topic(1)
    gate = threading.Event()
    first = [record(cluster, "a", 1)]
    script = [first, lambda _: gate.wait(30) and None] if task == "within a poll" else [first]
    made = moving(script, None) if task == "asked before commits" else scripted(Scripted, script)
    config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1500"}
    running = started(cluster, install, made, **config)
    cluster.wait_for_state(TASK, "RUNNING")

    wait_until(lambda: cluster.values() == ["a"], what="the interval to end")
    gate.set()
    assert stopped(cluster, running) is AttemptEnd.STOPPED


def test_a_long_transaction_does_not_pile_up_in_memory(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    real = transactions.Transactions.send

    def send(self: Any, *args: Any) -> None:
        real(self, *args)
        waiting.append(self._unacknowledged)

    monkeypatch.setattr(transactions, "UNACKNOWLEDGED_BYTES", 10_000)
    monkeypatch.setattr(transactions.Transactions, "send", send)
    topic(1)
    script = [[record(cluster, f"{n:03d}" * 400, n)] for n in range(100)]

    def end(task: Any) -> None:
        task.context.transaction_context.commit_transaction()

    task = scripted(Scripted, [*script, end])
    running = started(cluster, install, task, **{"transaction.boundary": "connector"})
    wait_until(lambda: len(cluster.values()) == 100, what="all records at once")
    assert stopped(cluster, running) is AttemptEnd.STOPPED

    assert max(waiting) <= 10_000 + 1_200
    assert cluster.values() == [f"{n:03d}" * 400 for n in range(100)]


# --- hooks ---


def test_errors_of_hooks_are_logged_without_secrets_and_fail_nothing(
    cluster: Any, topic: Any, install: Any, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "hunter2-secret"

    class Broken(Scripted):
        def commit_record(self, record: SourceRecord) -> None:
            raise ValueError(f"commit_record throws {secret}")

        def commit(self) -> None:
            raise ValueError(f"commit throws {secret}")

        def stop(self) -> None:
            raise ValueError(f"stop throws {secret}")

    topic(1)
    later = RetriableError(f"later {secret}")
    task = scripted(Broken, [[record(cluster, "a", 1)], later, [record(cluster, "b", 2)]])
    running = started(cluster, install, task, **{"db.password": secret})

    wait_until(lambda: cluster.values() == ["a", "b"], what="both records")
    assert stopped(cluster, running) is AttemptEnd.STOPPED
    for text in ("commit_record throws", "commit throws", "stop throws", "later"):
        assert f"{text} [hidden]" in caplog.text
    assert secret not in caplog.text


def test_the_offset_reader_knows_what_was_committed_since_the_start(
    cluster: Any, topic: Any, install: Any
) -> None:
    seen: list[Any] = []

    def look(task: Any) -> None:
        partitions = [{"p": 1}, {"p": 2}]
        seen.append(task.context.offset_storage_reader.offsets(partitions))

    def second(task: Any) -> Any:
        look(task)
        return [record(cluster, "b", 2)]

    def third(task: Any) -> None:
        look(task)
        task.context.transaction_context.commit_transaction()

    topic(1)
    first = [record(cluster, "a", 1)]
    script = [look, lambda task: first, second, third, look]
    task = scripted(Scripted, script)
    produce(cluster.bootstrap_servers, cluster.topics.offsets, [(b'["src",{"p":2}]', b'{"n":9}')])
    running = started(cluster, install, task, **{"transaction.boundary": "connector"})

    wait_until(lambda: len(seen) == 4, what="the last poll")
    # what is only sent does not count; what is committed does
    before = [None, {"n": 9}]
    assert seen == [before, before, before, [{"n": 2}, {"n": 9}]]
    assert stopped(cluster, running) is AttemptEnd.STOPPED


# --- update_offsets (KIP-910) ---

KEY = '["src",{"p":1}]'
OTHER = '["src",{"p":2}]'


class Moving(Scripted):
    """Answers what the test says, and keeps what it was asked."""

    answer: Any

    def update_offsets(self, offsets: Any) -> Any:
        self.events.append(list(offsets))
        return self.answer


def moving(script: Sequence[Any], answer: Any) -> type[Scripted]:
    return type("Task", (Moving,), {"script": list(script), "events": [], "answer": answer})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, {KEY: {"n": 2}}),
        ([], {KEY: {"n": 2}}),  # an empty map changes nothing
        ([({"p": 1}, {"n": 7})], {KEY: {"n": 7}}),  # replaced
        ([({"p": 2}, {"n": 3})], {KEY: {"n": 2}, OTHER: {"n": 3}}),  # added; p1 is left out
        ([({"p": 1}, None)], {KEY: None}),  # removed
    ],
)
@pytest.mark.parametrize("boundary", ["poll", "interval", "connector", "disabled"])
def test_a_task_changes_the_offsets_of_a_commit(
    cluster: Any, topic: Any, install: Any, answer: Any, expected: Any, boundary: str
) -> None:
    topic(1)
    two = [record(cluster, "a", 1), record(cluster, "b", 2)]

    def poll(task: Any) -> Any:
        if boundary == "connector":
            task.context.transaction_context.commit_transaction()
        return two

    def poll_again(task: Any) -> None:
        sent.set()

    if boundary == "disabled":
        cluster.worker["exactly.once.source.support"] = "disabled"
    config = {} if boundary == "disabled" else {"transaction.boundary": boundary}
    sent, task = threading.Event(), moving([poll, poll_again], answer)
    running = started(cluster, install, task, **config)
    wait_until(sent.is_set, what="the next poll")
    assert stopped(cluster, running) is AttemptEnd.STOPPED

    assert cluster.values() == ["a", "b"]
    assert task.events[0] == [({"p": 1}, {"n": 2})]
    found = read_to_end(cluster.bootstrap_servers, cluster.topics.offsets)
    # every record of the topic, so that a tombstone is seen and nothing else comes before it
    assert {(m.key().decode(), m.value()) for m in found} == {
        (key, None if offset is None else orjson.dumps(offset)) for key, offset in expected.items()
    }


@pytest.mark.parametrize("boundary", ["connector", "disabled", "poll"])
def test_an_idle_task_may_move_offsets(
    cluster: Any, topic: Any, install: Any, boundary: str
) -> None:
    def ask(task: Any) -> None:
        if boundary == "connector":
            task.context.transaction_context.commit_transaction()

    cluster.worker["offset.flush.interval.ms"] = "50"
    if boundary == "disabled":
        cluster.worker["exactly.once.source.support"] = "disabled"
    config = {"transaction.boundary": boundary} if boundary != "disabled" else {}
    task = moving([ask] * 20, [({"p": 1}, {"n": 41}), ({"p": 2}, None)])
    started(cluster, install, task, **config)

    wait_until(lambda: offsets(cluster) == {KEY: {"n": 41}}, what="the offset")
    found = read_to_end(cluster.bootstrap_servers, cluster.topics.offsets)
    assert (OTHER.encode(), None) in [(m.key(), m.value()) for m in found]
