"""Runtimes of one group, each a `connect distributed` of its own, in folders of their own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.processes import Process, of_session, task_processes
from support.rig import Rig, Up

_LOG = "runtime.log"
_WORKER = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
    "offset.storage.partitions": "1",
    "exactly.once.source.support": "enabled",
    "plugin.modules": "support",
}


@dataclass(frozen=True, slots=True)
class Runtime:
    """A `connect distributed`. Its data and what it prints are below `folder`."""

    at: Up
    command: subprocess.Popen[bytes]
    folder: Path

    def last_words(self) -> str:
        """The end of what it printed."""
        return (self.folder / _LOG).read_text(errors="replace")[-2000:]

    @property
    def leads(self) -> bool:
        found = self.at.get("/runtime")
        return found is not None and found["leading"]

    @property
    def processes(self) -> list[Process]:
        """The driver first, its JVM and their Python."""
        return of_session(self.command.pid)

    @property
    def tasks(self) -> list[Process]:
        """The Python processes of its tasks."""
        return task_processes(self.processes)


def start_runtime(rig: Rig, kafka: str, at: Path, more: Mapping[str, str] = {}) -> Runtime:
    """Starts one in the folder, and returns at once."""
    url = f"http://{LOOPBACK}:{free_port()}"
    topics = {
        f"{kind}.storage.topic": f"{rig.name}-{topic}"
        for kind, topic in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
    }
    properties = (
        _WORKER
        | topics
        | {"bootstrap.servers": kafka, "group.id": rig.name, "listeners": url}
        | more
    )
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    (at / "worker.properties").write_text(lines)
    with (at / _LOG).open("ab") as log:
        command = rig.start_logging(log, "-C", str(at), "distributed", "worker.properties")
    return Runtime(Up(url, kafka, command.pid), command, at)


@contextmanager
def distributed(rig: Rig, worker_file: Path) -> Iterator[Up]:
    """`connect distributed` with a file that Apache's worker has, too, until SIGTERM ends it in
    order. What it prints is beside the file."""
    lines = worker_file.read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    log = worker_file.with_name(_LOG)
    with log.open("ab") as output:
        started = rig.start_logging(output, "distributed", str(worker_file))
    try:
        yield Up(properties["listeners"], properties["bootstrap.servers"], started.pid)
    finally:
        started.send_signal(signal.SIGTERM)
        code = started.wait(90)
    assert code == 0, log.read_text()
