"""The queries of Strimzi's dashboard for Kafka Connect, asked of a real Prometheus that scrapes a
runtime (strimzi-kafka-operator, examples/metrics/grafana-dashboards/strimzi-kafka-connect.json)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support import http, prometheus
from support.rig import Rig
from support.wait import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(not prometheus.found(), reason="Prometheus is not installed"),
]

OURS = '{strimzi_io_kind=~"KafkaConnect.*",strimzi_io_cluster="c"}'
IN_NAMESPACE = '{namespace="ns",strimzi_io_kind=~"KafkaConnect.*",strimzi_io_cluster="c"}'
CONNECTOR = "kafka_connect_worker_connector"
TABLE = f"""
sum(kafka_connect_connector_status{OURS}
  * on(connector) group_left(connector_class) kafka_connect_connector_connector_class{{}}
  * on(connector) group_left(connector_version) kafka_connect_connector_connector_version{{}}
  * on(connector) group_left(connector_type) kafka_connect_connector_connector_type{{}})
by (connector, status, connector_class, kubernetes_pod_name, connector_version, connector_type)
"""
TASKS = f"""
sum(kafka_connect_task_error_total_record_failures{OURS}
  * on(connector, task) group_left(status) kafka_connect_connector_task_status{{}})
by (connector, status, kubernetes_pod_name, task)
"""
# Each is one number
NUMBERS = {
    f"sum(kafka_connect_worker_connector_count{OURS})": 3,
    f"sum(kafka_connect_worker_task_count{OURS})": 3,
    f"sum({CONNECTOR}_running_task_count{OURS})": 2,
    f"sum({CONNECTOR}_paused_task_count{OURS})": 0,
    f"sum({CONNECTOR}_failed_task_count{OURS})": 1,
    f"sum({CONNECTOR}_unassigned_task_count{OURS})": 0,
    f"sum({CONNECTOR}_destroyed_task_count{OURS})": 0,
    f"sum(kafka_connect_coordinator_assigned_connectors{OURS}) by (kubernetes_pod_name)": 3,
    f"sum(kafka_connect_coordinator_assigned_tasks{OURS}) by (kubernetes_pod_name)": 3,
    f"sum(kafka_connect_worker_rebalance_rebalancing{OURS})": 0,
    f"sum({CONNECTOR}_failed_task_count{IN_NAMESPACE}) by (connector) != 0": 1,
}
CONNECTIONS = (
    f"sum(kafka_consumer_connection_count{OURS})",
    f"sum(kafka_producer_connection_count{OURS})",
)
POSITIVE = (
    f"sum(rate(kafka_producer_outgoing_byte_total{OURS}[5m])) by (kubernetes_pod_name)",
    f"sum(rate(kafka_consumer_incoming_byte_total{OURS}[5m])) by (kubernetes_pod_name)",
    f"sum(jvm_memory_used_bytes{OURS}) by (kubernetes_pod_name)",
    f"sum(jvm_threads_current{IN_NAMESPACE}) by (kubernetes_pod_name)",
)
COLLECTIONS = f"sum(rate(jvm_gc_collection_seconds_sum{OURS}[5m])) by (kubernetes_pod_name)"
# The alerts of its example prometheus-kafka-connect-rules.yaml
ALERT = "sum(kafka_connect_worker_connector_failed_task_count) by (namespace, pod) > 0"
LINES = 1000


def test_strimzis_dashboard_shows_a_runtime(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "p", name="metrics")
    file = rig.source("in", topic="lines")
    file.write_text("line\n" * LINES)
    rig.sink("out", "lines")
    nowhere = {"connector.class": "FileStreamSink", "file": "/no/such/folder", "topics": "lines"}
    try:
        up = rig.up()
        with prometheus.prometheus(up.url, tmp_path) as found:
            rig.apply()
            rig.spec("broken", nowhere, state="running")
            rig("apply", "--yes", expect=1)
            for expression, expected in NUMBERS.items():
                wait_until(
                    lambda e=expression, n=expected: [v for _, v in found.query(e)] == [n],
                    what=expression,
                )
            _wait_until_positive(found, CONNECTIONS)
            with file.open("a") as more:
                more.write("line\n" * LINES)
            _wait_until_positive(found, POSITIVE)
            assert len(found.query(COLLECTIONS)) == 1
            assert [v for _, v in found.query(ALERT)] == [1]

            rows = {row["connector"]: row for row, _ in found.query(TABLE)}
            assert set(rows) == {"in", "out", "broken"}
            assert rows["in"]["status"] == "running"
            assert rows["in"]["connector_class"] == "FileStreamSource"
            assert rows["out"]["connector_type"] == "sink"
            tasks = {row["connector"]: row["status"] for row, _ in found.query(TASKS)}
            assert tasks == {"in": "running", "out": "running", "broken": "failed"}
            sent = 'kafka_connect_sink_task_sink_record_send_total{connector="out"}'
            wait_until(lambda: [v for _, v in found.query(sent)] == [2 * LINES], what="all lines")
            lag = "sum(kafka_consumer_fetch_manager_records_lag) by (clientid, topic)"
            assert found.query(lag) == [
                ({"clientid": "connector-consumer-out-0", "topic": "lines"}, 0)
            ]
        page = http.get(f"{up.url}/metrics", timeout=10).text
        # names that Connect and the JMX exporter gave
        odd = ('"_count" suffix', "abbreviated units")
        assert [line for line in prometheus.lint(page) if not line.endswith(odd)] == []
    finally:
        assert rig.end() == []


def _wait_until_positive(found: prometheus.Prometheus, expressions: Sequence[str]) -> None:
    for each in expressions:
        wait_until(lambda e=each: any(v > 0 for _, v in found.query(e)), what=each, timeout_s=90)
