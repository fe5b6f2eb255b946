"""Processes that stay stopped are killed, and a node's agent is replaced."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect_runtime import stopped_processes
from connect_runtime.agent import client
from connect_runtime.spark import node_watch
from connect_runtime.stopped_processes import LOOKS, StoppedProcess, look, stat_fields
from support.processes import Process, daemon_processes, kill, node_servers, of_session, process
from support.processes import frozen as stopped
from support.wait import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# As Spark starts its daemon, but for what serves Spark; with a task that never notices its end, and
# a process in place of its JVM
DAEMON = """\
import os, signal, subprocess, sys
from connect_runtime.spark import node_watch
node_watch._LOOK_EVERY_S, node_watch.DRAIN_S = %s
node_watch.start()
os.setpgid(0, 0)
if os.fork() == 0:
    os.setpgid(0, 0)
    asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen([*asleep, "connect.engine.Engine"])
signal.pause()
"""


@contextmanager
def _running(*command: str) -> Iterator[Process]:
    child = subprocess.Popen(command, start_new_session=True)
    try:
        found = process(child.pid)
        assert found is not None
        yield found
    finally:
        child.kill()
        child.wait()


def _looked(
    times: int, *at: Process, looks: Mapping[StoppedProcess, int] = {}
) -> Mapping[StoppedProcess, int]:
    for _ in range(times):
        looks = look([each.pid for each in at], looks)
    return looks


def test_a_process_that_stays_stopped_is_killed_and_its_siblings_go_on() -> None:
    with _running("/bin/sleep", "600") as task, _running("/bin/sleep", "600") as sibling:
        with stopped([task]):
            looks = _looked(LOOKS - 1, task, sibling)
            assert task.alive
            _looked(1, task, sibling, looks=looks)
            wait_until(lambda: not task.alive, what="the frozen process to be gone")
        assert sibling.alive


def test_a_process_that_goes_on_starts_anew() -> None:
    with _running("/bin/sleep", "600") as task:
        with stopped([task]):
            looks = _looked(1, task)
            assert len(looks) == 1
        wait_until(lambda: not look([task.pid], {}), what="it to go on")
        looks = _looked(1, task, looks=looks)
        with stopped([task]):
            _looked(LOOKS - 1, task, looks=looks)
            assert task.alive


def test_a_process_that_ran_in_between_starts_anew() -> None:
    """Stopped again and again, it makes progress."""
    with _running("/bin/sh", "-c", "while :; do :; done") as task:
        looks: Mapping[StoppedProcess, int] = {}
        for _ in range(LOOKS + 1):
            with stopped([task]):
                looks = _looked(1, task, looks=looks)
                (seen,) = looks
            wait_until(lambda ran=seen.ran: stat_fields(task.pid)[11:13] != [*ran], what="it")
        assert task.alive


def test_who_is_gone_by_now_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with _running("/bin/sleep", "600") as task:
        with stopped([task]):
            (seen,) = look([task.pid], {})
        kill(task)
        assert look([task.pid], {}) == {}
        monkeypatch.setattr(stopped_processes, "_stopped", lambda pids: iter([seen]))
        assert look([task.pid], {seen: LOOKS - 1}) == {seen: LOOKS}


QUICK = "0.05, -0.5"


@pytest.fixture
def session(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], list[Process]]]:
    """The processes of a daemon that a shell started, and that leads a group of its own."""
    (tmp_path / "daemon.py").write_text(DAEMON % getattr(request, "param", QUICK))
    words = shlex.join([sys.executable, "daemon.py", "-m connect_runtime.spark.daemon"])
    (tmp_path / "start.sh").write_text(f"cd {tmp_path} && {words}; sleep 600")
    with _running("/bin/sh", str(tmp_path / "start.sh")) as shell:
        yield lambda: of_session(shell.pid)[1:]
        kill(*of_session(shell.pid)[1:])


def _next_agent(session: Callable[[], list[Process]], *earlier: Process) -> Process:
    def found() -> Process | None:
        agents = [each for each in node_servers(session()) if each not in earlier]
        return agents[0] if agents else None

    return wait_until(found, what="an agent", timeout_s=20, every_s=0.01)


@pytest.mark.parametrize("session", ["600, -0.5"], indirect=True)
def test_an_agent_that_is_killed_is_replaced_at_once(
    session: Callable[[], list[Process]],
) -> None:
    """Not only at the next look; but one that ends at its start is not tried all the time."""
    first = _next_agent(session)
    second, took_s = _replaced(session, first)
    assert took_s < 2
    _, took_s = _replaced(session, second)
    assert 0.3 < took_s < 2


def _replaced(session: Callable[[], list[Process]], agent: Process) -> tuple[Process, float]:
    began = time.monotonic()
    kill(agent)
    return _next_agent(session, agent), time.monotonic() - began


@pytest.mark.parametrize("session", ["node_watch._LOOK_EVERY_S, -0.5"], indirect=True)
def test_an_agent_that_is_frozen_is_replaced_within_10_s(
    session: Callable[[], list[Process]],
) -> None:
    first = _next_agent(session)
    began = time.monotonic()
    with stopped([first]):
        _next_agent(session, first)
    assert time.monotonic() - began < 10


def test_an_agent_ends_with_the_daemon(session: Callable[[], list[Process]]) -> None:
    _replaced(session, _next_agent(session))  # which takes more than a look at the tasks
    kill(*daemon_processes(session()))
    wait_until(lambda: not _python(session()), what="all to end")


def test_a_daemon_ends_with_the_process_that_watches(
    session: Callable[[], list[Process]],
) -> None:
    """Its tasks would have no agent once that one ends, too; Spark starts another daemon."""
    agent = _next_agent(session)
    (watch,) = (each for each in session() if each.pid == _parent(agent.pid))
    daemons = daemon_processes(session())
    kill(watch)
    wait_until(lambda: not any(each.alive for each in [agent, *daemons]), what="both to end")


@pytest.mark.parametrize(
    "session",
    ["0.05, -0.5\nnode_watch._WITHOUT_AGENT_S = 3.0\nnode_watch.serve_node = None"],
    indirect=True,
)
def test_a_node_whose_agent_cannot_start_ends_its_tasks(
    session: Callable[[], list[Process]],
) -> None:
    wait_until(lambda: daemon_processes(session()), what="a daemon")
    wait_until(lambda: not _python(session()), what="all to end", timeout_s=20)


def test_a_daemon_that_is_frozen_is_killed(session: Callable[[], list[Process]]) -> None:
    """It would start no more tasks; Spark starts another one."""
    wait_until(lambda: node_servers(session()), what="its processes")
    with stopped(daemon_processes(session())):
        wait_until(lambda: not _python(session()), what="all to end")


def test_a_jvm_of_a_task_that_is_frozen_is_killed_and_the_task_goes_on(
    session: Callable[[], list[Process]],
) -> None:
    def engine() -> Process | None:
        return next((each for each in session() if "connect.engine.Engine" in each.command), None)

    jvm = wait_until(engine, what="the JVM")
    task = process(_parent(jvm.pid))
    with stopped([jvm]):
        wait_until(lambda: not jvm.alive, what="it to be noticed")
    assert task is not None
    assert task.alive


def _parent(pid: int) -> int:
    return int(stat_fields(pid)[1])


def _python(among: list[Process]) -> list[Process]:
    return [each for each in among if "daemon.py" in each.command]


def test_without_room_for_one_more_process_there_is_no_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> int:
        raise BlockingIOError

    ours, of_agent = socket.socketpair()
    monkeypatch.setattr(client, "open_door", lambda: of_agent)
    monkeypatch.setattr(node_watch.os, "fork", refused)
    with ours, of_agent, pytest.raises(BlockingIOError):
        node_watch.start()
