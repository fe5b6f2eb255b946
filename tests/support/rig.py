"""A whole project of a test's own: command, Kafka, runtime, and what Kafka holds of it.

Everything started here carries a mark, so that `leftovers` finds what a test did not end.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import httpx
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from connect_runtime.kafka import clients
from connect_runtime.kafka.embedded import BrokerRecord, find_broker
from connect_runtime.kafka.errors import NO_SUCH_TOPIC
from connect_runtime.kafka.local_processes import end_process, is_alive
from connect_runtime.kafka.topics import list_offsets
from connect_specs.names import ClusterTopics
from support import http, processes
from support.command import CONNECT, run_connect
from support.processes import Process
from support.wait import wait_until

_MARK = "CONNECT_TEST_MARK"
_TESTS = Path(__file__).parents[1]

_PROJECT = """\
project: {name}
cluster:
  group.id: {name}
  kafka: {kafka}
  worker:
    key.converter: org.apache.kafka.connect.storage.StringConverter
    value.converter: org.apache.kafka.connect.storage.StringConverter
    offset.flush.interval.ms: 500
    offset.storage.partitions: 1
    consumer.session.timeout.ms: 6000
    listeners: http://127.0.0.1:{port}
    plugin.modules: support
specs: [connectors/]
"""
_SPEC = """\
name: {name}
state: {state}
config:
  tasks.max: 1
{config}{offsets}"""
_TYPE = "org.apache.kafka.connect.transforms"
# A chain of transformations after which lines are what they were
TRANSFORMED = {
    "transforms": "hoist,extract",
    "transforms.hoist.type": f"{_TYPE}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.extract.type": f"{_TYPE}.ExtractField$Value",
    "transforms.extract.field": "line",
}


@dataclass(frozen=True, slots=True)
class Up:
    """A runtime that is up, by the session that its process leads."""

    url: str
    kafka: str
    pid: int

    @property
    def processes(self) -> list[Process]:
        """The runtime's own process, Spark's JVM and its Python; not the broker."""
        return processes.of_session(self.pid)

    def get(self, path: str) -> Any:
        """What REST answers; None while it does not, or says that it cannot."""
        try:
            answer = http.get(f"{self.url}{path}", timeout=10)
        except httpx.TransportError:
            return None
        return answer.json() if answer.is_success else None


@dataclass(slots=True)
class Rig:
    """A project in a folder. `kafka` is `embedded`, or client properties as YAML."""

    folder: Path
    name: str = "rig"
    kafka: str = "embedded"
    port: int = 0
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        (self.folder / "connectors").mkdir(parents=True)
        text = _PROJECT.format(name=self.name, kafka=self.kafka, port=self.port)
        (self.folder / "connect.yaml").write_text(text)

    def set_worker(self, keys: Mapping[str, str]) -> None:
        """Adds keys of the worker to the project."""
        file = self.folder / "connect.yaml"
        lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in keys.items())
        file.write_text(file.read_text().replace("  worker:\n", f"  worker:\n{lines}"))

    # --- the command ---

    @property
    def environment(self) -> dict[str, str]:
        """The mark, and the way to what tests bring along."""
        paths = os.pathsep.join(filter(None, (str(_TESTS), os.environ.get("PYTHONPATH"))))
        return os.environ | {_MARK: self.mark, "PYTHONPATH": paths, "COLUMNS": "120"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The command as a process of the test's, with its outputs piped."""
        return self._start(*CONNECT, *words)

    def start_logging(
        self,
        log: BinaryIO,
        *words: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """The command as a process of the test's, which writes all it says to `log`, but its
        results to `stdout` if that is given."""
        return subprocess.Popen(
            [*CONNECT, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )

    def start_pausing(self, moment: str, *words: str) -> subprocess.Popen[str]:
        """The same; it says `at <moment>` on stdout when it gets there and waits for ever."""
        return self._start(sys.executable, "-P", "-m", "support.pausing", moment, *words)

    def _start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # as a shell with job control does: it can be told from the tests
            start_new_session=True,
        )

    def __call__(
        self, *words: str, expect: int | None = 0, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end; `expect` is its exit code."""
        done = run_connect(
            words, folder=self.folder, environment=self.environment, timeout_s=timeout_s
        )
        if expect is not None:
            told = done.stderr + done.stdout[-2000:]
            assert done.returncode == expect, f"{words}: {done.returncode}\n{told}"
        return done

    def up(self) -> Up:
        """`connect up --detach`."""
        found = json.loads(self("up", "--detach", "--json").stdout)
        return Up(found["url"], found["kafka"], found["pid"])

    @property
    def running(self) -> Up | None:
        """The runtime that is up, as `up` recorded it."""
        record = self.folder / ".connect" / "runtime.json"
        if self.broker is None or not record.exists():
            return None
        found = json.loads(record.read_text())
        if not is_alive(found["pid"], found["started"]):
            return None
        return Up(found["url"], f"127.0.0.1:{self.broker.port}", found["pid"])

    def apply(self) -> dict[str, Any]:
        """`connect apply --yes`, which must succeed, also after `no_specs`."""
        told = self("apply", "--yes", "--allow-empty", "--json")
        answer: dict[str, Any] = json.loads(told.stdout)
        return answer

    def assert_nothing_to_do(self) -> None:
        """The law: the plan after an apply is empty."""
        plan = self("plan", "--detailed-exitcode", expect=None)
        assert plan.returncode == 0, plan.stdout + plan.stderr

    def states(self) -> dict[str, tuple[str, list[str]]]:
        """The states of each connector on the cluster, and of its tasks."""
        shown = json.loads(self("status", "--json").stdout)["connectors"]
        return {
            each["name"]: (
                each["connector"]["state"] if each["connector"] else "NONE",
                [task["state"] for task in each["tasks"]],
            )
            for each in shown
            if each["state"] != "MISSING"
        }

    # --- specs ---

    def source(self, name: str, state: str = "running", offsets: str = "", **config: str) -> Path:
        """A file source of the file `<name>.in` into the topic `<name>`; returns the file."""
        file = self.folder / f"{name}.in"
        given = {"connector.class": "FileStreamSource", "file": str(file), "topic": name} | config
        self.spec(name, given, state=state, offsets=offsets)
        return file

    def sink(self, name: str, topic: str, state: str = "running", offsets: str = "") -> Path:
        """A file sink of a topic into the file `<name>.out`; returns the file."""
        file = self.folder / f"{name}.out"
        given = {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}
        self.spec(name, given, state=state, offsets=offsets)
        return file

    def spec(self, name: str, config: Mapping[str, str], *, state: str, offsets: str = "") -> None:
        """Writes a spec."""
        lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in config.items())
        text = _SPEC.format(name=name, state=state, config=lines, offsets=offsets)
        (self.folder / "connectors" / f"{name}.yaml").write_text(text)

    def no_specs(self) -> None:
        """Removes every spec."""
        for file in (self.folder / "connectors").iterdir():
            file.unlink()

    # --- processes ---

    @property
    def broker(self) -> BrokerRecord | None:
        """The project's own Kafka."""
        return find_broker(self.folder / ".connect" / "broker")

    def leftovers(self) -> list[Process]:
        """Everything alive that was started here."""
        return processes.marked(f"{_MARK}={self.mark}")

    def end(self) -> list[Process]:
        """Ends the project as a user would; returns what survived that, and kills it.

        A worker that was just being forked is an orphan then, and ends within 5 s by itself.
        """
        done = self("down", expect=None)
        with suppress(AssertionError):
            wait_until(lambda: not self.leftovers(), what="all to be gone", timeout_s=8)
        left = self.leftovers()
        for each in left:
            end_process(each.pid, each.started, patience_s=0)
        assert done.returncode == 0, done.stderr
        return left

    # --- Kafka ---

    @property
    def topics(self) -> ClusterTopics:
        """The cluster's own topics."""
        return ClusterTopics.of(self.name)


class Ends:
    """Where the partitions of topics end."""

    def __init__(self, kafka: str) -> None:
        self._admin = clients.admin({"bootstrap.servers": kafka}, {"log_level": 0})

    def high(self, topic: str, partition: int = 0) -> int:
        """The end of all records; 0 while there is no such topic."""
        return self._end(topic, partition, IsolationLevel.READ_UNCOMMITTED)

    def stable(self, topic: str, partition: int = 0) -> int:
        """The last stable offset: where the first open transaction begins, or the end."""
        return self._end(topic, partition, IsolationLevel.READ_COMMITTED)

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """What a consumer group has committed; 0 if nothing."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        found = self._admin.list_consumer_group_offsets([asked])[group].result(15)
        return max(0, int(found.topic_partitions[0].offset))

    def _end(self, topic: str, partition: int, isolation: IsolationLevel) -> int:
        at = TopicPartition(topic, partition)
        asked = {at: OffsetSpec.latest()}
        (found,) = list_offsets(self._admin, [asked], isolation=isolation, timeout_s=10)
        end = found[topic, partition]
        if not isinstance(end, KafkaError):
            return int(end.offset)
        if end.code() in NO_SUCH_TOPIC:
            return 0
        raise KafkaException(end)


class Tail:
    """What is committed to one topic from where it ends now."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": "tail",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
            }
        )
        known = self._consumer.list_topics(topic, timeout=10).topics[topic]
        ends = Ends(kafka)
        self._consumer.assign(
            [TopicPartition(topic, at, ends.high(topic, at)) for at in known.partitions]
        )
        self._seen: list[tuple[bytes, Any]] = []

    def seen(self) -> list[tuple[bytes, Any]]:
        """All keys and values (JSON) so far."""
        for message in self._consumer.consume(1000, timeout=0.005):
            if message.error() is None:
                value = message.value()
                self._seen.append((message.key(), None if value is None else json.loads(value)))
        return self._seen

    def wait_for(self, key: str, *, timeout_s: float = 30) -> Any:
        """The value of the first record with this key."""
        return wait_until(
            lambda: [value for found, value in self.seen() if found == key.encode()],
            what=f"a record of {key}",
            timeout_s=timeout_s,
            every_s=0.001,
        )[0]

    def wait_until_runs(self, connector: str, *, timeout_s: float = 60) -> None:
        """Of the status topic: until the connector's first task has said so."""
        key = f"status-task-{connector}-0".encode()
        wait_until(
            lambda: any(
                found == key and value is not None and value["state"] == "RUNNING"
                for found, value in self.seen()
            ),
            what=f"{connector} to run",
            timeout_s=timeout_s,
        )

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def committed_lines(kafka: str, topic: str) -> Iterator[str]:
    """Every committed record of a topic, up to the last stable offset of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "count",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            # a topic that is not made yet has no partitions
            if ended == {*known}:
                return
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                deadline = time.monotonic() + 60
                yield message.value().decode()
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            else:
                ended.add(message.partition())
        raise AssertionError(f"{topic} gave nothing for 60 s, and did not end")
    finally:
        consumer.close()


def lines_of(file: Path) -> list[str]:
    """A sink's file, its unfinished last line included."""
    return file.read_text(errors="replace").splitlines() if file.exists() else []


def count_of(file: Path) -> int:
    """How many lines a file has."""
    if not file.exists():
        return 0
    with file.open("rb") as text:
        return sum(block.count(b"\n") for block in iter(lambda: text.read(1 << 20), b""))
