"""The names that metrics of a JVM have on the page."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_runtime.metrics.jvm_metrics import plugin_samples, task_reading
from connect_runtime.storage.snapshots import TaskId

IDENTITY = {"connector": "c", "task": "0"}


def row(group: str, name: str, value: float = 1.0, **tags: str) -> Mapping[str, object]:
    return {"group": group, "name": name, "tags": tags, "value": value}


@pytest.mark.parametrize(
    ("group", "attribute", "tags", "name", "labels"),
    [
        (
            "kafka.connect.mirror",
            "replication-latency-ms-max",
            {"type": "MirrorSourceConnector", "target": "b", "topic": "t", "partition": "1"},
            "kafka_connect_mirror_mirrorsourceconnector_replication_latency_ms_max",
            {"target": "b", "topic": "t", "partition": "1"},
        ),
        (
            "debezium.postgres",
            "NumberOfEventsFiltered",
            {"type": "connector-metrics", "context": "snapshot", "server": "s"},
            "debezium_metrics_NumberOfEventsFiltered",
            {"plugin": "postgres", "context": "snapshot", "name": "s"},
        ),
        (
            "plugins",
            "rows",
            {"connector": "c", "task": "0", "transformation": "flat"},
            "kafka_connect_plugins_rows",
            {"transformation": "flat"},
        ),
        ("com.example", "Active", {"type": "Pool (x)"}, "com_example_pool__x__active", {}),
        ("9 lives", "a", {}, "_9_lives_a", {}),
        ("d", "a", {"task": "7", "__name__": "x", "1": "y"}, "d_a", {
            "exported_task": "7", "_name__": "x", "_1": "y"
        }),
    ],
)  # fmt: skip
def test_a_bean_has_a_legal_name_and_its_key_properties_as_labels(
    group: str, attribute: str, tags: dict[str, str], name: str, labels: dict[str, str]
) -> None:
    rows = {"measurements": [row(group, attribute, **tags)], "left": 0}
    assert plugin_samples(rows, IDENTITY) == [(name, IDENTITY | labels, 1.0)]


def test_a_consumer_lags_once_behind_a_topic_whose_name_has_a_dot() -> None:
    def lag(topic: str, value: float) -> Mapping[str, object]:
        tags = {"client-id": "x", "topic": topic, "partition": "0"}
        return {"group": "kafka.consumer", "name": "records-lag", "tags": tags, "value": value}

    consumer = {"client-id": "x"}
    clients = [
        lag("a.b", 3),
        lag("a_b", 3),
        lag("c_d", 4),
        {"group": "kafka.consumer", "name": "incoming-byte-total", "tags": consumer, "value": 8},
        {"group": "kafka.consumer", "name": "outgoing-byte-total", "tags": consumer, "value": 9},
    ]
    rows = {"connect": [], "clients": clients, "plugins": {"measurements": [], "left": 0}}
    (client,) = task_reading(TaskId("c", 0), rows)["clients"]
    assert client["lags"] == [("a.b", 0, 3), ("c_d", 0, 4)]
    assert client["bytes"] == 8
