"""Standalone mode beside a real standalone worker: each continues from the other's offset file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from connect_runtime.kafka.ports import LOOPBACK, free_port
from connect_runtime.storage.serialized_map import decode
from support.broker import BrokerAddress, create_topic, read_to_end
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

# Spark starts meanwhile
_START_S = 120
_WORKER = """\
bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=200
listeners={url}
plugin.path={folder}
plugin.discovery=service_load
"""


@dataclass(frozen=True, slots=True)
class Standalone:
    """One worker.properties and one connector file, for either worker, one at a time."""

    rig: Rig
    kafka: str
    url: str
    topic: str

    @property
    def folder(self) -> Path:
        return self.rig.folder

    @property
    def files(self) -> tuple[Path, Path]:
        return self.folder / "worker.properties", self.folder / "source"

    def write_files(self) -> None:
        worker, source = self.files
        worker.write_text(_WORKER.format(kafka=self.kafka, folder=self.folder, url=self.url))
        config = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.folder / "lines.txt"),
            "topic": self.topic,
        }
        source.write_text(json.dumps({"name": "source", "config": config}))

    def add(self, *lines: str) -> None:
        with (self.folder / "lines.txt").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def wait_for(self, *lines: str) -> None:
        """Until the topic holds exactly these lines, and the file the offset after them."""
        wait_until(
            lambda: self.values()[: len(lines)] == list(lines),
            what=f"{lines} in Kafka",
            timeout_s=_START_S,
        )
        size = (self.folder / "lines.txt").stat().st_size
        wait_until(lambda: self.position() == size, what=f"position {size} in the file")
        assert self.values() == list(lines)

    def values(self) -> list[str]:
        return [message.value().decode() for message in read_to_end(self.kafka, self.topic)]

    def position(self) -> int | None:
        file = self.folder / "connect.offsets"
        # Apache's worker writes into the file itself
        if not file.exists() or not file.read_bytes().endswith(b"x"):
            return None
        for value in decode(file.read_bytes()).values():
            position: int = json.loads(value or b"{}").get("position")
            return position
        return None

    def rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, f"{self.url}{path}", json=body, timeout=30)


@pytest.fixture
def standalone(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Standalone]:
    rig = Rig(tmp_path / "rig")
    url = f"http://{LOOPBACK}:{free_port()}"
    made = Standalone(rig, broker.bootstrap_servers, url, unique)
    made.write_files()
    create_topic(made.kafka, unique)
    yield made
    assert rig.end() == []


@contextmanager
def ours(standalone: Standalone) -> Iterator[subprocess.Popen[bytes]]:
    """`connect standalone` with both files, until a SIGTERM ends it in order."""
    worker, source = standalone.files
    with (standalone.folder / "ours.log").open("ab") as log:
        started = standalone.rig.start_logging(log, "standalone", worker.name, source.name)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        code = started.wait(60)
    assert code == 0, (standalone.folder / "ours.log").read_text()


@contextmanager
def theirs(standalone: Standalone) -> Iterator[None]:
    """The same with Apache's worker."""
    worker, source = standalone.files
    started = Oracle.standalone(worker, [source], standalone.url)
    try:
        yield
    finally:
        started.stop()


def assert_refused(standalone: Standalone, first: subprocess.Popen[bytes]) -> None:
    """A second worker on the same file ends at once, and names the first."""
    text = standalone.files[0].read_text().replace(standalone.url, f"http://{LOOPBACK}:0")
    (standalone.folder / "second.properties").write_text(text)
    done = standalone.rig("standalone", "second.properties", expect=1)
    assert "error[offsets.file-in-use]" in done.stderr
    assert f"process {first.pid} " in done.stderr


def test_apaches_worker_continues_from_our_file(standalone: Standalone) -> None:
    standalone.add("a", "b")
    with ours(standalone) as first:
        standalone.wait_for("a", "b")
        offsets = standalone.rest("GET", "/connectors/source/offsets").json()
        assert standalone.rest("GET", "/health").json()["status"] == "healthy"
        assert_refused(standalone, first)
    with theirs(standalone):
        # both read the same from it, and the file's lines are not sent again
        assert standalone.rest("GET", "/connectors/source/offsets").json() == offsets
        standalone.add("c")
        standalone.wait_for("a", "b", "c")


@pytest.mark.long
def test_we_continue_from_the_file_of_apaches_worker(standalone: Standalone) -> None:
    standalone.add("a", "b")
    with theirs(standalone):
        standalone.wait_for("a", "b")
        offsets = standalone.rest("GET", "/connectors/source/offsets").json()
    standalone.add("c")
    with ours(standalone):
        standalone.wait_for("a", "b", "c")
        offsets["offsets"][0]["offset"]["position"] = 6
        assert standalone.rest("GET", "/connectors/source/offsets").json() == offsets

        moved = {"offsets": [{**offsets["offsets"][0], "offset": {"position": 2}}]}
        path = "/connectors/source"
        assert standalone.rest("PATCH", f"{path}/offsets", moved).status_code == 400
        assert standalone.rest("PUT", f"{path}/stop").status_code == 204
        wait_until(
            lambda: standalone.rest("PATCH", f"{path}/offsets", moved).status_code == 200,
            what="the offsets to be altered",
        )
    standalone.add("d")
    with theirs(standalone):
        standalone.wait_for("a", "b", "c", "b", "c", "d")


@pytest.mark.long
def test_a_killed_worker_sends_again_and_loses_nothing(standalone: Standalone) -> None:
    worker, source = standalone.files
    standalone.add("a", "b")
    with (standalone.folder / "killed.log").open("ab") as log:
        killed = standalone.rig.start_logging(log, "standalone", worker.name, source.name)
    try:
        standalone.wait_for("a", "b")
    finally:
        killed.kill()
        killed.wait(30)
    standalone.add("c")
    with ours(standalone):
        wait_until(
            lambda: standalone.position() == 6,
            what="the offset after the last line",
            timeout_s=_START_S,
        )
        assert list(dict.fromkeys(standalone.values())) == ["a", "b", "c"]
