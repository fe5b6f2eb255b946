"""Sinks whose plugins fail, on an Apache worker and on ours: retries, and records that a task
reports. The Java plugins are in oracle/plugins, those here do the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    DataError,
    Importance,
    RetriableError,
    SinkBatch,
    SinkTask,
    Transformation,
)
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd
from support import http
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.java_plugins import make_jar
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

CONNECT = "org.apache.kafka.connect"
SOURCE = Path(__file__).parents[2] / "oracle" / "plugins" / "FailingPlugins.java"
DLQ = "errors.deadletterqueue"
FOREVER = "1000000"


class Busy(Transformation):
    """Is busy at its first `times` attempts."""

    def config(self) -> ConfigDef:
        return ConfigDef().define("times", ConfigType.STRING, importance=Importance.LOW)

    def configure(self, options: Mapping[str, str]) -> None:
        self.left = int(options["times"])

    def apply(self, record: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise RetriableError("busy")
        return record


class Refusing(SinkTask):
    """Reports all records."""

    def start(self, props: Mapping[str, str]) -> None:
        pass

    def put(self, records: SinkBatch) -> None:
        reporter = self.context.errant_record_reporter
        assert reporter is not None
        for record in records:
            reporter.report(record, DataError("no room"))

    def stop(self) -> None:
        pass


@pytest.fixture(scope="module")
def worker(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("failing")
    (folder / "plugins").mkdir()
    services = {
        f"{CONNECT}.transforms.Transformation": "failing.FailingPlugins$Busy",
        f"{CONNECT}.sink.SinkConnector": "failing.FailingPlugins$Refusing",
    }
    make_jar(SOURCE, services, folder / "plugins" / "failing.jar")
    started = Oracle.start(folder, broker.bootstrap_servers, group_id=f"failing-{folder.name}")
    yield started
    started.kill()


def transformed(times: str, retry_timeout_ms: int) -> dict[str, str]:
    return {
        "connector.class": f"{CONNECT}.file.FileStreamSinkConnector",
        "transforms": "busy",
        "transforms.busy.type": "failing.FailingPlugins$Busy",
        "transforms.busy.times": times,
        "errors.retry.timeout": str(retry_timeout_ms),
    }


CASES = {
    "tried-again": transformed("2", 60_000),
    "given-up": transformed(FOREVER, 1_000),
    "not-tried-again": transformed("1", 0),
    "reported": {"connector.class": "failing.FailingPlugins$Refusing"},
}


def config(cluster: Any, case: str, name: str, folder: Path, tolerance: str) -> dict[str, str]:
    return {
        "name": name,
        "topics": cluster.data,
        "file": str(folder / name),
        "key.converter": f"{CONNECT}.storage.StringConverter",
        "value.converter": f"{CONNECT}.storage.StringConverter",
        "errors.tolerance": tolerance,
        f"{DLQ}.topic.name": f"{name}-dead",
        f"{DLQ}.topic.replication.factor": "1",
        f"{DLQ}.context.headers.enable": "true",
        "consumer.override.group.id": f"connect-{name}",
        **CASES[case],
    }


def shown(message: Message, name: str) -> dict[str, Any]:
    headers = [
        (key, b"c" if value == name.encode() else value)
        for key, value in message.headers() or []
        if not key.endswith("stacktrace")
    ]
    return {"key": message.key(), "value": message.value(), "headers": headers}


def dead(cluster: Any, name: str) -> list[dict[str, Any]]:
    found = read_to_end(cluster.bootstrap_servers, f"{name}-dead")
    return [shown(message, name) for message in found]


@pytest.mark.parametrize("tolerance", ["all", "none"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_happens(
    cluster: Any,
    topic: Any,
    worker: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    tolerance: str,
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(b"k", b"1"), (b"k", b"2")])
    fails = tolerance == "none" and case != "tried-again"
    letters = {"tried-again": 0, "not-tried-again": 1}.get(case, 1 if fails else 2)
    lines = {"tried-again": ["1", "2"], "not-tried-again": ["2"]}.get(case, [])
    lines = [] if fails else lines
    theirs, ours = f"{cluster.name}-theirs", f"{cluster.name}-ours"
    for name in (theirs, ours):
        create_topic(cluster.bootstrap_servers, f"{name}-dead")

    def done(name: str) -> bool:
        file = tmp_path / name
        written = file.read_text().split() if file.exists() else []
        return len(dead(cluster, name)) >= letters and len(written) >= len(lines)

    with http.client(worker.url, timeout_s=100) as client:
        put = config(cluster, case, theirs, tmp_path, tolerance)
        client.put(f"/connectors/{theirs}/config", json=put).raise_for_status()
        wait_until(lambda: done(theirs), what="theirs", timeout_s=60)

        def status() -> Any:
            found = client.get(f"/connectors/{theirs}/status").json()["tasks"]
            return found and (not fails or found[0]["state"] == "FAILED") and found[0]

        found = wait_until(status, what="their status", timeout_s=60)
        client.delete(f"/connectors/{theirs}")

    module = cluster.name.replace("-", "_")
    monkeypatch.setitem(
        sys.modules,
        module,
        SimpleNamespace(Busy=Busy, Refusing=Refusing),  # type: ignore[arg-type]
    )
    allow_modules({PLUGIN_MODULES: module})
    given = config(cluster, case, ours, tmp_path, tolerance)
    given["task.class"] = (
        f"{module}:Refusing" if case == "reported" else f"{CONNECT}.file.FileStreamSinkTask"
    )
    if "transforms" in given:
        given["transforms.busy.type"] = f"{module}:Busy"
    task = TaskId(ours, 0)
    cluster.assign(task, 1)
    running = cluster.run(cluster.launch(task, given))
    wait_until(lambda: done(ours), what="ours")
    if not fails:
        cluster.assign(task, None)
    outcome = running.outcome()

    assert outcome.ended is (AttemptEnd.FAILED if fails else AttemptEnd.STOPPED)
    assert len(dead(cluster, theirs)) == letters
    assert len(dead(cluster, ours)) == letters
    for mine, its in zip(dead(cluster, ours), dead(cluster, theirs), strict=True):
        assert _without_class(mine) == _without_class(its)
    written = [(tmp_path / n).read_text().split() if lines else [] for n in (ours, theirs)]
    assert written == [lines, lines]
    if fails:
        for trace in (outcome.trace, found["trace"]):
            assert "Tolerance exceeded in error handler" in (trace or "")


def _without_class(letter: dict[str, Any]) -> dict[str, Any]:
    """A transformation has another name in Python."""
    headers = dict(letter["headers"])
    name = headers["__connect.errors.class.name"]
    if name != f"{CONNECT}.sink.SinkTask".encode():
        assert name.endswith(b"Busy")
        headers.pop("__connect.errors.class.name")
    return {**letter, "headers": list(headers.items())}
