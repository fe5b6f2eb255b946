"""standalone with sinks that name no file: their lines are on standard output, and nothing else."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support import http
from support.broker import BrokerAddress, create_topic, produce
from support.rig import Ends, Rig
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

_WORKER = """\
bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=connect.offsets
offset.flush.interval.ms=100
listeners={url}
"""
_SINK = """\
name={name}
connector.class=FileStreamSink
topics={name}
consumer.override.max.poll.records=200
"""
_RECORDS = 40_000
_START_S = 120


class Sinks:
    """A standalone worker with two sinks, each of a topic of its own that is named like it."""

    def __init__(self, kafka: str, folder: Path, unique: str) -> None:
        self.kafka = kafka
        self.rig = Rig(folder)
        self.names = [f"{unique}-{each}" for each in "ab"]
        self.url = f"http://{LOOPBACK}:{free_port()}"
        text = _WORKER.format(kafka=kafka, url=self.url)
        (self.rig.folder / "worker.properties").write_text(text)
        for name in self.names:
            (self.rig.folder / name).write_text(_SINK.format(name=name))
            create_topic(kafka, name)
            lines = (f"{name[-1]}{number:06}".encode() for number in range(_RECORDS))
            produce(kafka, name, ((None, line) for line in lines))

    @contextmanager
    def running(self, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
        words = ("standalone", "worker.properties", *self.names)
        with (self.rig.folder / "log").open("ab") as log:
            started = self.rig.start_logging(log, *words, stdout=stdout)
        os.close(stdout)
        try:
            yield started
        finally:
            started.kill()
            started.wait()

    def committed(self) -> list[int]:
        ends = Ends(self.kafka)
        return [ends.committed(f"connect-{name}", name) for name in self.names]

    def trace(self) -> str:
        """Of the first sink's task."""
        with http.client(self.url) as client:
            try:
                found = client.get(f"/connectors/{self.names[0]}/status")
            except httpx.TransportError:
                return ""
        tasks = found.json().get("tasks", [])
        return tasks[0].get("trace", "") if tasks else ""


@pytest.fixture
def sinks(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Sinks]:
    made = Sinks(broker.bootstrap_servers, tmp_path / "rig", unique)
    yield made
    wait_until(lambda: not made.rig.leftovers(), what="all processes to end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_committed_has_been_shown_whoever_ends_the_worker(
    sinks: Sinks, number: signal.Signals
) -> None:
    """Nobody reads any more when it is ended: tasks wait in their writes."""
    end, stdout = os.pipe()
    os.set_blocking(end, False)
    same_stdout = os.dup(stdout)
    with sinks.running(stdout) as worker:
        shown = bytearray()

        def both_have_committed() -> bool:
            shown.extend(_read(end, 4096) or b"")
            return all(sinks.committed())

        wait_until(both_have_committed, what="commits of both", timeout_s=_START_S, every_s=0.01)
        wait_until(lambda: not _takes_more(same_stdout), what="a pipe that is full")
        os.close(same_stdout)
        worker.send_signal(number)
        assert worker.wait(30) == (0 if number is signal.SIGTERM else -number)

        def is_over() -> bool:
            while (data := _read(end, 1 << 16)) is not None and data:
                shown.extend(data)
            return data == b""

        wait_until(is_over, what="the last task to end")
        os.close(end)
    *lines, torn = bytes(shown).decode().split("\n")
    assert [line for line in lines if not re.fullmatch(r"[ab]\d{6}", line)] == []
    assert len(torn) <= len("a000000")
    for name, committed in zip(sinks.names, sinks.committed(), strict=True):
        seen = {line for line in lines if line[0] == name[-1]}
        assert {f"{name[-1]}{number:06}" for number in range(committed)} <= seen


def test_what_standard_output_refuses_fails_the_tasks(sinks: Sinks) -> None:
    with sinks.running(os.open("/dev/full", os.O_WRONLY)) as worker:
        told = "OSError: [Errno 28] No space left on device"
        wait_until(lambda: told in sinks.trace(), what=told, timeout_s=_START_S)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert sinks.committed() == [0, 0]


def _read(end: int, size: int) -> bytes | None:
    """None if there is nothing now."""
    try:
        return os.read(end, size)
    except BlockingIOError:
        return None


def _takes_more(stdout: int) -> bool:
    return bool(select.select([], [stdout], [], 0)[1])
