"""A Java connector in `connect distributed`: REST, Spark, a JVM for its task, and kills of both."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from support.broker import BrokerAddress, read_to_end
from support.distributed import Runtime, start_runtime
from support.java_plugins import make_jar
from support.processes import Process, kill, process
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
PLUGIN = Path(__file__).with_name("plugins") / "Counting.java"


def task_jvm(runtime: Runtime) -> Process | None:
    """The JVM of the only task: a child of the task's Python process."""
    tasks = {task.pid for task in runtime.tasks}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) in tasks:
                return process(int(stat.parent.name))
    return None


def _has_ended(jvm: Process) -> bool:
    return not jvm.alive


def test_each_record_is_written_once_though_jvms_and_task_processes_are_killed(
    broker: BrokerAddress, rig: Rig, unique: str, tmp_path: Path
) -> None:
    jar = tmp_path / "counting.jar"
    make_jar(PLUGIN, {SOURCE: "tests.Counting"}, jar)
    (tmp_path / "plugins" / "counting").mkdir(parents=True)
    jar.rename(tmp_path / "plugins" / "counting" / jar.name)
    settings = {"plugin.path": str(tmp_path / "plugins")}
    runtime = start_runtime(rig, broker.bootstrap_servers, tmp_path, settings)
    try:
        wait_until(lambda: runtime.at.get("/health"), what="its health")
        _count_through_kills(runtime, broker, unique)
    finally:
        runtime.command.terminate()
        runtime.command.wait(60)


def _count_through_kills(runtime: Runtime, broker: BrokerAddress, topic: str) -> None:
    config = {"connector.class": "Counting", "topic": topic, "tasks.max": "1"}
    with httpx.Client(base_url=runtime.at.url, timeout=90) as client:
        assert client.put("/connectors/c/config", json=config).status_code == 201

        def count() -> int:
            return len(read_to_end(broker.bootstrap_servers, topic))

        def more() -> None:
            before = count()
            wait_until(lambda: count() > before + 20, what="further records", timeout_s=90)

        more()
        for _ in range(2):
            jvm = wait_until(lambda: task_jvm(runtime), what="the task's JVM")
            kill(jvm)
            more()
            (task,) = wait_until(lambda: runtime.tasks, what="the task's process")
            jvm = wait_until(lambda: task_jvm(runtime), what="the task's JVM")
            kill(task)
            wait_until(partial(_has_ended, jvm), what="the JVM of a killed task to end")
            more()
        client.put("/connectors/c/stop").raise_for_status()
        wait_until(lambda: task_jvm(runtime) is None, what="the JVM to end")
        records = [int(m.value() or b"") for m in read_to_end(broker.bootstrap_servers, topic)]
        assert records == list(range(1, len(records) + 1))
        offsets = client.get("/connectors/c/offsets").json()["offsets"]
        assert offsets == [{"partition": {"number": "0"}, "offset": {"count": len(records)}}]
