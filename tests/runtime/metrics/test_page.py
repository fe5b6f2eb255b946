"""The page for Prometheus, as its own parser reads it."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from connect_runtime.herder.runs import Instance, InstancePhase
from connect_runtime.herder.view import View
from connect_runtime.metrics.page import Observed, page
from connect_runtime.metrics.task_metrics import TaskMetrics, values_of
from connect_runtime.spark.jvm import JvmFigures
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)

# What Strimzi's dashboard for Kafka Connect and its alerts query, but for
# container_cpu_usage_seconds_total, which cAdvisor serves, and kafka_admin_client_connection_count
STRIMZI = """
    kafka_connect_worker_connector_count kafka_connect_worker_task_count
    kafka_connect_worker_connector_running_task_count
    kafka_connect_worker_connector_paused_task_count
    kafka_connect_worker_connector_failed_task_count
    kafka_connect_worker_connector_unassigned_task_count
    kafka_connect_worker_connector_destroyed_task_count
    kafka_connect_worker_rebalance_rebalancing
    kafka_connect_coordinator_assigned_connectors kafka_connect_coordinator_assigned_tasks
    kafka_connect_connector_status kafka_connect_connector_connector_class
    kafka_connect_connector_connector_type kafka_connect_connector_connector_version
    kafka_connect_connector_task_status kafka_connect_task_error_total_record_failures
    kafka_producer_connection_count kafka_consumer_connection_count
    kafka_producer_outgoing_byte_total kafka_consumer_incoming_byte_total
    jvm_memory_used_bytes jvm_threads_current jvm_gc_collection_seconds_sum
""".split()
NAME = 'my "odd"\nname\\'


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples by name and labels; none may be there twice."""
    found = [s for family in text_string_to_metric_families(text) for s in family.samples]
    by_labels = {(s.name, frozenset(s.labels.items())): s.value for s in found}
    assert len(by_labels) == len(found)
    return by_labels


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, frozenset(labels.items())]


def connector(name: str, *, tasks: int) -> ConnectorState:
    return ConnectorState(name, {"connector.class": "FileStreamSource"}, task_configs=({},) * tasks)


def status(state: State) -> Status:
    return Status(state, "w:1", 0, version="4.2")


def view() -> View:
    return View(
        config=ConfigSnapshot({NAME: connector(NAME, tasks=3), "idle": connector("idle", tasks=0)}),
        status=StatusSnapshot(
            {NAME: status(State.RUNNING), "idle": status(State.STOPPED)},
            {TaskId(NAME, 0): status(State.RUNNING), TaskId(NAME, 1): status(State.FAILED)},
        ),
        instances={NAME: Instance(1, InstancePhase.STARTED, {}, kind="source", version="4.2")},
        term=7,
    )


def client(kind: str, name: str, size: int, lags: list[list[object]]) -> dict[str, object]:
    return {"kind": kind, "client_id": name, "connections": 2, "bytes": size, "lags": lags}


def reading() -> Any:
    metrics = TaskMetrics()
    metrics.begin("source")
    metrics.count("total_record_failures")
    return values_of(metrics.reading()) | {
        "clients": [
            client("producer", "p", 11, []),
            client("consumer", "c", 12, [["t", 4, 5]]),
        ]
    }


def leading() -> str:
    jvm = JvmFigures({"heap": 5, "nonheap": 6}, 7, {"Copy": (8, 0.25)})
    readings = {TaskId(NAME, 1): reading()}
    return page(Observed(view(), leading=True, leader="http://w:1", readings=readings, jvm=jvm))


def test_all_that_strimzis_dashboard_and_alerts_query_is_there() -> None:
    assert {name for name, _ in samples(leading())} >= set(STRIMZI)


def test_tasks_are_counted_by_state_and_those_without_a_status_are_unassigned() -> None:
    text = leading()
    counts = {
        state: value(text, f"kafka_connect_worker_connector_{state}_task_count", connector=NAME)
        for state in ("total", "running", "failed", "unassigned", "paused", "destroyed")
    }
    assert list(counts.values()) == [3, 1, 1, 1, 0, 0]
    assert value(text, "kafka_connect_worker_connector_count") == 2
    assert value(text, "kafka_connect_worker_task_count") == 3


def test_texts_of_connects_mbeans_are_labels() -> None:
    text = leading()
    for attribute, expected in (
        ("status", "running"),
        ("connector_class", "FileStreamSource"),
        ("connector_type", "source"),
        ("connector_version", "4.2"),
    ):
        labels = {"connector": NAME, attribute: expected}
        assert value(text, f"kafka_connect_connector_{attribute}", **labels) == 1
    assert value(text, "kafka_connect_connector_status", connector="idle", status="stopped") == 1
    labels = {"connector": NAME, "task": "1", "status": "failed"}
    assert value(text, "kafka_connect_connector_task_status", **labels) == 1


def test_a_failed_task_keeps_its_counts_and_its_clients() -> None:
    text = leading()
    ours = {"connector": NAME, "task": "1"}
    assert value(text, "kafka_connect_task_error_total_record_failures", **ours) == 1
    assert value(text, "kafka_connect_source_task_source_record_poll_total", **ours) == 0
    assert value(text, "kafka_producer_outgoing_byte_total", clientid="p") == 11
    at = {"clientid": "c", "topic": "t", "partition": "4"}
    assert value(text, "kafka_consumer_fetch_manager_records_lag", **at) == 5


def test_clients_with_the_same_id_are_one() -> None:
    readings = {TaskId(NAME, number): reading() for number in range(2)}
    text = page(Observed(view(), leading=True, leader="http://w:1", readings=readings))
    assert value(text, "kafka_producer_outgoing_byte_total", clientid="p") == 11


def test_a_runtime_that_does_not_lead_reports_no_connectors() -> None:
    text = page(Observed(view(), leading=False, leader="http://other:1"))
    assert value(text, "kafka_connect_worker_connector_count") == 0
    assert value(text, "kafka_connect_worker_rebalance_rebalancing") == 0
    assert not any(dict(labels).get("connector") for _, labels in samples(text))


def test_a_runtime_without_a_leader_is_rebalancing() -> None:
    text = page(Observed(View(), leading=False, leader=None))
    assert value(text, "kafka_connect_worker_rebalance_rebalancing") == 1


def test_types_are_those_of_strimzis_rules() -> None:
    types = {f.name: f.type for f in text_string_to_metric_families(leading())}
    assert types["kafka_connect_source_task_source_record_poll"] == "counter"
    assert types["kafka_connect_source_task_source_record_poll_rate"] == "gauge"
    assert types["kafka_connect_task_error_total_record_failures"] == "gauge"
    assert types["jvm_gc_collection_seconds"] == "summary"
