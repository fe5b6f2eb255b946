"""Connectors of a real worker whose tasks take seconds to end: stopped, deleted, and interrupted.

The sink writes to a pipe that is full: its `put` does not return, and the worker waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import http
from support.broker import BrokerAddress, create_topic, produce
from support.command import CONNECT, Command
from support.oracle import Oracle
from support.rest_project import RestProject, sink
from support.wait import wait_until

pytestmark = pytest.mark.oracle

# How long the worker waits for a task, task.shutdown.graceful.timeout.ms
GRACEFUL_S = 5


@dataclass(frozen=True, slots=True)
class Stuck:
    """A sink that is stuck in a pipe, of a project with Kafka."""

    connect: Command
    name: str
    topic: str
    pipe: Path

    def spec(self, name: str, file: Path, more: str = "") -> None:
        config = json.dumps(dict(sink(name, file, self.topic).config))
        self.connect.write(f"connectors/{name}.yaml", f"name: {name}\nconfig: {config}\n{more}")


@pytest.fixture
def stuck(oracle: Oracle, broker: BrokerAddress, unique: str, tmp_path: Path) -> Iterator[Stuck]:
    name, topic = f"{unique}-stuck", f"{unique}-in"
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    produce(servers, topic, [(None, b"x" * 500)] * 400)
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    connect = Command(tmp_path / "project")
    connect.write(
        "connect.yaml",
        f"project: {unique}\ncluster: {{group.id: {oracle.group_id},"
        f" target: {{rest: '{oracle.url}'}}, kafka: {{bootstrap.servers: '{servers}'}}}}\n",
    )
    found = Stuck(connect, name, topic, tmp_path / "pipe")
    found.spec(name, found.pipe)
    made = connect("apply", "--yes")
    assert made.returncode == 0, made.stderr
    try:
        yield found
    finally:
        os.close(pipe)
        for each in (name, f"{unique}-other"):
            http.delete(f"{oracle.url}/connectors/{each}", timeout=30)


@pytest.mark.long
def test_ctrl_c_lets_a_stop_come_to_its_end(
    stuck: Stuck, oracle: Oracle, unique: str, tmp_path: Path
) -> None:
    """The trap: the stop is journaled as failed, although it took place."""
    other = f"{unique}-other"
    stuck.spec(stuck.name, stuck.pipe, "state: stopped\n")
    stuck.spec(other, tmp_path / "other.txt")
    applying = subprocess.Popen(
        [*CONNECT, "apply", "--yes"],
        cwd=stuck.connect.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert applying.stderr is not None
    told = ""
    while "its tasks end" not in told:
        line = applying.stderr.readline()
        assert line, f"it ended before it waited: {told}"
        told += line
    applying.send_signal(signal.SIGINT)
    out, _ = applying.communicate(timeout=60)
    assert applying.returncode == 130, out
    assert "1 done, 1 skipped" in out
    assert http.get(f"{oracle.url}/connectors/{other}", timeout=30).status_code == 404
    (newest, *_) = json.loads(stuck.connect("history", "--json").stdout)["applies"]
    shown = stuck.connect("history", newest["apply_id"], "--json").stdout
    assert '"failed"' not in shown, shown
    again = stuck.connect("apply", "--yes")
    assert again.stdout.splitlines()[0].endswith(": 1 to create"), again.stdout


def test_a_delete_is_done_when_nothing_is_left(stuck: Stuck, oracle: Oracle) -> None:
    """The trap: it is told as done while its tasks run on, and still hold what they hold."""
    (stuck.connect.folder / "connectors" / f"{stuck.name}.yaml").unlink()
    stuck.connect.write("connectors/none.yaml", "---\n")
    began = time.monotonic()
    gone = stuck.connect("apply", "--yes", "--json", "--allow-empty")
    assert gone.returncode == 0, gone.stdout
    assert time.monotonic() - began > GRACEFUL_S
    path = f"{oracle.url}/connectors/{stuck.name}"
    for each in (path, f"{path}/status"):
        assert http.get(each, timeout=30).status_code == 404
    assert "its tasks end" in gone.stderr


@pytest.mark.long
def test_a_delete_over_rest_alone_is_done_when_nothing_is_left(
    oracle: Oracle, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create_topic(servers, unique)
    produce(servers, unique, [(None, b"x" * 500)] * 400)
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    project = RestProject(oracle.url, oracle.group_id, name=unique)
    project.want(sink(unique, tmp_path / "pipe", unique))
    project.settle()
    status = f"{oracle.url}/connectors/{unique}/status"
    wait_until(lambda: http.get(status, timeout=30).json()["tasks"], what="its task")
    project.specs = {}
    assert project.apply().exit_code == 0
    assert http.get(status, timeout=30).status_code == 404
    os.close(pipe)
