"""Attempts on a real local Spark: isolated from each other, told of once, killed for good."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.kafka import local_processes
from connect_runtime.spark import jvm
from connect_runtime.spark import launcher as launching
from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.spark.session import class_archive, node_of
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome
from connect_specs.diagnostics import Failed
from runtime.spark.bodies import body_in, is_gone, launch, pid_of
from runtime.spark.endings import Endings, running
from support.wait import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def launcher(folder: Path) -> Iterator[SparkLauncher]:
    launcher = SparkLauncher("local[16]", folder / "data", body=body_in(folder))
    assert launcher.slots == 0
    with pytest.MonkeyPatch.context() as environment:
        # what users of PySpark may have set
        environment.setenv("PYSPARK_PIN_THREAD", "false")
        launcher.start()
        wait_until(lambda: launcher.slots == 16, what="Spark to start")
        yield launcher
        launcher.close()


@pytest.fixture
def endings() -> Endings:
    return Endings()


def test_an_attempt_runs_and_returns(launcher: SparkLauncher, endings: Endings) -> None:
    launcher.launch(launch("echo", attempt=1, echo="ü"), endings)
    assert endings.wait("echo") == Outcome(TaskId("echo", 0), 1, AttemptEnd.STOPPED, "ü")
    assert TaskId("echo", 0) not in launcher.readings()


def test_attempts_that_start_together_each_run_their_own_launch(
    launcher: SparkLauncher, endings: Endings
) -> None:
    for number in range(12):
        launcher.launch(launch("echo", task=number, attempt=3, echo=str(number)), endings)
    wait_until(lambda: len(endings.of("echo", 3)) == 12, what="all to end")
    assert {each.id.task: each.trace for each in endings.told} == {n: str(n) for n in range(12)}


def test_spark_starts_from_the_archive_of_its_classes(launcher: SparkLauncher) -> None:
    spark = launcher._supervisor.session
    assert spark is not None and spark._jvm is not None
    maps = Path(f"/proc/{spark._jvm._process.pid}/maps").read_text()
    # `make test` makes it
    assert ("/class-archives/spark-" in maps) == bool(class_archive().flags())


def test_what_a_task_throws_is_its_outcome(launcher: SparkLauncher, endings: Endings) -> None:
    launcher.launch(launch("throw"), endings)
    launcher.launch(launch("exit"), endings)
    threw, exited = endings.wait("throw"), endings.wait("exit")
    assert threw.ended is exited.ended is AttemptEnd.FAILED
    assert "ValueError: boom ?" in (threw.trace or "")
    assert "SystemExit: 3" in (exited.trace or "")
    # as in Connect, where a failed task keeps its metrics
    counts = launcher.readings()[TaskId("throw", 0)]["metrics"]
    assert counts["kafka_connect_task_error_total_record_errors"] == 0


def test_a_crash_is_lost_and_a_sibling_goes_on(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    sibling = launch("wait", attempt=10)
    launcher.launch(sibling, endings)
    pid = running(folder, sibling)
    wait_until(lambda: sibling.id in launcher.readings(), what="its metrics, while it runs")
    launcher.launch(launch("crash"), endings)
    lost = endings.wait("crash")
    assert lost.ended is AttemptEnd.LOST
    assert lost.trace == "Python worker exited unexpectedly (crashed)."
    assert not is_gone(pid)
    assert not endings.of("wait", 10)
    launcher.kill(sibling.id, sibling.attempt)
    endings.wait("wait", 10)


def test_a_killed_attempt_is_told_of_and_dies(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    given = launch("deaf")
    launcher.launch(given, endings)
    pid = running(folder, given)
    launcher.kill(given.id, given.attempt)
    assert endings.wait("deaf") == Outcome(given.id, 1, AttemptEnd.LOST, "killed")
    wait_until(lambda: is_gone(pid), what="the process to die", timeout_s=10)
    launcher.kill(given.id, given.attempt)
    launcher.kill(TaskId("never", 0), 1)
    assert len(endings.told) == 1


def test_a_kill_right_after_the_launch_is_not_missed(
    launcher: SparkLauncher, endings: Endings
) -> None:
    for attempt in range(100, 106):
        launcher.launch(launch("deaf", attempt=attempt), endings)
        launcher.kill(TaskId("deaf", 0), attempt)
    for attempt in range(100, 106):
        assert endings.wait("deaf", attempt).ended is AttemptEnd.LOST


def test_each_attempt_is_one_job_and_no_config_is_in_its_description(
    launcher: SparkLauncher, endings: Endings
) -> None:
    before = set(_job_ids(launcher))
    for attempt in (20, 21, 22):
        launcher.launch(launch("echo", attempt=attempt, password="hunter2"), endings)
    for attempt in (20, 21, 22):
        endings.wait("echo", attempt)
    store = launcher.context._jsc.sc().statusStore()
    jobs = [store.job(job) for job in _job_ids(launcher) if job not in before]
    described = [job.description().get() for job in jobs]
    ours = sorted(text for text in described if text.startswith("task echo-0"))
    assert ours == [f"task echo-0, attempt {attempt}" for attempt in (20, 21, 22)]
    assert all(job.numTasks() == 1 for job in jobs)
    assert "hunter2" not in " ".join(described)


def _job_ids(launcher: SparkLauncher) -> list[int]:
    jobs = launcher.context._jsc.sc().statusStore().jobsList(None)
    return [jobs.apply(number).jobId() for number in range(jobs.size())]


def test_more_attempts_than_slots_wait(
    launcher: SparkLauncher, folder: Path, endings: Endings
) -> None:
    given = [launch("wait", task=number, attempt=30) for number in range(17)]
    for each in given:
        launcher.launch(each, endings)
    started = wait_until(
        lambda: [pid for each in given if (pid := pid_of(folder, each))][15:],
        what="sixteen attempts to run",
    )
    assert len(started) == 1
    for each in given:
        launcher.kill(each.id, each.attempt)
    wait_until(lambda: len(endings.told) == 17, what="all to end")


def test_a_job_that_cannot_be_made_is_lost_and_nothing_of_it_lives(
    launcher: SparkLauncher, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launching, "ProcessLease", full)
    launcher.launch(launch("echo", attempt=50), endings)
    lost = endings.wait("echo", 50)
    assert (lost.ended, lost.dead) == (AttemptEnd.LOST, True)
    assert "No space left on device" in str(lost.trace)
    assert launcher.active == 0


@pytest.mark.long
def test_workers_die_with_their_driver(tmp_path: Path) -> None:
    driver = Path(__file__).with_name("driver.py")
    child = subprocess.Popen([sys.executable, driver, tmp_path], stderr=subprocess.DEVNULL)
    try:
        drains, deaf = (running(tmp_path, launch(connector)) for connector in ("wait", "deaf"))
    finally:
        child.kill()
        child.wait()
    wait_until(lambda: is_gone(drains), what="the one that drains", timeout_s=5)
    assert (tmp_path / "wait-0-1-drained").exists()
    wait_until(lambda: is_gone(deaf), what="the one that does not listen", timeout_s=10)


def test_closed_before_it_started(tmp_path: Path, endings: Endings) -> None:
    launcher = SparkLauncher("local[1]", tmp_path)
    launcher.close()
    launcher.launch(launch("echo"), endings)
    assert endings.told[0].ended is AttemptEnd.LOST


def test_without_java_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Failed, match="Java was not found"):
        SparkLauncher("local[1]", tmp_path).start()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert local_processes.find_java() == old
    with pytest.raises(Failed, match="is Java 8, and Spark needs 17"):
        jvm.ensure_java()


def test_a_reading_that_cannot_be_removed_holds_up_no_outcome(tmp_path: Path) -> None:
    outcome = Outcome(TaskId("c", 0), 1, AttemptEnd.FAILED)
    launcher = SparkLauncher("local[1]", tmp_path)
    launcher._keep_reading(outcome, tmp_path)  # a folder
    assert launcher.readings() == {}


class FullSession:
    """A session that is its own supervisor; the job of `lost` waits for another executor."""

    alive, local = True, False

    def __init__(self, lost: str, slots: int) -> None:
        self.lost = lost
        self.given = slots
        self.looks = 0
        self.cancelled: list[str] = []

    @property
    def session(self) -> Any:
        return self

    @property
    def slots(self) -> int:
        self.looks += 1
        return self.given

    def waits_again(self, group: str) -> bool:
        return group == self.lost

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)


def test_an_attempt_that_waits_for_another_executor_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_WITHOUT_SLOT_S", 0.01)
    launcher = SparkLauncher("spark://nowhere:1", tmp_path)
    session: Any = FullSession("lost", slots=2)
    launcher._supervisor = session
    for group in ("runs", "lost"):
        attempt = launching._Attempt(launch("c"), lambda outcome: None, group, session=session)
        launcher._attempts[group] = attempt
    watch = threading.Thread(target=launcher._end_without_slot, daemon=True)
    watch.start()
    try:
        lost = launcher._attempts["lost"]
        # as long as there are slots, Spark's own retry says that it does nothing
        wait_until(lambda: session.looks > 2, what="two looks")
        assert session.cancelled == []
        session.given = 1
        wait_until(lambda: session.cancelled == ["lost"], what="its job to be cancelled")
    finally:
        launcher._closed.set()
        watch.join()
    reason = launching._loss_reason(lost, session, RuntimeError("cancelled"))
    assert reason == "Its executor was lost, and no other one has a free slot"


def test_a_frozen_jvm_is_asked_once_to_kill_an_attempt(tmp_path: Path) -> None:
    """Each call that it does not answer takes a thread, and a kill is repeated."""
    launcher, wakes = SparkLauncher("local[1]", tmp_path), threading.Event()
    asked: list[str] = []

    def cancel(group: str) -> None:
        asked.append(group)
        assert wakes.wait(60)

    session: Any = SimpleNamespace(alive=True, cancel=cancel)
    attempt = launching._Attempt(launch("c"), lambda outcome: None, "c", session=session)
    launcher._attempts["c"] = attempt
    for _ in range(3):
        launcher.kill(attempt.launch.id, attempt.launch.attempt)
    wakes.set()
    assert attempt.cancelling is not None
    attempt.cancelling.join(60)
    assert asked == ["c"]
    launcher.kill(attempt.launch.id, attempt.launch.attempt)
    wait_until(lambda: asked == ["c", "c"], what="it to be asked again")


def test_the_node_of_a_failed_job_is_known_a_moment_later() -> None:
    answers = iter([None, None, "node-1"])
    session: Any = SimpleNamespace(host_of=lambda group: next(answers))
    assert node_of(session, "c") == "node-1"
