"""Kafka's own performance tests, on the same broker: the limit for sources and sinks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from benchmarks.inputs import Inputs
from benchmarks.topics import delete_topic, make_topic, read_topic
from benchmarks.workloads import Workload
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java

NAMES: Final = {
    "source": "`kafka-producer-perf-test`, transactions of 100 ms",
    "sink": "`kafka-consumer-perf-test`, read_committed",
}
_LINE: Final = 99  # bytes of a line of 100 without its end
_TIMEOUT_S: Final = 300


def limit_rate(workload: Workload, made: Inputs, folder: Path, bootstrap: str, name: str) -> float:
    """Records a second of the performance test that a workload is compared with."""
    if workload.kind == "source":
        return _produce(bootstrap, name, workload.records.count)
    return _consume(bootstrap, folder, name, made.topic(workload.records), workload.records.count)


def _produce(bootstrap: str, topic: str, count: int) -> float:
    """Measured as sources are: from the first append to the last."""
    make_topic(bootstrap, topic)
    _run(
        *("ProducerPerformance", "--topic", topic, "--num-records", str(count)),
        *("--record-size", str(_LINE), "--throughput", "-1"),
        *("--transactional-id", topic, "--transaction-duration-ms", "100"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all"),
    )
    try:
        return count / read_topic(bootstrap, topic, count).took_s
    finally:
        delete_topic(bootstrap, topic)


def _consume(bootstrap: str, folder: Path, group: str, topic: str, count: int) -> float:
    """The test's own figure, without the time until the consumer has its partition."""
    config = folder / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    shown = _run(
        *("ConsumerPerformance", "--topic", topic, "--messages", str(count)),
        *("--bootstrap-server", bootstrap, "--group", group),
        *("--consumer.config", str(config)),
    )
    names, values = (
        [cell.strip() for cell in line.split(",")] for line in shown.strip().splitlines()[-2:]
    )
    found = dict(zip(names, values, strict=True))
    if int(found["data.consumed.in.nMsg"]) < count:
        raise RuntimeError(f"kafka-consumer-perf-test read {found['data.consumed.in.nMsg']}")
    return float(found["fetch.nMsg.sec"])


def _run(tool: str, *options: str) -> str:
    java = find_java()
    if java is None:
        raise RuntimeError("Java not found")
    command = [str(java), "-cp", classpath("tools"), f"org.apache.kafka.tools.{tool}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{tool}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    return done.stdout
