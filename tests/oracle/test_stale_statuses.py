"""Statuses from before a change: two real workers, of which the one that runs a sink is frozen.

What it said last is that the sink runs. The sink gets a config that cannot work.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import http
from support.broker import BrokerAddress, create_topic
from support.command import Command
from support.oracle import Oracle

pytestmark = [pytest.mark.oracle, pytest.mark.long]

SPEC = """\
name: {name}
config:
  connector.class: FileStreamSink
  topics: {topic}
  file: {file}
  key.converter: org.apache.kafka.connect.storage.StringConverter
  value.converter: org.apache.kafka.connect.storage.StringConverter
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two workers of one group; `first` leads it."""

    first: Oracle
    second: Oracle

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = http.get(f"{self.first.url}/connectors/{name}/status").json()
        return found

    def runs_on_second(self, name: str) -> bool:
        """Whether the connector's only task does."""
        (task,) = self.status(name)["tasks"]
        return f"http://{task['worker_id']}" == self.second.url


@pytest.fixture
def pair(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Pair]:
    with ExitStack() as stack:
        workers = []
        for name in ("first", "second"):
            started = Oracle.start(tmp_path / name, broker.bootstrap_servers, group_id=unique)
            stack.callback(started.kill)
            workers.append(started)
        yield Pair(*workers)


@contextmanager
def frozen(worker: Oracle) -> Iterator[None]:
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker.pid, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Sinks:
    """A project of four sinks that run."""

    connect: Command
    topic: str
    folder: Path

    def spec(self, name: str, file: str) -> None:
        text = SPEC.format(name=name, topic=self.topic, file=self.folder / file)
        self.connect.write(f"connectors/{name}.yaml", text)

    def break_one_on_second(self, pair: Pair) -> str:
        """Its name; the file that it is to write to has no folder."""
        names = [each.stem for each in sorted(self.connect.folder.glob("connectors/*.yaml"))]
        name = next(each for each in names if pair.runs_on_second(each))
        self.spec(name, "nowhere/out.txt")
        return name


def sinks(pair: Pair, broker: BrokerAddress, folder: Path, unique: str, kafka: str) -> Sinks:
    """`kafka` is what connect.yaml says of it."""
    made = Sinks(Command(folder), f"{unique}-in", folder)
    create_topic(broker.bootstrap_servers, made.topic)
    made.connect.write(
        "connect.yaml",
        f"project: p-{secrets.token_hex(4)}\n"
        f"cluster: {{group.id: {unique}, target: {{rest: '{pair.first.url}'}}{kafka}}}\n",
    )
    for number in range(4):
        made.spec(f"{unique}-{number}", f"{unique}-{number}.txt")
    first = made.connect("apply", "--yes", "--settle", "2", "--healthy-for", "2s")
    assert first.returncode == 0, first.stdout + first.stderr
    return made


def test_what_a_frozen_worker_said_before_is_no_health(
    pair: Pair, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """The trap: the gate passes within seconds, because the old status says RUNNING, and nothing is
    rolled back."""
    kafka = f", kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    project = sinks(pair, broker, tmp_path, unique, kafka)
    name = project.break_one_on_second(pair)
    with frozen(pair.second):
        failed = project.connect("apply", "--yes", "--json", "--rollback-on-failure")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    answer = json.loads(failed.stdout)
    (gate,) = answer["report"]["connectors"]
    assert gate["health"] in ("failed", "timed-out"), gate
    assert answer["rollback"]["errors"] == []
    assert answer["rollback"]["report"]["exit_code"] == 0, answer["rollback"]["report"]
    stored = http.get(f"{pair.first.url}/connectors/{name}/config", timeout=30).json()
    assert stored["file"] == str(tmp_path / f"{name}.txt")


def test_over_rest_alone_it_is_waited_for_longer_than_a_worker_may_be_silent(
    pair: Pair, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """Its group puts it out after 10 s (session.timeout.ms); until then REST says RUNNING."""
    project = sinks(pair, broker, tmp_path, unique, "")
    name = project.break_one_on_second(pair)
    with frozen(pair.second):
        failed = project.connect("apply", "--yes", "--settle", "25")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert f"{name}: " in failed.stdout
    assert f"{name}: running" not in failed.stdout
