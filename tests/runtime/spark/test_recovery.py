"""A local Spark that ends, freezes or does not start: the launcher restores it by itself."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.kafka import local_processes
from connect_runtime.spark import launcher as launching
from connect_runtime.spark import session_supervisor
from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.tasks.launch import AttemptEnd
from runtime.spark.bodies import body_in, is_gone, launch, pid_of
from runtime.spark.endings import Endings, jvm_of, running, runs_again, wait_for_slots
from support.processes import frozen, kill, process
from support.wait import wait_until

pytestmark = pytest.mark.spark

_FAILS_ONCE = """\
#!/bin/sh
if [ "$1" != -version ] && [ ! -e "{mark}" ]; then
    touch "{mark}"
    echo "out of luck" >&2
    exit 7
fi
exec "{java}" "$@"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def launcher(folder: Path) -> Iterator[SparkLauncher]:
    launcher = SparkLauncher("local[4]", folder / "data", body=body_in(folder))
    with pytest.MonkeyPatch.context() as patch:
        # these tests end Spark more often than once a minute
        patch.setattr(session_supervisor, "_BACKOFF_MAX_S", 1.0)
        launcher.start()
        wait_for_slots(launcher)
        yield launcher
        launcher.close()


@pytest.fixture
def endings() -> Endings:
    return Endings()


def _down(launcher: SparkLauncher) -> str:
    """What the launcher says while there is no session; none was asked to start one."""
    found = wait_until(lambda: launcher.problem, what="a problem", timeout_s=60)
    assert launcher.slots == 0
    return found


def test_a_killed_jvm_loses_what_ran_once_and_is_replaced(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    given = [launch("wait", attempt=1), launch("deaf", attempt=1)]
    for each in given:
        launcher.launch(each, endings)
    pids = [running(folder, each) for each in given]
    assert launcher.active == 2
    kill(jvm_of(launcher))
    assert "Spark's JVM ended" in _down(launcher)
    lost = [endings.wait(each.id.connector) for each in given]
    # told only when nothing of them lives
    assert [(each.ended, each.dead) for each in lost] == [(AttemptEnd.LOST, True)] * 2
    assert all(map(is_gone, pids))
    runs_again(launcher, endings, 2)
    assert len(endings.told) == 3
    assert launcher.active == 0


@pytest.mark.long
def test_a_jvm_that_is_killed_while_idle_is_replaced(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    wait_for_slots(launcher)
    kill(jvm_of(launcher))
    _down(launcher)
    runs_again(launcher, endings, 3)
    # what the dead JVM left behind is gone
    assert len(list((folder / "data" / "spark").glob("session-*"))) == 1


@pytest.mark.long
def test_a_stopped_context_is_replaced(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    given = launch("wait", attempt=4)
    launcher.launch(given, endings)
    running(folder, given)
    launcher.context._jsc.sc().stop()
    assert endings.wait("wait", 4).ended is AttemptEnd.LOST
    assert "context was stopped" in _down(launcher)
    runs_again(launcher, endings, 4)


@pytest.mark.long
def test_nobody_waits_for_a_frozen_jvm_and_it_is_replaced(
    launcher: SparkLauncher, folder: Path, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = launch("deaf", attempt=5)
    launcher.launch(given, endings)
    running(folder, given)
    monkeypatch.setattr(session_supervisor, "_SILENT_S", 2.0)
    monkeypatch.setattr(session_supervisor, "_DEAD_S", 6.0)
    with frozen([jvm_of(launcher)]):
        began = time.monotonic()
        launcher.launch(launch("echo", attempt=5), endings)
        launcher.kill(given.id, given.attempt)
        assert launcher.slots == 4
        assert launcher.active == 2
        assert time.monotonic() - began < 5
        said = wait_until(lambda: launcher.problem, what="a problem")
        assert "has not answered" in said
        assert endings.wait("deaf", 5).dead
    assert endings.wait("echo", 5).ended is AttemptEnd.LOST
    runs_again(launcher, endings, 6)


@pytest.mark.long
def test_a_frozen_process_is_killed(
    launcher: SparkLauncher, folder: Path, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without a JVM, which would do it."""
    monkeypatch.setattr(launching, "_DEATH_GRACE_S", 1.0)
    wait_for_slots(launcher)
    given = launch("wait", attempt=7)
    launcher.launch(given, endings)
    worker = process(running(folder, given))
    assert worker is not None
    with frozen([worker]):
        kill(jvm_of(launcher))
        assert endings.wait("wait", 7).dead
        assert not worker.alive
    runs_again(launcher, endings, 7)


def test_what_may_live_is_said_and_takes_up_its_slot(
    launcher: SparkLauncher, folder: Path, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_DEATH_MAX_S", 2.0)
    wait_for_slots(launcher)
    given = launch("shares", attempt=8)
    launcher.launch(given, endings)
    pid = running(folder, given)
    at = folder / f"{given.id}-8-child"
    child = process(int(wait_until(lambda: at.exists() and at.read_text(), what="the child")))
    assert child is not None
    launcher.kill(given.id, given.attempt)
    lost = endings.wait("shares", 8)
    assert (lost.ended, lost.trace, lost.dead) == (AttemptEnd.LOST, "killed", False)
    assert is_gone(pid)
    assert launcher.active == 1
    kill(child)
    wait_until(lambda: launcher.active == 0, what="the slot to be free")
    assert len(endings.told) == 1


def test_a_killed_python_worker_is_lost_whatever_it_forked(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    given = launch("forks", attempt=8)
    launcher.launch(given, endings)
    at = folder / f"{given.id}-8-child"
    child = process(int(wait_until(lambda: at.exists() and at.read_text(), what="the child")))
    assert child is not None
    os.kill(running(folder, given), signal.SIGKILL)
    lost = endings.wait("forks", 8)
    assert (lost.ended, lost.dead, launcher.active) == (AttemptEnd.LOST, True, 0)
    assert child.alive
    kill(child)


def test_a_task_that_ends_its_process_group_ends_no_other(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    sibling, given = launch("wait", attempt=11), launch("ends its group", attempt=11)
    launcher.launch(sibling, endings)
    stays = running(folder, sibling)
    launcher.launch(given, endings)
    assert endings.wait("ends its group", 11).ended is AttemptEnd.LOST
    assert not is_gone(stays)
    assert not endings.of("wait", 11)
    launcher.kill(sibling.id, sibling.attempt)
    endings.wait("wait", 11)


def test_a_time_limit_that_a_plugin_gives_all_sockets_ends_no_task(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    """The driver's process runs plugins, too, and each task is one long call of it."""
    given = launch("wait", attempt=12)
    socket.setdefaulttimeout(0.2)
    try:
        launcher.launch(given, endings)
        pid = running(folder, given)
        launcher.launch(launch("echo", attempt=12), endings)
        endings.wait("echo", 12)
    finally:
        socket.setdefaulttimeout(None)
    assert not is_gone(pid)
    assert not endings.of("wait", 12)
    launcher.kill(given.id, given.attempt)
    endings.wait("wait", 12)


def test_a_killed_python_worker_is_lost_and_its_siblings_go_on(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    sibling, given = launch("wait", task=1, attempt=9), launch("wait", attempt=9)
    for each in (sibling, given):
        launcher.launch(each, endings)
    stays, goes = running(folder, sibling), running(folder, given)
    os.kill(goes, signal.SIGKILL)
    lost = endings.wait("wait", 9)
    assert (lost.id, lost.ended, lost.dead) == (given.id, AttemptEnd.LOST, True)
    again = launch("wait", attempt=10)
    launcher.launch(again, endings)
    running(folder, again)
    assert not is_gone(stays)
    # a process may outlive its job
    assert len(launcher.context.statusTracker().getActiveJobsIds()) == 2
    for each in (sibling, again):
        launcher.kill(each.id, each.attempt)
    wait_until(lambda: len(endings.told) == 3, what="all to end")


@pytest.mark.long
def test_a_first_start_that_fails_is_tried_again(
    tmp_path: Path, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = local_processes.find_java()
    assert found is not None
    fake = tmp_path / "java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text(_FAILS_ONCE.format(mark=tmp_path / "failed", java=found))
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(fake.parents[1]))
    launcher = SparkLauncher("local[2]", tmp_path / "data", body=body_in(tmp_path))
    try:
        assert launcher.problem is None
        launcher.start()
        launcher.launch(launch("echo", attempt=1), endings)
        lost = endings.wait("echo", 1)
        assert (lost.ended, lost.dead) == (AttemptEnd.LOST, True)
        assert "Spark did not start" in str(lost.trace)
        assert "spark.log" in str(lost.trace)
        assert "did not start" in _down(launcher)
        runs_again(launcher, endings, 2)
    finally:
        launcher.close()
    assert pid_of(tmp_path, launch("echo", attempt=1)) is None


def test_a_start_that_does_not_end_is_ended_by_a_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid; exec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(fake.parents[1]))
    monkeypatch.setattr(launching, "ensure_java", lambda: None)
    launcher = SparkLauncher("local[2]", tmp_path / "data")
    launcher.start()
    pid = int(wait_until(lambda: _text(tmp_path / "pid"), what="the start"))
    began = time.monotonic()
    launcher.close()
    assert time.monotonic() - began < 10
    assert is_gone(pid)


def _text(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""


def test_folders_of_dead_drivers_are_removed_and_private(
    launcher: SparkLauncher, folder: Path
) -> None:
    spark = folder / "data" / "spark"
    (spark / "session-dead").mkdir()
    other = SparkLauncher("local[1]", folder / "data")
    session = other._supervisor._make()
    try:
        assert not (spark / "session-dead").exists()
        # the living one's stays
        assert len(list(spark.glob("session-*"))) == 2
        folders = [spark, *(each for each in spark.rglob("session-*/*") if each.is_dir())]
        assert {each.stat().st_mode & 0o777 for each in folders} == {0o700}
        assert (spark / "spark.log").stat().st_mode & 0o777 == 0o600
    finally:
        session.close()
    assert len(list(spark.glob("session-*"))) == 1
