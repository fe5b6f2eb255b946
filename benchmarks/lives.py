"""A hundred connectors through their lives, and the start of many tasks at once. In seconds, from
the first request until the last connector is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from benchmarks.topics import admin_client
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import SOURCE

_PATIENCE_S: Final = 300.0


def life_of_many(worker: Worker, folder: Path, count: int, prefix: str) -> dict[str, float]:
    """Seconds to create `count` file sources until all run, to stop, reset and delete them."""
    names = [f"{prefix}-{number}" for number in range(count)]

    def stopped() -> bool:
        return all(
            each["connector"]["state"] == "STOPPED" and not each["tasks"]
            for each in worker.statuses().values()
        )

    def deleted() -> bool:
        return not worker.call("GET", "/connectors")

    return {
        "running": start_many(worker, folder, names, prefix),
        "stop": _timed(names, lambda n: worker.call("PUT", f"/connectors/{n}/stop"), stopped),
        "reset": _timed(
            names, lambda n: worker.call("DELETE", f"/connectors/{n}/offsets"), lambda: True
        ),
        "delete": _timed(names, lambda n: worker.call("DELETE", f"/connectors/{n}"), deleted),
    }


def starts(worker: Worker, folder: Path, count: int, prefix: str) -> tuple[float, float]:
    """Seconds until `count` tasks run, and seconds of CPU that the worker's processes took."""
    before = worker.cpu_times()
    took = start_many(worker, folder, [f"{prefix}-{n}" for n in range(count)], prefix)
    return took, worker.cpu_since(before)


def fill_offsets(bootstrap: str, topic: str, count: int) -> None:
    """An offsets topic of 25 partitions with `count` offsets of a connector that is not there."""
    admin = admin_client(bootstrap)
    settings = {"cleanup.policy": "compact"}
    admin.create_topics([NewTopic(topic, 25, 1, config=settings)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(count):
        if number % 10_000 == 0:
            producer.flush(_PATIENCE_S)
        producer.produce(topic, key=f'["other",{{"table":{number}}}]', value='{"position":1}')
    producer.flush(_PATIENCE_S)


def start_many(
    worker: Worker, folder: Path, names: list[str], topic: str, *, look_every_s: float = 0.1
) -> float:
    """Seconds to create file sources of these names until all run."""
    file = folder / f"{topic}.txt"
    file.write_text("one line\n")

    def create(name: str) -> None:
        config = {"connector.class": SOURCE, "file": str(file), "topic": topic, "tasks.max": "1"}
        worker.call("POST", "/connectors", {"name": name, "config": config})

    def running() -> bool:
        found = worker.statuses()
        return len(found) == len(names) and all(
            each["connector"]["state"] == "RUNNING"
            and [task["state"] for task in each["tasks"]] == ["RUNNING"]
            for each in found.values()
        )

    return _timed(names, create, running, look_every_s)


def _timed(
    names: list[str],
    act: Callable[[str], object],
    done: Callable[[], bool],
    look_every_s: float = 0.1,
) -> float:
    began = time.monotonic()
    for name in names:
        act(name)
    wait_for(done, "all connectors to get there", _PATIENCE_S, look_every_s)
    return time.monotonic() - began
