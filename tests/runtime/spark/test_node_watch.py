"""Processes that stay stopped are killed, and the one that serves a node is replaced."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect_runtime.node import door
from connect_runtime.spark import node_watch
from connect_runtime.spark.node_watch import LOOKS, Seen, look
from support.processes import Process, daemon_processes, kill, node_servers, of_session, process
from support.processes import frozen as stopped
from support.wait import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# As Spark starts its daemon, but for what serves Spark; with a task that never notices its end
DAEMON = """\
import os, signal
from connect_runtime.spark import node_watch
node_watch._LOOK_EVERY_S, node_watch.DRAIN_S = 0.05, -0.5
node_watch.start()
os.setpgid(0, 0)
if os.fork() == 0:
    os.setpgid(0, 0)
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


def _looked(times: int, *at: Process, looks: Mapping[Seen, int] = {}) -> Mapping[Seen, int]:
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
        looks: Mapping[Seen, int] = {}
        for _ in range(LOOKS + 1):
            with stopped([task]):
                looks = _looked(1, task, looks=looks)
                (seen,) = looks
            wait_until(
                lambda ran=seen.ran: node_watch._fields(task.pid)[11:13] != [*ran], what="it"
            )
        assert task.alive


def test_who_is_gone_by_now_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with _running("/bin/sleep", "600") as task:
        with stopped([task]):
            (seen,) = look([task.pid], {})
        kill(task)
        assert look([task.pid], {}) == {}
        monkeypatch.setattr(node_watch, "_stopped", lambda pids: iter([seen]))
        assert look([task.pid], {seen: LOOKS - 1}) == {seen: LOOKS}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[[], list[Process]]]:
    """The processes of a daemon that a shell started, and that leads a group of its own."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    words = shlex.join([sys.executable, "daemon.py", "-m connect_runtime.spark.daemon"])
    (tmp_path / "start.sh").write_text(f"cd {tmp_path} && {words}; sleep 600")
    with _running("/bin/sh", str(tmp_path / "start.sh")) as shell:
        yield lambda: of_session(shell.pid)[1:]
        kill(*of_session(shell.pid)[1:])


def test_who_serves_a_node_is_replaced_and_ends_with_the_daemon(
    session: Callable[[], list[Process]],
) -> None:
    def server() -> Process | None:
        return next(iter(node_servers(session())), None)

    first = wait_until(server, what="a node server")
    kill(first)
    second = wait_until(server, what="another one")
    with stopped([second]):
        wait_until(lambda: not second.alive, what="it to be noticed")
    wait_until(server, what="a third one")
    kill(*daemon_processes(session()))
    wait_until(lambda: not _python(session()), what="all to end")


def test_a_daemon_that_is_frozen_is_killed(session: Callable[[], list[Process]]) -> None:
    """It would start no more tasks; Spark starts another one."""
    wait_until(lambda: node_servers(session()), what="its processes")
    with stopped(daemon_processes(session())):
        wait_until(lambda: not _python(session()), what="all to end")


def _python(among: list[Process]) -> list[Process]:
    return [each for each in among if "daemon.py" in each.command]


def test_without_room_for_one_more_process_nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(node_watch.os, "fork", refused)
    node_watch.start()
    assert door.connect(1.0) is None
