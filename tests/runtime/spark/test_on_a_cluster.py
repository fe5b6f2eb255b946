"""The main path on a Spark cluster: create, run, pause, stop, offsets and failover.

Two runtimes of one group, and one cluster of two nodes, for all tests of this file, which run in
their order. The nodes have no package of ours: `connect package` packs them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from support import http
from support.broker import BrokerAddress
from support.distributed import Runtime, start_runtime
from support.lines import account, once, write_lines
from support.processes import Process, frozen, kill, of_session, task_processes
from support.rig import Rig, committed_lines, lines_of
from support.spark_cluster import SparkCluster, spark_cluster
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

LINES = 500
# 5 cores on each node hold two tasks of two cores, and one core is left over
CORES, TASK_CPUS, SLOTS = 5, 2, 4
OTHER_NODE = "127.0.0.2"
START_S = 120.0
NOTICED_S = 15.0
PLUGIN = """\
from connect_runtime.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask


class Source(FileStreamSourceConnector):
    def task_class(self):
        return Task


class Task(FileStreamSourceTask): ...
"""


@dataclass(slots=True)
class Site:
    """A cluster, two runtimes on it, and the connectors `lines` and `on_nodes_copy` of a file."""

    rig: Rig
    kafka: str
    spark: SparkCluster
    runtimes: list[Runtime]
    infile: Path
    outfile: Path
    written: int = 0

    @property
    def leader(self) -> Runtime:
        return wait_until(
            lambda: next((each for each in self.runtimes if each.leads), None),
            what="a leader",
            timeout_s=START_S,
        )

    @property
    def standby(self) -> Runtime:
        return next(each for each in self.runtimes if each is not self.leader)

    @property
    def topic(self) -> str:
        return f"{self.rig.name}-lines"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the leader's REST API answers."""
        url = f"{self.leader.at.url}{path}"
        answer = http.request(method, url, json=body, timeout=90)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def states(self, name: str) -> list[str]:
        """The states of a connector and of its tasks."""
        found = self.leader.at.get(f"/connectors/{name}/status")
        if found is None:
            return []
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]

    def wait_for(self, name: str, *states: str) -> None:
        wait_until(
            lambda: self.states(name) == list(states),
            what=f"{name} to be {states}",
            timeout_s=START_S,
        )

    def running(self) -> int:
        return int(self.leader.at.get("/runtime")["running"])

    def write(self) -> None:
        """More lines, and all so far are to arrive."""
        write_lines(self.infile, self.written + 1, self.written + LINES)
        self.written += LINES

    def deliver(self) -> None:
        """All lines are in the topic once, and in the sink's file."""
        self.write()
        wait_until(
            lambda: account(committed_lines(self.kafka, self.topic), once(self.written)).lost == 0,
            what=f"{self.written} lines in the topic",
            timeout_s=START_S,
        )
        found = account(committed_lines(self.kafka, self.topic), once(self.written))
        assert (found.lost, found.duplicated, found.extra) == (0, 0, 0)
        wait_until(
            lambda: account(lines_of(self.outfile), once(self.written)).lost == 0,
            what="the sink to have them",
            timeout_s=START_S,
        )


@pytest.fixture(scope="module")
def site(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("on-a-cluster")
    kafka = broker.bootstrap_servers
    for file in ("plugins/on_one_node.py", "plugins/on_no_node.py", "other/on_one_node.py"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(PLUGIN)
    without_ours = {"PYTHONPATH": "", "PYSPARK_PYTHON": ""}
    with (
        pytest.MonkeyPatch.context() as patch,
        spark_cluster(folder / "spark", cores=CORES, environment=without_ours) as spark,
    ):
        patch.setenv("PYTHONPATH", str(folder / "plugins"))
        spark.start_worker(OTHER_NODE, {"PYTHONPATH": str(folder / "other")})
        rig = Rig(folder / "project", f"on-{os.getpid()}", f"{{bootstrap.servers: '{kafka}'}}")
        settings = json.loads(rig("package", "--json").stdout)["properties"] | spark.settings
        settings |= {"spark.master": spark.url, "spark.task.cpus": str(TASK_CPUS)}
        settings |= {"plugin.modules": "on_one_node,on_no_node"}
        runtimes = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            runtimes.append(start_runtime(rig, kafka, folder / name, settings))
        try:
            yield Site(rig, kafka, spark, runtimes, folder / "in", folder / "out")
        finally:
            for runtime in runtimes:
                if runtime.command.poll() is None:
                    runtime.command.send_signal(signal.SIGTERM)
                    runtime.command.wait(60)
            assert rig.end() == []


def _tasks(site: Site) -> list[Process]:
    """The Python processes of tasks, on all nodes."""
    return task_processes([p for each in site.spark.workers for p in of_session(each.pid)])


def _jvms(runtime: Runtime) -> list[Process]:
    return [each for each in runtime.processes if "org.apache.spark.deploy" in each.command]


def test_slots_are_what_executors_hold_and_a_standby_takes_none(site: Site) -> None:
    """Each executor holds whole tasks only: 5 cores are two tasks of two."""
    leader = site.leader
    wait_until(
        lambda: leader.at.get("/runtime")["slots"] == SLOTS, what="all slots", timeout_s=START_S
    )
    wait_until(lambda: site.standby.at.get("/health"), what="the standby to be healthy")
    assert _jvms(leader)
    assert _jvms(site.standby) == []
    assert site.standby.at.get("/runtime")["problem"] is None
    state = site.spark.state()
    assert state is not None
    assert state["coresused"] == 2 * CORES


@pytest.mark.long
def test_a_plugin_that_nodes_lack_is_named_and_another_node_is_tried(site: Site) -> None:
    names = ("on_one_node", "on_no_node")
    for name in names:
        config = {"connector.class": f"{name}:Source", "file": str(site.infile), "topic": name}
        site.ask("POST", "/connectors", {"name": name, "config": config})
    site.wait_for("on_one_node", "RUNNING", "RUNNING")
    site.wait_for("on_no_node", "RUNNING", "FAILED")
    (task,) = site.leader.at.get("/connectors/on_no_node/status")["tasks"]
    for node in (LOOPBACK, OTHER_NODE):
        assert f"Task on_no_node-0 cannot run on node {node}: Class" in task["trace"]
    assert "No module named 'on_no_node'" in task["trace"]
    assert "`connect package`" in task["trace"]
    for name in names:
        site.ask("DELETE", f"/connectors/{name}")


def test_created_connectors_run(site: Site) -> None:
    """From the archive: the nodes have none of our packages."""
    nodes_python = [sys._base_executable, "-c", "import connect_runtime"]  # type: ignore[attr-defined]
    assert subprocess.run(nodes_python, capture_output=True, check=False).returncode != 0
    source = {"connector.class": "FileStreamSource", "file": str(site.infile), "topic": site.topic}
    sink = {"connector.class": "FileStreamSink", "file": str(site.outfile), "topics": site.topic}
    site.ask("POST", "/connectors", {"name": "lines", "config": source})
    site.ask("POST", "/connectors", {"name": "on_nodes_copy", "config": sink})
    site.deliver()
    for name in ("lines", "on_nodes_copy"):
        site.wait_for(name, "RUNNING", "RUNNING")
    tasks = _tasks(site)
    assert len(tasks) == 2
    assert all(each.command.startswith("./environment/bin/python ") for each in tasks)


def test_tasks_of_a_killed_executor_start_again_and_others_go_on(site: Site) -> None:
    first, second = site.spark.workers
    lost = first if task_processes(of_session(first.pid)) else second
    (kept,) = {first, second} - {lost}
    others = task_processes(of_session(kept.pid))
    killed = task_processes(of_session(lost.pid))
    kill(*site.spark.executors(lost))
    site.deliver()
    wait_until(lambda: not any(p.alive for p in killed), what="its tasks to end")
    for name in ("lines", "on_nodes_copy"):
        site.wait_for(name, "RUNNING", "RUNNING")
    assert all(each.alive for each in others)
    wait_until(
        lambda: site.leader.at.get("/runtime")["slots"] == SLOTS,
        what="its slots",
        timeout_s=START_S,
    )


@pytest.mark.long
def test_a_task_that_is_frozen_alone_runs_again(site: Site) -> None:
    """Its executor is healthy, and Spark notices nothing."""
    before = _tasks(site)
    with frozen(before[:1]):
        site.write()
        wait_until(lambda: not before[0].alive, what="it to be noticed", timeout_s=NOTICED_S)
        site.deliver()
    site.deliver()
    for name in ("lines", "on_nodes_copy"):
        site.wait_for(name, "RUNNING", "RUNNING")
    assert before[1].alive


def test_a_paused_task_keeps_its_slot_and_a_stopped_one_releases_it(site: Site) -> None:
    site.ask("PUT", "/connectors/lines/pause")
    site.wait_for("lines", "PAUSED", "PAUSED")
    assert site.running() == 2
    site.ask("PUT", "/connectors/lines/resume")
    site.deliver()
    site.ask("PUT", "/connectors/lines/stop")
    site.wait_for("lines", "STOPPED")
    wait_until(lambda: site.running() == 1, what="its slot to be free")


@pytest.mark.long
def test_a_node_that_vanishes_is_noticed_and_its_tasks_run_elsewhere(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """It closes no connection: its processes are frozen, and go on later. Then there are two tasks
    of the same name for a moment, and only one of them can write."""
    site.ask("PUT", "/connectors/lines/resume")
    site.deliver()
    node = next(each for each in site.spark.workers if task_processes(of_session(each.pid)))
    leader = site.leader
    slots = leader.at.get("/runtime")["slots"]
    began = time.monotonic()
    with frozen(of_session(node.pid)):
        site.write()
        wait_until(
            lambda: leader.at.get("/runtime")["slots"] < slots,
            what="it to be missed",
            timeout_s=NOTICED_S,
            every_s=0.2,
        )
        record_property("noticed_after_s", round(time.monotonic() - began, 1))
        site.deliver()
        for name in ("lines", "on_nodes_copy"):
            site.wait_for(name, "RUNNING", "RUNNING")
    site.deliver()
    wait_until(
        lambda: len(_tasks(site)) == 2, what="the orphans to end", timeout_s=START_S, every_s=0.2
    )
    assert leader.leads


@pytest.mark.long
def test_a_killed_leader_is_followed_by_the_standby(site: Site) -> None:
    """It takes the executors over, and no line is lost or comes twice."""
    site.ask("PUT", "/connectors/lines/resume")
    site.deliver()
    old, new = site.leader, site.standby
    site.write()
    kill(old.processes[0])
    wait_until(lambda: new.leads, what="the standby to lead", timeout_s=START_S)
    site.deliver()
    assert new.at.get("/runtime")["slots"] == SLOTS
    assert old.processes == []


def test_offsets_are_altered_while_it_is_stopped(site: Site) -> None:
    site.ask("PUT", "/connectors/lines/stop")
    site.wait_for("lines", "STOPPED")
    (found,) = site.ask("GET", "/connectors/lines/offsets")["offsets"]
    assert found["offset"]["position"] == site.infile.stat().st_size
    found["offset"]["position"] = 0
    site.ask("PATCH", "/connectors/lines/offsets", {"offsets": [found]})
    site.ask("PUT", "/connectors/lines/resume")
    wait_until(
        lambda: sum(1 for _ in committed_lines(site.kafka, site.topic)) == 2 * site.written,
        what="all lines once more",
        timeout_s=START_S,
    )
