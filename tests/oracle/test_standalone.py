"""Standalone mode beside a real standalone worker: each continues from the other's offset file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import pytest

from connect_runtime.java.offset_bytes import NotAMap, decode_map
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from connect_runtime.storage.offset_file import OffsetFile
from support import http
from support.broker import BrokerAddress, create_topic, read_to_end
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

STOPPED = {"initial_state": "stopped"}
CONSOLE = {
    "console-source": "name=typed\nconnector.class=FileStreamSource\ntopic={topic}\n",
    "console-sink": "name=shown\nconnector.class=FileStreamSink\ntopics={topic}\n",
}
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
    """One worker.properties and two connector files, for either worker, one at a time."""

    rig: Rig
    kafka: str
    url: str
    topic: str

    @property
    def folder(self) -> Path:
        return self.rig.folder

    @property
    def worker_file(self) -> Path:
        return self.folder / "worker.properties"

    @property
    def connector_files(self) -> tuple[Path, Path]:
        """Their names say something else than their content."""
        return self.folder / "source.properties", self.folder / "stopped.json"

    def write_files(self) -> None:
        text = _WORKER.format(kafka=self.kafka, folder=self.folder, url=self.url)
        self.worker_file.write_text(text)
        source, stopped = self.connector_files
        flat = {"name": "source", **self.config}
        source.write_text(json.dumps(flat))
        request = {"name": "stopped", "config": self.config} | STOPPED
        stopped.write_text(json.dumps(request))

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.folder / "lines.txt"),
            "topic": self.topic,
        }

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
        # the worker may not have noticed yet that its write is done
        wait_until(lambda: self.told() == size, what=f"position {size} in REST")
        assert self.values() == list(lines)

    def values(self) -> list[str]:
        return [message.value().decode() for message in read_to_end(self.kafka, self.topic)]

    def position(self) -> int | None:
        file = self.folder / "connect.offsets"
        if not file.exists():
            return None
        # Apache's worker writes into the file itself, so it may not be whole
        try:
            values = decode_map(file.read_bytes()).values()
        except NotAMap:
            return None
        return next((json.loads(value or b"{}").get("position") for value in values), None)

    def told(self) -> int | None:
        """The position that REST tells."""
        found = self.rest("GET", "/connectors/source/offsets").json().get("offsets")
        return found[0]["offset"]["position"] if found else None

    def wait_for_stopped(self) -> None:
        """The second connector, whose file says so."""

        def stopped() -> bool:
            found = self.rest("GET", "/connectors/stopped/status").json()
            return (found.get("connector", {}).get("state"), found.get("tasks")) == ("STOPPED", [])

        wait_until(stopped, what="the second connector to be stopped")

    def rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return http.request(method, f"{self.url}{path}", json=body, timeout=30)


@pytest.fixture
def standalone(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Standalone]:
    rig = Rig(tmp_path / "rig")
    url = f"http://{LOOPBACK}:{free_port()}"
    made = Standalone(rig, broker.bootstrap_servers, url, unique)
    made.write_files()
    create_topic(made.kafka, unique)
    yield made
    assert rig.end() == []


def start(
    standalone: Standalone, log: BinaryIO, *more: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    names = (each.name for each in (standalone.worker_file, *standalone.connector_files))
    return standalone.rig.start_logging(log, "standalone", *names, *more, stdin=stdin)


@contextmanager
def ours(standalone: Standalone, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`connect standalone` with these files, until a SIGTERM ends it in order."""
    with (standalone.folder / "ours.log").open("ab") as log:
        started = start(standalone, log, *more, stdin=subprocess.PIPE)
    assert started.stdin is not None
    with started.stdin:
        try:
            yield started
        finally:
            started.send_signal(signal.SIGTERM)
            code = started.wait(60)
    assert code == 0, (standalone.folder / "ours.log").read_text()


def assert_console(standalone: Standalone, started: subprocess.Popen[bytes]) -> None:
    """What Apache's connect-console-source.properties and connect-console-sink.properties are
    for."""
    assert started.stdin is not None
    started.stdin.write(b"from the console\n")
    started.stdin.flush()
    wait_until(
        lambda: "\nfrom the console\n" in (standalone.folder / "ours.log").read_text(),
        what="the line to be on the console again",
        timeout_s=_START_S,
    )


@contextmanager
def theirs(standalone: Standalone) -> Iterator[None]:
    """The same with Apache's worker."""
    files = standalone.connector_files
    started = Oracle.standalone(standalone.worker_file, files, standalone.url)
    try:
        # its REST API answers before it has created them
        wait_until(
            lambda: len(standalone.rest("GET", "/connectors").json()) == 2,
            what="both connectors",
            timeout_s=_START_S,
        )
        yield
    finally:
        started.stop()


def assert_refused(standalone: Standalone, first: subprocess.Popen[bytes]) -> None:
    """A second worker on the same file ends at once, and names the first."""
    text = standalone.worker_file.read_text().replace(standalone.url, f"http://{LOOPBACK}:0")
    (standalone.folder / "second.properties").write_text(text)
    done = standalone.rig("standalone", "second.properties", expect=1)
    assert "error[offsets.file-in-use]" in done.stderr
    assert f"process {first.pid} " in done.stderr


def test_apaches_worker_continues_from_our_file(standalone: Standalone) -> None:
    standalone.add("a", "b")
    for name, lines in CONSOLE.items():
        (standalone.folder / name).write_text(lines.format(topic=f"{standalone.topic}-console"))
    with ours(standalone, *CONSOLE) as first:
        standalone.wait_for("a", "b")
        assert_console(standalone, first)
        offsets = standalone.rest("GET", "/connectors/source/offsets").json()
        assert standalone.rest("GET", "/health").json()["status"] == "healthy"
        standalone.wait_for_stopped()
        assert_refused(standalone, first)
    with theirs(standalone):
        # both read the same from it, and the file's lines are not sent again
        assert standalone.rest("GET", "/connectors/source/offsets").json() == offsets
        standalone.wait_for_stopped()
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
    # what KIP-980 says of properties, in a file that is named like JSON
    source, stopped = standalone.connector_files
    lines = (f"{key}={value}\n" for key, value in {"name": "source", **standalone.config}.items())
    stopped.write_text("".join(lines))
    source.write_text(json.dumps({"name": "other", "config": standalone.config} | STOPPED))
    with theirs(standalone):
        standalone.wait_for("a", "b", "c", "b", "c", "d")
        assert standalone.rest("PUT", f"{path}/stop").status_code == 204
        wait_until(
            lambda: standalone.rest("DELETE", f"{path}/offsets").status_code == 200,
            what="the offsets to be reset",
        )
    # Apache's worker keeps null for offsets that were reset
    file = OffsetFile.open(standalone.folder / "connect.offsets")
    assert list(file.entries.values()) == [None]
    file.close()


@pytest.mark.long
def test_a_killed_worker_sends_again_and_loses_nothing(standalone: Standalone) -> None:
    standalone.add("a", "b")
    with (standalone.folder / "killed.log").open("ab") as log:
        killed = start(standalone, log)
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
