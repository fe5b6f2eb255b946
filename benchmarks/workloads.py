"""What is measured: a file source, a file sink, and a hundred connectors through their lives.

Rates are taken from what arrived: append times of the topic's records, growth of the sink's file.
Each workload returns figures by name; seconds, or records a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.worker import Worker, wait_for

LINE = 100
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_PATIENCE_S = 300.0


def write_lines(file: Path, count: int) -> None:
    """`count` numbered lines of 100 bytes, the line end included."""
    padding = "x" * (LINE - 11)
    with file.open("w") as out:
        out.writelines(f"{number:09d} {padding}\n" for number in range(count))


def make_topic(bootstrap: str, topic: str) -> None:
    """One partition; records get the time of their append."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"message.timestamp.type": "LogAppendTime", "segment.bytes": "1073741824"}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)


def source_rate(worker: Worker, bootstrap: str, lines: Path, count: int, topic: str) -> float:
    """Records a second from the first append of an exactly-once file source to the last."""
    make_topic(bootstrap, topic)
    config = {"connector.class": SOURCE, "file": str(lines), "topic": topic, "tasks.max": "1"}
    worker.call("POST", "/connectors", {"name": topic, "config": config})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait_for(lambda: _records(admin, topic) >= count, "the last record", _PATIENCE_S, 0.1)
    with _Log(bootstrap, topic) as log:
        first, last = log.append_times(count)
    worker.call("DELETE", f"/connectors/{topic}")
    return count / max(last - first, 0.001)


def sink_rate(worker: Worker, topic: str, count: int, name: str, file: Path) -> float:
    """Lines a second from the first bytes in the sink's file to the last."""
    config = {
        "connector.class": SINK,
        "file": str(file),
        "topics": topic,
        "tasks.max": "1",
        "consumer.override.isolation.level": "read_committed",
    }
    worker.call("POST", "/connectors", {"name": name, "config": config})
    whole = count * LINE
    wait_for(lambda: _size(file) > 0, "the sink's first line", _PATIENCE_S, 0.002)
    began, had = time.monotonic(), _size(file)
    wait_for(lambda: _size(file) >= whole, "the sink's last line", _PATIENCE_S, 0.002)
    took = time.monotonic() - began
    worker.call("DELETE", f"/connectors/{name}")
    return (whole - had) / LINE / took


def start_many(worker: Worker, folder: Path, names: list[str], topic: str) -> float:
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

    return _timed(names, create, running)


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


def fill_offsets(bootstrap: str, topic: str, count: int) -> None:
    """An offsets topic of 25 partitions with `count` offsets of a connector that is not there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"cleanup.policy": "compact"}
    admin.create_topics([NewTopic(topic, 25, 1, config=settings)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(count):
        if number % 10_000 == 0:
            producer.flush(_PATIENCE_S)
        producer.produce(topic, key=f'["other",{{"table":{number}}}]', value='{"position":1}')
    producer.flush(_PATIENCE_S)


def starts(worker: Worker, folder: Path, count: int, prefix: str) -> tuple[float, float]:
    """Seconds until `count` tasks run, and seconds of CPU that the worker's processes took."""
    used = cpu_s(worker.process.pid)
    took = start_many(worker, folder, [f"{prefix}-{n}" for n in range(count)], prefix)
    return took, cpu_s(worker.process.pid) - used


def cpu_s(pid: int) -> float:
    """User and system time of a process and of all processes below it, in seconds."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        times[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    below = {pid}
    while True:
        more = {each for each, parent in parents.items() if parent in below} - below
        if not more:
            return sum(times.get(each, 0.0) for each in below)
        below |= more


def _timed(names: list[str], act: Callable[[str], object], done: Callable[[], bool]) -> float:
    began = time.monotonic()
    for name in names:
        act(name)
    wait_for(done, "all connectors to get there", _PATIENCE_S, 0.1)
    return time.monotonic() - began


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _records(admin: AdminClient, topic: str) -> int:
    """The topic's end offset: records and control records."""
    partition = TopicPartition(topic, 0)
    ends = admin.list_offsets({partition: OffsetSpec.latest()})
    return int(ends[partition].result(30).offset)


class _Log:
    """Reads append times at both ends of a topic of one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-look",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def append_times(self, count: int) -> tuple[float, float]:
        """Seconds since the epoch of the first and of the `count`-th record; waits for them."""
        first = self._record(0)
        last, seen = first, 1
        deadline = time.monotonic() + _PATIENCE_S
        while seen < count:
            messages = [m for m in self._consumer.consume(10_000, 1.0) if not m.error()]
            if messages:
                seen += len(messages)
                last = messages[-1].timestamp()[1] / 1000
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{seen} of {count} records came in {_PATIENCE_S:.0f} s")
        return first, last

    def _record(self, offset: int) -> float:
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.5)
            if message is not None and not message.error():
                return float(message.timestamp()[1]) / 1000
        raise RuntimeError("the first record never came")
