"""What tasks count on a real broker: records, errors, bytes and lag."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from connect_runtime.api import SinkBatch, SinkTask, SourceRecord, SourceTask, TopicPartition
from connect_runtime.metrics.task_metrics import TaskMetrics, values_of
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks import run
from connect_runtime.tasks.sink import consumer as sink_consumer
from connect_runtime.tasks.source import writer as source_writer
from support.broker import produce
from support.wait import wait_until

SOURCE = "kafka_connect_source_task_"
SINK = "kafka_connect_sink_task_"
ERROR = "kafka_connect_task_error_"
TASK = TaskId("c", 0)
DROP_TOMBSTONES = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "gone",
    "predicates": "gone",
    "predicates.gone.type": "RecordIsTombstone",
}


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> TaskMetrics:
    """Of the attempt that the test starts; its clients make statistics ten times a second."""
    made = TaskMetrics()
    monkeypatch.setattr(run, "TaskMetrics", lambda: made)
    monkeypatch.setattr(source_writer, "STATISTICS_MS", 100)
    monkeypatch.setitem(sink_consumer._SETTINGS, "statistics.interval.ms", 100)
    return made


def value(metrics: TaskMetrics, name: str) -> float | None:
    found: float | None = values_of(metrics.reading())["metrics"].get(name)
    return found


def clients(metrics: TaskMetrics) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = values_of(metrics.reading())["clients"]
    return found


class Two(SourceTask):
    """Two records, the second a tombstone; then it is idle."""

    def start(self, props: Mapping[str, str]) -> None:
        self.topic = props["topic"]
        self.polled = False

    def poll(self) -> list[SourceRecord]:
        if self.polled:
            return []
        self.polled = True
        return [SourceRecord({}, {"n": n}, self.topic, text) for n, text in enumerate(("a", None))]

    def stop(self) -> None: ...


class Held(SinkTask):
    """Takes nothing until `go` is set."""

    go: threading.Event

    def start(self, props: Mapping[str, str]) -> None: ...

    def put(self, records: SinkBatch) -> None:
        assert len(records) == 0 or self.go.wait(30)

    def stop(self) -> None: ...


def test_a_source_counts_what_it_polled_and_what_is_written(
    cluster: Any,
    topic: Callable[[int], str],
    install: Callable[[type[Any]], str],
    metrics: TaskMetrics,
) -> None:
    config = {"name": "c", "task.class": install(Two), "topic": topic(1), **DROP_TOMBSTONES}
    cluster.assign(TASK, 1)
    cluster.run(cluster.launch(TASK, config))
    written = f"{SOURCE}source_record_write_total"
    wait_until(lambda: value(metrics, written) == 1, what="the record to be written")
    assert value(metrics, f"{SOURCE}source_record_poll_total") == 2
    assert value(metrics, f"{SOURCE}source_record_active_count") == 0
    assert value(metrics, "kafka_connect_connector_task_batch_size_max") == 2
    assert value(metrics, "kafka_connect_connector_task_running_ratio") == 1
    # nothing but the loop polls the producer of an idle source
    wait_until(lambda: [c for c in clients(metrics) if c["connections"]], what="statistics")
    for _ in range(2):
        metrics._clients.clear()
        wait_until(lambda: clients(metrics), what="more statistics")
    (producer,) = clients(metrics)
    assert (producer["kind"], producer["client_id"]) == ("producer", "connector-producer-c-0")
    assert producer["bytes"] > 0


def test_a_sink_counts_records_commits_errors_and_its_lag(
    cluster: Any,
    topic: Callable[[int], str],
    install: Callable[[type[Any]], str],
    metrics: TaskMetrics,
) -> None:
    name = topic(1)
    cluster.worker["offset.flush.interval.ms"] = "100"
    held = type("Task", (Held,), {"go": threading.Event()})
    config = {
        "name": "c",
        "task.class": install(held),
        "topics": name,
        "consumer.override.group.id": f"connect-{cluster.name}",
        "consumer.override.max.poll.records": "2",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
    }
    values = (b"1", b"no json", b"3", b"4", b"5")
    produce(cluster.bootstrap_servers, name, [(None, each) for each in values])
    cluster.assign(TASK, 1)
    cluster.run(cluster.launch(TASK, config))
    read, sent = f"{SINK}sink_record_read_total", f"{SINK}sink_record_send_total"
    wait_until(lambda: (value(metrics, read) or 0) > 0, what="the first batch")
    assert value(metrics, sent) == 0
    held.go.set()
    wait_until(lambda: value(metrics, sent) == 4, what="all to be put")
    assert value(metrics, read) == 5
    assert value(metrics, f"{SINK}partition_count") == 1
    active = f"{SINK}sink_record_active_count"
    wait_until(lambda: value(metrics, active) == 0, what="all to be committed")
    assert (value(metrics, f"{SINK}offset_commit_completion_total") or 0) >= 1
    for count in ("record_failures", "record_errors", "records_skipped", "errors_logged"):
        assert value(metrics, f"{ERROR}total_{count}") == 1
    assert (value(metrics, f"{ERROR}last_error_timestamp") or 0) > 1e12
    (lag,) = wait_until(lambda: clients(metrics) and clients(metrics)[0]["lags"], what="the lag")
    assert lag[:2] == [name, 0]
    wait_until(lambda: clients(metrics)[0]["lags"] == [[name, 0, 0]], what="the lag to be 0")
    assert clients(metrics)[0]["client_id"] == "connector-consumer-c-0"


class SelfKept(SinkTask):
    """Keeps its offsets in its target system, so it allows no commit."""

    def start(self, props: Mapping[str, str]) -> None: ...

    def put(self, records: SinkBatch) -> None: ...

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {}

    def stop(self) -> None: ...


def test_records_of_a_sink_that_keeps_its_offsets_are_not_active(
    cluster: Any,
    topic: Callable[[int], str],
    install: Callable[[type[Any]], str],
    metrics: TaskMetrics,
) -> None:
    """The trap: all records that it ever took wait for a commit."""
    name = topic(1)
    cluster.worker["offset.flush.interval.ms"] = "100"
    config = {
        "name": "c",
        "task.class": install(SelfKept),
        "topics": name,
        "consumer.override.group.id": f"connect-{cluster.name}",
        "value.converter": "StringConverter",
    }
    produce(cluster.bootstrap_servers, name, [(None, b"x")] * 100)
    cluster.assign(TASK, 1)
    cluster.run(cluster.launch(TASK, config))
    sent, active = f"{SINK}sink_record_send_total", f"{SINK}sink_record_active_count"
    wait_until(lambda: value(metrics, sent) == 100, what="all to be put")
    wait_until(lambda: value(metrics, active) == 0, what="the flush", timeout_s=10)
