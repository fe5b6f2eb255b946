"""A standalone cluster whose parts die: tasks run again by themselves, and ends are told once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.kafka.local_processes import find_java
from connect_runtime.spark import session_supervisor
from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from runtime.spark.bodies import body_in, is_gone, launch
from runtime.spark.endings import Endings, jvm_of, running, runs_again, wait_for_slots
from support.processes import kill, of_session
from support.spark_cluster import SparkCluster, spark_cluster
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.long]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[SparkCluster]:
    with spark_cluster(folder / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def launcher(folder: Path, cluster: SparkCluster) -> Iterator[SparkLauncher]:
    launcher = SparkLauncher(
        cluster.url,
        folder / "data",
        settings=cluster.settings,
        body=body_in(folder),
        cluster="group orders, Kafka 4L6g",
    )
    with pytest.MonkeyPatch.context() as patch:
        # these tests end Spark more often than once a minute
        patch.setattr(session_supervisor, "_BACKOFF_MAX_S", 1.0)
        launcher.start()
        launcher.lead(1)
        yield launcher
        launcher.close()


@pytest.fixture
def endings() -> Endings:
    return Endings()


def _busy(
    launcher: SparkLauncher, folder: Path, endings: Endings, attempt: int
) -> tuple[TaskLaunch, int]:
    """An attempt that waits, and its process."""
    wait_for_slots(launcher)
    given = launch("wait", attempt=attempt)
    launcher.launch(given, endings)
    return given, running(folder, given)


def _lost(endings: Endings, attempt: int) -> Outcome:
    """A cluster proves no death, but a worker that had time to drain may still say that it has."""
    lost = endings.wait("wait", attempt)
    assert (lost.ended, lost.dead) in ((AttemptEnd.LOST, False), (AttemptEnd.ORPHANED, True))
    return lost


def test_slots_are_what_executors_offer(launcher: SparkLauncher, cluster: SparkCluster) -> None:
    assert wait_for_slots(launcher) == cluster.cores


def test_a_killed_python_worker(launcher: SparkLauncher, folder: Path, endings: Endings) -> None:
    sibling, stays = _busy(launcher, folder, endings, 1)
    given = launch("wait", task=1, attempt=1)
    launcher.launch(given, endings)
    os.kill(running(folder, given), signal.SIGKILL)
    assert _lost(endings, 1).id == given.id
    runs_again(launcher, endings, 1)
    assert not is_gone(stays)
    launcher.kill(sibling.id, 1)
    wait_until(lambda: is_gone(stays), what="the sibling to be killed")
    wait_until(lambda: launcher.active == 0, what="its slot to be free")


def test_a_killed_executor(
    launcher: SparkLauncher, cluster: SparkCluster, folder: Path, endings: Endings
) -> None:
    _, pid = _busy(launcher, folder, endings, 2)
    kill(*cluster.executors())
    _lost(endings, 2)
    wait_until(lambda: is_gone(pid), what="its Python worker to end")
    runs_again(launcher, endings, 2)
    assert len(endings.told) == 2


def test_a_killed_worker_and_another_one(
    launcher: SparkLauncher, cluster: SparkCluster, folder: Path, endings: Endings
) -> None:
    _busy(launcher, folder, endings, 3)
    cluster.kill(cluster.workers[-1])
    wait_until(lambda: launcher.slots == 0, what="the executor to be missed", timeout_s=60)
    cluster.start_worker()
    _lost(endings, 3)
    runs_again(launcher, endings, 3)
    assert len(endings.told) == 2


_SLOW_JAVA = """\
#!/bin/sh
case "$*" in *CoarseGrainedExecutorBackend*) sleep {seconds};; esac
exec "{java}" "$@"
"""
# More than an application without executors was given before it was dropped
_SLOW_S = 35


def test_a_replacement_executor_on_a_slow_worker_is_waited_for(
    launcher: SparkLauncher, cluster: SparkCluster, tmp_path: Path
) -> None:
    """The trap: an application that is dropped because one worker is slow makes it begin anew."""
    wait_for_slots(launcher)
    application = launcher.context.applicationId
    slow = tmp_path / "java" / "bin" / "java"
    slow.parent.mkdir(parents=True)
    slow.write_text(_SLOW_JAVA.format(seconds=_SLOW_S, java=find_java()))
    slow.chmod(0o755)
    cluster.kill(cluster.workers[-1])
    wait_until(lambda: launcher.slots == 0, what="the executor to be missed", timeout_s=60)
    waiting = wait_until(lambda: launcher.problem, what="a problem", timeout_s=60)
    assert "no living worker" in waiting
    worker = cluster.start_worker(environment={"JAVA_HOME": str(slow.parents[1])})
    wait_until(lambda: launcher.slots, what="the slow executor", timeout_s=_SLOW_S + 60)
    assert launcher.context.applicationId == application
    cluster.kill(worker)
    cluster.start_worker()


def test_a_master_tells_which_application_has_which_cores(
    launcher: SparkLauncher, cluster: SparkCluster
) -> None:
    slots = wait_for_slots(launcher)
    session = launcher._supervisor.session
    assert session is not None
    assert session.master is not None
    state = session.master.state()
    (own,) = state.applications
    assert (own.id, own.cores) == (launcher.context.applicationId, slots)
    assert own.name.endswith("(group orders, Kafka 4L6g, term 1)")
    assert (state.cores, state.free) == (cluster.cores, 0)


def test_a_lost_node_of_a_full_cluster(
    launcher: SparkLauncher, cluster: SparkCluster, folder: Path, endings: Endings
) -> None:
    """The trap: Spark itself tries the node's tasks again, and waits for a slot that nobody has."""
    wait_for_slots(launcher)
    node = cluster.start_worker("127.0.0.2")
    wait_until(lambda: launcher.slots == 2 * cluster.cores, what="all slots", timeout_s=60)
    given = [launch("wait", task=number, attempt=8) for number in range(2 * cluster.cores)]
    for each in given:
        launcher.launch(each, endings)
    pids = [running(folder, each) for each in given]
    kill(*of_session(node.pid))
    wait_until(lambda: len(endings.told) == cluster.cores, what="its tasks to be lost")
    assert all("no other one has a free slot" in (each.trace or "") for each in endings.told)
    lost = {each.id for each in endings.told}
    kept = [(each, pid) for each, pid in zip(given, pids, strict=True) if each.id not in lost]
    assert not any(is_gone(pid) for _, pid in kept)
    for each, _ in kept:
        launcher.kill(each.id, each.attempt)
    wait_until(lambda: launcher.active == 0, what="all slots to be free")


def test_a_restarted_master_has_forgotten_the_application(
    launcher: SparkLauncher, cluster: SparkCluster, folder: Path, endings: Endings
) -> None:
    _busy(launcher, folder, endings, 4)
    assert cluster.master is not None
    cluster.kill(cluster.master)
    cluster.start_master()
    _lost(endings, 4)
    assert "no executor" in wait_until(lambda: launcher.problem, what="a problem", timeout_s=60)
    runs_again(launcher, endings, 4)
    assert len(endings.told) == 2


def test_an_application_that_the_master_removed(
    launcher: SparkLauncher, cluster: SparkCluster, folder: Path, endings: Endings
) -> None:
    _busy(launcher, folder, endings, 5)
    cluster.remove_application()
    _lost(endings, 5)
    assert "context was stopped" in wait_until(lambda: launcher.problem, what="a problem")
    runs_again(launcher, endings, 5)
    assert len(endings.told) == 2


def test_a_killed_driver_jvm(launcher: SparkLauncher, folder: Path, endings: Endings) -> None:
    _, pid = _busy(launcher, folder, endings, 6)
    kill(jvm_of(launcher))
    _lost(endings, 6)
    runs_again(launcher, endings, 6)
    wait_until(lambda: is_gone(pid), what="the old worker to end")
    assert len(endings.told) == 2


def test_a_master_that_is_away_when_spark_starts(
    launcher: SparkLauncher, cluster: SparkCluster, endings: Endings
) -> None:
    wait_for_slots(launcher)
    assert cluster.master is not None
    cluster.kill(cluster.master)
    kill(jvm_of(launcher))
    wait_until(lambda: launcher.problem, what="a problem")
    cluster.start_master()
    runs_again(launcher, endings, 7)
