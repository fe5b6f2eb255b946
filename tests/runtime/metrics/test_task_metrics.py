"""What a task counts, and what a reading makes of it. Names are Connect's (KIP-196, KIP-298)."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest
from confluent_kafka import Producer

from connect_runtime.metrics.task_metrics import TaskMetrics, values_of
from connect_runtime.storage.snapshots import State
from support.wait import wait_until

SOURCE = "kafka_connect_source_task_"
SINK = "kafka_connect_sink_task_"
TASK = "kafka_connect_connector_task_"
ERROR = "kafka_connect_task_error_"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> TaskMetrics:
    return TaskMetrics(clock)


def read(metrics: TaskMetrics) -> dict[str, Any]:
    found: dict[str, Any] = values_of(metrics.reading())["metrics"]
    return found


def test_a_source_that_has_done_nothing_reads_as_zero(metrics: TaskMetrics) -> None:
    metrics.begin("source")
    found = read(metrics)
    assert found[f"{SOURCE}source_record_poll_total"] == 0
    assert found[f"{SOURCE}source_record_write_rate"] == 0
    assert found[f"{ERROR}total_record_failures"] == 0
    assert not any(name.startswith(SINK) for name in found)


def test_a_rate_covers_the_last_one_or_two_windows(metrics: TaskMetrics, clock: Clock) -> None:
    metrics.begin("source")
    for second in range(100):
        clock.now = 1000.0 + second
        metrics.polled(10, 0.001)
        read(metrics)
    assert read(metrics)[f"{SOURCE}source_record_poll_total"] == 1000
    assert read(metrics)[f"{SOURCE}source_record_poll_rate"] == pytest.approx(10, rel=0.05)
    clock.now += 45
    read(metrics)
    clock.now += 45
    found = read(metrics)
    assert found[f"{SOURCE}source_record_poll_total"] == 1000
    assert found[f"{SOURCE}source_record_poll_rate"] == 0


def test_a_maximum_is_forgotten_after_two_windows(metrics: TaskMetrics, clock: Clock) -> None:
    metrics.begin("sink")
    metrics.put(500, 2.0)
    metrics.read(500)
    metrics.read(100)
    found = read(metrics)
    assert found[f"{TASK}batch_size_max"] == 500
    assert found[f"{TASK}batch_size_avg"] == 300
    assert found[f"{SINK}put_batch_max_time_ms"] == 2000
    clock.now += 31
    assert read(metrics)[f"{TASK}batch_size_max"] == 500
    metrics.read(7)
    assert read(metrics)[f"{TASK}batch_size_max"] == 500
    clock.now += 31
    found = read(metrics)
    assert found[f"{TASK}batch_size_max"] == 7
    assert found[f"{TASK}batch_size_avg"] == 7
    assert f"{SINK}put_batch_max_time_ms" not in found


def test_records_are_written_when_they_are_committed(metrics: TaskMetrics) -> None:
    metrics.begin("source")
    metrics.sent(3)
    metrics.wrote(0.01, done=False)
    found = read(metrics)
    assert found[f"{SOURCE}source_record_active_count"] == 3
    assert found[f"{SOURCE}source_record_write_total"] == 0
    metrics.wrote(0.03, done=True)
    found = read(metrics)
    assert found[f"{SOURCE}source_record_active_count"] == 0
    assert found[f"{SOURCE}source_record_write_total"] == 3
    assert found[f"{SOURCE}transaction_size_max"] == 3
    assert found[f"{TASK}offset_commit_avg_time_ms"] == 20


def test_aborted_records_are_not_written(metrics: TaskMetrics) -> None:
    metrics.begin("source")
    metrics.sent(3)
    metrics.aborted()
    metrics.wrote(0.01, done=True)
    assert read(metrics)[f"{SOURCE}source_record_write_total"] == 0


def test_time_in_states_is_a_ratio(metrics: TaskMetrics, clock: Clock) -> None:
    metrics.in_state(State.RUNNING)
    clock.now += 3
    metrics.in_state(State.PAUSED)
    clock.now += 1
    found = read(metrics)
    assert (found[f"{TASK}running_ratio"], found[f"{TASK}pause_ratio"]) == (0.75, 0.25)


def test_statistics_of_a_client_give_bytes_connections_and_lag(metrics: TaskMetrics) -> None:
    broker = {"state": "UP"}
    unknown = -1001
    offsets = {"ls_offset": 9, "next_offset": 9, "app_offset": 4}
    waiting = {**offsets, "fetchq_cnt": 3, "desired": True}
    partitions = {
        # its offsets were moved back
        "0": {**waiting, "committed_offset": 7},
        # all that is left of it is a transaction's marker
        "1": {**waiting, "committed_offset": 8, "fetchq_cnt": 0, "app_offset": unknown},
        "2": {**waiting, "committed_offset": unknown, "app_offset": unknown},
        "3": {**waiting, "committed_offset": unknown, "ls_offset": -1},
        # given to another task
        "4": {**waiting, "committed_offset": 7, "desired": False},
        "-1": {**waiting, "committed_offset": unknown},
    }
    statistics = {
        "client_id": "connector-consumer-c-0",
        "rx_bytes": 70,
        "tx_bytes": 8,
        "brokers": {"a:1/1": broker, "b:1/2": {"state": "TRY_CONNECT"}, "group": broker},
        "topics": {"t": {"partitions": partitions}},
    }
    metrics.client("consumer", json.dumps(statistics))
    assert values_of(metrics.reading())["clients"] == [
        {
            "kind": "consumer",
            "client_id": "connector-consumer-c-0",
            "connections": 2,
            "bytes": 70,
            "lags": [["t", 0, 5], ["t", 1, 0]],
        }
    ]


def test_a_producer_and_a_consumer_may_have_the_same_client_id(metrics: TaskMetrics) -> None:
    statistics = {"client_id": "x", "rx_bytes": 1, "tx_bytes": 2, "brokers": {}, "topics": {}}
    metrics.client("consumer", json.dumps(statistics))
    metrics.client("producer", json.dumps(statistics))
    found = values_of(metrics.reading())["clients"]
    assert [(each["kind"], each["bytes"]) for each in found] == [("consumer", 1), ("producer", 2)]


def test_what_is_counted_during_a_reading_does_not_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: failures.append(hook.exc_value))
    metrics = TaskMetrics()
    done = threading.Event()

    def read_on() -> None:
        while not done.is_set():
            metrics.reading()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=read_on)
    try:
        reader.start()
        for _ in range(6000):
            metrics = TaskMetrics()
            metrics.begin("source")
            metrics.polled(1, 0.1)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        reader.join()
    assert failures == []


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash"])
def test_a_client_whose_name_librdkafka_cannot_write_fails_no_task(
    metrics: TaskMetrics, name: str
) -> None:
    """Connectors may have such names. What a callback raises would be raised to its task."""
    told: list[str] = []

    def take(statistics: str) -> None:
        told.append(statistics)
        metrics.client("producer", statistics)

    settings = {"bootstrap.servers": "127.0.0.1:1", "client.id": name, "log_level": 0}
    producer = Producer({**settings, "statistics.interval.ms": 10, "stats_cb": take})

    def served() -> list[str]:
        producer.poll(0.1)
        return told

    wait_until(served, what="statistics")
    with pytest.raises(json.JSONDecodeError):
        json.loads(told[0])
    assert values_of(metrics.reading())["clients"] == []
