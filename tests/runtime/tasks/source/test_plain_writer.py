"""Source tasks with `exactly.once.source.support=disabled`: at least once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from connect_runtime.api import SourceBatch, SourceTask
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, exactly_once
from connect_runtime.tasks.source.plain_writer import PlainWriter
from support.broker import create_topic, read_to_end
from support.guarded_broker import GuardedBroker
from support.wait import wait_until

TASK = TaskId("src", 0)
KEY = '["src",{"p":1}]'


class Counting(SourceTask):
    """Sends numbers, ten a poll, from where its offset is, up to `last`; then it throws if it has
    an `error`."""

    error: Exception | None = None

    def start(self, props: Any) -> None:
        self.topic = props["topic"]
        self.last = int(props.get("last", 100))
        found = self.context.offset_storage_reader.offset({"p": 1})
        self.next = int((found or {"n": 0})["n"])  # type: ignore[arg-type]
        assert self.context.transaction_context is None

    def poll(self) -> SourceBatch | None:
        if self.next >= self.last:
            if self.error is not None:
                raise self.error
            threading.Event().wait(0.02)
            return None
        begin, self.next = self.next, self.next + 10
        values = [str(number) for number in range(begin, self.next)]
        return SourceBatch(self.topic, {"p": 1}, values, source_offset={"n": self.next})

    def stop(self) -> None:
        pass


@pytest.fixture
def run(cluster: Any, install: Callable[[type[Any]], str]) -> Callable[..., Any]:
    create_topic(cluster.bootstrap_servers, cluster.data)
    cluster.worker["exactly.once.source.support"] = "DISABLED"

    def start(attempt: int = 1, *, config: dict[str, str] | None = None, **fields: Any) -> Any:
        cluster.assign(TASK, attempt)
        task = install(type("Counting", (Counting,), fields))
        given = {"name": "src", "task.class": task, "topic": cluster.data} | (config or {})
        return cluster.run(cluster.launch(TASK, given, attempt))

    return start


def position(cluster: Any) -> Any:
    return cluster.newest(cluster.topics.offsets).get(KEY, {}).get("n")


def test_offsets_are_committed_at_intervals(cluster: Any, run: Any) -> None:
    cluster.worker["offset.flush.interval.ms"] = "300"
    running = run()

    wait_until(lambda: position(cluster) == 100, what="the interval's commit")
    assert not running.outcomes
    assert cluster.values() == [str(number) for number in range(100)]


def test_offsets_go_to_the_cluster_that_the_records_go_to(
    cluster: Any, run: Any, guarded: GuardedBroker
) -> None:
    other = guarded.open["bootstrap.servers"]
    cluster.worker |= {"offset.storage.replication.factor": "1", "offset.storage.partitions": "1"}
    running = run(config={"producer.override.bootstrap.servers": other})
    wait_until(
        lambda: len(read_to_end(other, cluster.data)) == 100, what="all records", timeout_s=60
    )
    running.stop()

    newest = read_to_end(other, cluster.topics.offsets)[-1]
    assert (newest.key(), newest.value()) == (KEY.encode(), b'{"n":100}')


def test_a_source_continues_when_exactly_once_support_changes(cluster: Any, run: Any) -> None:
    for attempt, support in enumerate(("enabled", "disabled", "enabled"), start=1):
        cluster.worker["exactly.once.source.support"] = support
        last = attempt * 30
        running = run(attempt, config={"last": str(last)})
        wait_until(lambda last=last: len(cluster.values()) == last, what="its records")
        running.stop()
        assert position(cluster) == last
    assert cluster.values() == [str(number) for number in range(90)]


def test_offsets_are_written_at_the_interval_and_at_the_stop(cluster: Any, run: Any) -> None:
    running = run()
    wait_until(lambda: len(cluster.values()) == 100, what="all records")
    assert position(cluster) is None

    running.stop()
    assert position(cluster) == 100


def test_a_failed_task_commits_what_it_sent(cluster: Any, run: Any) -> None:
    outcome = run(error=ValueError("the source is gone")).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert position(cluster) == 100
    assert cluster.status(TASK)["state"] == "FAILED"


def test_a_superseded_attempt_writes_no_offsets(cluster: Any, run: Any) -> None:
    running = run()
    wait_until(lambda: len(cluster.values()) == 100, what="all records")
    cluster.assign(TASK, 2)

    assert running.outcome().ended is AttemptEnd.SUPERSEDED
    assert position(cluster) is None


def test_offsets_wait_for_records_that_are_not_acknowledged(
    cluster: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged, tried = threading.Event(), threading.Event()
    real = PlainWriter._flush

    def flush(self: PlainWriter, limit_s: float) -> bool:
        tried.set()
        return acknowledged.is_set() and real(self, limit_s)

    monkeypatch.setattr(PlainWriter, "_flush", flush)
    cluster.worker["offset.flush.interval.ms"] = "200"
    running = run()
    assert tried.wait(30)
    wait_until(lambda: len(cluster.values()) == 100, what="all records")
    assert position(cluster) is None
    assert not running.outcomes

    acknowledged.set()
    wait_until(lambda: position(cluster) == 100, what="offsets after acknowledgements")


def test_a_pause_does_not_keep_offsets_that_could_not_be_written_before(
    cluster: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = PlainWriter.commit, threading.Event()

    def commit(self: PlainWriter, offsets: Any, limit_s: float | None = None) -> bool:
        if not tried.is_set():
            tried.set()
            return False
        return real(self, offsets, limit_s)

    cluster.worker["offset.flush.interval.ms"] = "3000"
    monkeypatch.setattr(PlainWriter, "commit", commit)
    run()
    wait_until(lambda: len(cluster.values()) == 100, what="all records")
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")

    assert tried.is_set()
    wait_until(lambda: position(cluster) == 100, what="offsets while it is paused")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, True), ("enabled", True), ("Preparing", True), (" DISABLED ", False)],
)
def test_sources_write_in_transactions_unless_disabled(given: str | None, expected: bool) -> None:
    worker = {} if given is None else {"exactly.once.source.support": given}
    assert exactly_once(worker) is expected


def test_the_producer_follows_what_the_user_sets(cluster: Any) -> None:
    def properties(**overrides: str) -> dict[str, str]:
        config = {f"producer.override.{k.replace('_', '.')}": v for k, v in overrides.items()}
        return cluster.setup(TASK, config).plain_producer()

    assert properties().items() >= {"acks": "all", "enable.idempotence": "true"}.items()
    assert properties(acks="1").items() >= {"acks": "1", "enable.idempotence": "false"}.items()
    given = properties(enable_idempotence="false", transactional_id="mine")
    assert given["enable.idempotence"] == "false"
    assert "transactional.id" not in given


def test_overrides_without_effect_are_logged(
    cluster: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.worker |= {
        "exactly.once.source.support": "enabled",
        "producer.acks": "1",
        "producer.enable.idempotence": "TRUE",
    }
    run(config={"producer.override.transactional.id": "mine", "producer.override.acks": "all"})
    cluster.wait_for_state(TASK, "RUNNING")

    named = [r.getMessage() for r in caplog.records if "have no effect" in r.getMessage()]
    assert len(named) == 1
    assert "producer.acks, producer.override.transactional.id" in named[0]
