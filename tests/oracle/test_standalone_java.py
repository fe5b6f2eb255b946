"""Java connectors in standalone mode beside a real standalone worker: the same files, one at a
time."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from connect_runtime.java.offset_bytes import NotAMap, decode_map
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support import http
from support.broker import BrokerAddress, create_topic, read_to_end
from support.java_plugins import make_jar
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
SINK = "org.apache.kafka.connect.sink.SinkConnector"
PLUGIN = Path(__file__).parents[1] / "runtime" / "engine" / "plugins" / "Counting.java"
TASKS = 2
START_S = 120
WORKER = """\
bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=200
listeners={url}
plugin.path={folder}/plugins
"""
# What a standalone worker answers otherwise than a distributed one, and what Connect refuses
CONFIGS: tuple[Mapping[str, str], ...] = (
    {},
    {"tasks.max": "x"},
    {"exactly.once.support": "required", "topic": "t"},
    {"transaction.boundary": "connector", "topic": "t"},
    {"topic": "t", "producer.override.acks": "0", "transforms": "a"},
    {"topic": "t", "offsets.storage.topic": "own"},
)


@dataclass(frozen=True, slots=True)
class Files:
    """A worker's file and those of a source of two tasks and a sink, for either worker."""

    rig: Rig
    kafka: str
    url: str
    topic: str

    @property
    def folder(self) -> Path:
        return self.rig.folder

    def write(self) -> None:
        text = WORKER.format(kafka=self.kafka, folder=self.folder, url=self.url)
        (self.folder / "worker.properties").write_text(text)
        source = {"connector.class": "tests.Counting", "topic": self.topic, "tasks.max": str(TASKS)}
        (self.folder / "source.json").write_text(json.dumps({"name": "source", "config": source}))
        sink = {"name": "sink", "connector.class": "tests.Counting$Lines", "topics": self.topic}
        sink["path"] = str(self.lines)
        (self.folder / "sink.properties").write_text("".join(f"{k}={v}\n" for k, v in sink.items()))

    @property
    def lines(self) -> Path:
        return self.folder / "lines.txt"

    def counts(self) -> dict[str, list[int]]:
        """The numbers in Kafka, by task."""
        counts: dict[str, list[int]] = {str(task): [] for task in range(TASKS)}
        for message in read_to_end(self.kafka, self.topic):
            counts[(message.key() or b"").decode()].append(int(message.value() or b""))
        return counts

    def sunk(self) -> list[int]:
        """The numbers that the sink has written, in the order of the topic."""
        text = self.lines.read_text() if self.lines.exists() else ""
        return [int(line) for line in text.splitlines()]

    def sent(self) -> list[int]:
        """The numbers in Kafka, in the order of the topic."""
        return [int(message.value() or b"") for message in read_to_end(self.kafka, self.topic)]

    def in_file(self) -> dict[str, int]:
        """The offsets in the workers' file, by task."""
        try:
            entries = decode_map((self.folder / "connect.offsets").read_bytes())
        except (NotAMap, FileNotFoundError):
            return {}
        return {
            json.loads(key or b"")[1]["number"]: json.loads(value or b"")["count"]
            for key, value in entries.items()
        }

    def rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return http.request(method, f"{self.url}{path}", json=body, timeout=90)

    def serves(self) -> bool:
        """Whether a worker has started."""
        try:
            return len(self.rest("GET", "/connectors").json()) == 2
        except httpx.TransportError:
            return False

    def wait_for_more(self) -> None:
        """Until both tasks have written 50 more, and the sink all of that."""
        wait_until(self.serves, what="REST", timeout_s=START_S)
        before = {task: len(numbers) for task, numbers in self.counts().items()}
        wait_until(
            lambda: all(len(now) >= before[task] + 50 for task, now in self.counts().items()),
            what="more records of both tasks",
            timeout_s=START_S,
        )
        sent = len(self.sent())
        wait_until(lambda: len(self.sunk()) >= sent, what="the sink's lines", timeout_s=START_S)

    def answers(self) -> list[Any]:
        """The worker's answers to configs, without the worker's own names."""
        path = "/connector-plugins/tests.Counting/config/validate"
        common = {"connector.class": "tests.Counting", "name": "c"}
        return [self.rest("PUT", path, {**common, **config}).json() for config in CONFIGS]

    def offsets(self) -> Any:
        rows = self.rest("GET", "/connectors/source/offsets").json()["offsets"]
        return sorted(rows, key=lambda row: str(row["partition"]))

    def stop(self) -> dict[str, int]:
        """Stops the source; returns the offsets that REST then shows."""
        assert self.rest("PUT", "/connectors/source/stop").status_code == 204

        def stopped() -> bool:
            status = self.rest("GET", "/connectors/source/status").json()
            return (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])

        wait_until(stopped, what="the source to be stopped", timeout_s=START_S)
        return {row["partition"]["number"]: row["offset"]["count"] for row in self.offsets()}


@pytest.fixture
def files(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Files]:
    rig = Rig(tmp_path / "rig")
    (rig.folder / "plugins" / "counting").mkdir(parents=True)
    jar = tmp_path / "counting.jar"
    make_jar(PLUGIN, {SOURCE: "tests.Counting", SINK: "tests.Counting$Lines"}, jar)
    jar.rename(rig.folder / "plugins" / "counting" / jar.name)
    files = Files(rig, broker.bootstrap_servers, f"http://{LOOPBACK}:{free_port()}", unique)
    files.write()
    create_topic(files.kafka, unique)
    yield files
    assert rig.end() == []


@contextmanager
def ours(files: Files, end: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    names = ("worker.properties", "source.json", "sink.properties")
    with (files.folder / "ours.log").open("ab") as log:
        started = files.rig.start_logging(log, "standalone", *names)
    try:
        yield
    finally:
        started.send_signal(end)
        code = started.wait(60)
    expected = 0 if end is signal.SIGTERM else -end
    assert code == expected, (files.folder / "ours.log").read_text()


@contextmanager
def theirs(files: Files) -> Iterator[None]:
    connectors = (files.folder / "source.json", files.folder / "sink.properties")
    started = Oracle.standalone(files.folder / "worker.properties", connectors, files.url)
    try:
        yield
    finally:
        started.stop()


def test_each_worker_continues_from_the_offsets_of_the_other(files: Files) -> None:
    with ours(files):
        files.wait_for_more()
        answers = files.answers()
        topics = files.rest("GET", "/connectors/source/topics").json()
        assert topics == {"source": {"topics": [files.topic]}}
        at_stop = files.stop()
        assert files.in_file() == at_stop
    counts = files.counts()
    assert at_stop == {task: len(numbers) for task, numbers in counts.items()}
    with theirs(files):
        files.wait_for_more()
        for config, our, their in zip(CONFIGS, answers, files.answers(), strict=True):
            assert our == their, config
        at_stop = files.stop()
    with ours(files):
        files.wait_for_more()
    counts = files.counts()
    assert files.in_file() == {task: len(numbers) for task, numbers in counts.items()}
    for numbers in counts.values():
        assert numbers == list(range(1, len(numbers) + 1))
    sunk = files.sunk()
    assert sunk == files.sent()[: len(sunk)]


def test_a_worker_that_is_killed_sends_again_and_loses_nothing(files: Files) -> None:
    with ours(files, end=signal.SIGKILL):
        files.wait_for_more()
        wait_until(lambda: len(files.in_file()) == TASKS, what="offsets in the file")
    with ours(files):
        files.wait_for_more()
        assert files.stop() == files.in_file()
    for task, numbers in files.counts().items():
        assert list(dict.fromkeys(numbers)) == list(range(1, files.in_file()[task] + 1))


def test_offsets_that_were_moved_over_rest_are_in_the_file(files: Files) -> None:
    with ours(files):
        files.wait_for_more()
        files.stop()
        partition = {"number": "0"}
        wrong = {"offsets": [{"partition": partition, "offset": {"count": "many"}}]}
        answer = files.rest("PATCH", "/connectors/source/offsets", wrong)
        assert (answer.status_code, "count must be a number" in answer.text) == (500, True)
        moved = {"offsets": [{"partition": partition, "offset": {"count": 1_000_000}}]}
        assert files.rest("PATCH", "/connectors/source/offsets", moved).status_code == 200
        assert files.in_file()["0"] == 1_000_000
    with theirs(files):
        files.wait_for_more()
    assert 1_000_001 in files.counts()["0"]


def test_a_java_connector_that_is_not_valid_starts_nothing(files: Files) -> None:
    (files.folder / "source.json").write_text(
        json.dumps({"name": "source", "connector.class": "tests.Counting", "tasks.max": "x"})
    )
    done = files.rig("standalone", "worker.properties", "source.json", expect=2)
    assert "error[connector.invalid]" in done.stderr
    assert "Not a number of type INT" in done.stderr
    assert not files.in_file()
