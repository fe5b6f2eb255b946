"""Spark's processes are killed under a runtime: its connectors go on, and nothing is lost."""

import os
import signal
from pathlib import Path

import pytest

from support import http
from support.lines import account, once, write_lines
from support.processes import Process, kill, of_session, task_processes
from support.rig import Rig, Up, committed_lines
from support.spark_cluster import spark_cluster
from support.wait import wait_until

LINES = 2_000
RECOVERY_S = 120.0


def _health(up: Up) -> int:
    return http.get(f"{up.url}/health", timeout=10).status_code


def _delivered(kafka: str, name: str, last: int) -> None:
    """All lines are in the topic, each of them once."""
    wait_until(
        lambda: account(committed_lines(kafka, name), once(last)).lost == 0,
        what=f"{last} lines in {name}",
        timeout_s=RECOVERY_S,
        every_s=0.2,
    )
    found = account(committed_lines(kafka, name), once(last))
    assert (found.lost, found.duplicated, found.extra) == (0, 0, 0)


def _jvm(up: Up) -> Process:
    return next(each for each in up.processes if "org.apache.spark.deploy" in each.command)


@pytest.mark.long
def test_a_killed_jvm_is_replaced_and_health_says_so(rig: Rig, unique: str) -> None:
    rig.no_specs()
    up = rig.running or rig.up()
    file = rig.source(unique)
    write_lines(file, 1, LINES)
    rig.apply()
    _delivered(up.kafka, unique, LINES)
    assert _health(up) == 200

    kill(_jvm(up))
    wait_until(lambda: _health(up) == 500, what="the runtime to be unhealthy")
    unhealthy = http.get(f"{up.url}/health", timeout=10)
    if unhealthy.status_code == 500:
        assert unhealthy.json()["status"] == "unhealthy"
        assert "Spark's JVM ended" in unhealthy.json()["message"]
    write_lines(file, LINES + 1, 2 * LINES)
    wait_until(lambda: _health(up) == 200, what="it to be healthy", timeout_s=RECOVERY_S)
    _delivered(up.kafka, unique, 2 * LINES)
    found = up.get("/runtime")
    assert (found["problem"], found["running"]) == (None, 1)
    assert rig.running == up


@pytest.mark.long
def test_a_killed_python_worker_is_replaced_and_its_sibling_stays(rig: Rig, unique: str) -> None:
    rig.no_specs()
    up = rig.running or rig.up()
    names = [f"{unique}-a", f"{unique}-b"]
    files = [rig.source(name) for name in names]
    for file in files:
        write_lines(file, 1, LINES)
    rig.apply()
    for name in names:
        _delivered(up.kafka, name, LINES)
    before = task_processes(of_session(up.pid))
    assert len(before) == 2
    os.kill(before[0].pid, signal.SIGKILL)
    for name, file in zip(names, files, strict=True):
        write_lines(file, LINES + 1, 2 * LINES)
        _delivered(up.kafka, name, 2 * LINES)
    assert before[1].alive
    assert _health(up) == 200


@pytest.mark.long
def test_on_a_cluster_whose_worker_and_master_are_killed(tmp_path: Path, unique: str) -> None:
    with spark_cluster(tmp_path / "spark") as cluster:
        rig = Rig(tmp_path / "project", name=unique)
        rig.set_worker({"spark.master": cluster.url} | cluster.settings)
        up = rig.up()
        try:
            file = rig.source(unique)
            write_lines(file, 1, LINES)
            rig.apply()
            _delivered(up.kafka, unique, LINES)

            cluster.kill(cluster.workers[-1])
            cluster.start_worker()
            write_lines(file, LINES + 1, 2 * LINES)
            _delivered(up.kafka, unique, 2 * LINES)

            assert cluster.master is not None
            cluster.kill(cluster.master)
            cluster.start_master()
            wait_until(lambda: _health(up) == 500, what="to be unhealthy", timeout_s=RECOVERY_S)
            write_lines(file, 2 * LINES + 1, 3 * LINES)
            _delivered(up.kafka, unique, 3 * LINES)
            wait_until(lambda: _health(up) == 200, what="to be healthy", timeout_s=RECOVERY_S)
        finally:
            assert rig.end() == []
