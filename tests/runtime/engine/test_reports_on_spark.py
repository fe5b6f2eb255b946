"""What operators see of a Java task in `connect distributed`: metrics, levels and logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.broker import BrokerAddress
from support.distributed import Runtime, start_runtime
from support.java_plugins import SOURCE, add_compiled
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

LOGGER = "org.apache.kafka.connect.runtime.AbstractWorkerSourceTask"
START_S = 180


@pytest.fixture
def runtime(broker: BrokerAddress, rig: Rig, tmp_path: Path) -> Iterator[Runtime]:
    """A runtime with one Java task, RUNNING."""
    plugins = tmp_path / "plugins"
    add_compiled("Reporting", {SOURCE: "tests.Reporting"}, plugins)
    settings = {"plugin.path": str(plugins)}
    runtime = start_runtime(rig, broker.bootstrap_servers, tmp_path, settings)
    try:
        wait_until(lambda: runtime.at.get("/health"), what="its health", timeout_s=START_S)
        config = {"connector.class": "Reporting", "topic": rig.name, "tasks.max": "1"}
        put(runtime, "/connectors/c/config", config)
        wait_until(
            lambda: (
                (s := runtime.at.get("/connectors/c/status"))
                and [task["state"] for task in s["tasks"]] == ["RUNNING"]
            ),
            what="its task",
            timeout_s=START_S,
        )
        yield runtime
    finally:
        runtime.command.terminate()
        runtime.command.wait(60)


def put(runtime: Runtime, path: str, body: object) -> httpx.Response:
    return httpx.put(f"{runtime.at.url}{path}", json=body, timeout=90).raise_for_status()


def task_samples(runtime: Runtime) -> dict[str, float]:
    """The samples of the task on the page."""
    text = httpx.get(f"{runtime.at.url}/metrics", timeout=30).text
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {s.name: s.value for s in samples if s.labels.get("task") == "0"}


def test_metrics_levels_and_logs_of_a_java_task(runtime: Runtime, rig: Rig) -> None:
    wait_until(
        lambda: task_samples(runtime).get("kafka_connect_source_task_source_record_write_total"),
        what="its counts",
        timeout_s=START_S,
    )
    samples = task_samples(runtime)
    assert samples["debezium_metrics_MilliSecondsBehindSource"] == 12
    assert samples["kafka_connect_plugins_rows_read"] == 5

    log = runtime.folder / ".connect" / "spark" / "spark.log"

    def traces() -> int:
        lines = log.read_text(errors="replace").splitlines()
        return sum("TRACE [c|task-0] " in line and line.endswith(f"({LOGGER})") for line in lines)

    assert not traces()
    put(runtime, f"/admin/loggers/{LOGGER}", {"level": "TRACE"})
    wait_until(traces, what="lines of the task at this level", timeout_s=START_S)
    levels = runtime.at.get("/admin/loggers")
    assert levels is not None and levels[LOGGER]["level"] == "TRACE"

    shown = rig("-C", str(runtime.folder), "logs", "c").stdout
    of_plugin = [line for line in shown.splitlines() if line.endswith("(stdout)")]
    assert len(of_plugin) == 1 and "INFO [c|task-0] printed" in of_plugin[0]
    assert "Caused by: org.apache.kafka.connect.errors.ConnectException: second" in shown
