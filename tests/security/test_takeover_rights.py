"""A worker's file of Apache's without a line about exactly once: here its sources write in
transactions, so its login lacks rights. The start names them, and so do statuses and `doctor`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.broker import create_topic, read_to_end
from support.command import Command
from support.distributed import distributed
from support.guarded_broker import PASSWORD, GuardedBroker, binding
from support.http import get, post
from support.java_plugins import SOURCE, add_compiled
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

USER = "leader"
TASKS = 2
START_S = 240


def test_rights_to_transactional_ids_that_a_takeover_lacks_are_named(
    guarded: GuardedBroker, unique: str, tmp_path: Path
) -> None:
    kafka, group, folder = guarded.open["bootstrap.servers"], f"g{unique[-8:]}", tmp_path / "apache"
    add_compiled("Counting", {SOURCE: "tests.Counting"}, tmp_path / "plugins")
    create_topic(kafka, unique)
    login = guarded.client(USER)
    clients = ("", "producer.", "consumer.", "admin.")
    rights = [
        binding(USER, kind, name, operation, prefixed=True)
        for kind, name in (("TOPIC", group), ("TOPIC", unique), ("GROUP", group))
        for operation in ("ALL",)
    ]
    of_tasks = [
        binding(USER, "TRANSACTIONAL_ID", f"{group}-count-{task}", "WRITE") for task in range(TASKS)
    ]
    of_leader = [binding(USER, "TRANSACTIONAL_ID", f"connect-cluster-{group}", "WRITE")]
    guarded.set_rights(rights)
    worker = Oracle.start(
        folder,
        login["bootstrap.servers"],
        group_id=group,
        exactly_once=False,
        settings={
            "plugin.path": str(tmp_path / "plugins"),
            **{f"{client}{key}": value for client in clients for key, value in login.items()},
        },
    )
    file = folder / "worker.properties"
    config = {"connector.class": "tests.Counting", "topic": unique, "tasks.max": f"{TASKS}"}
    rig = Rig(tmp_path / "rig")
    try:
        worker.put({"name": "count", **config})
        wait_until(lambda: read_to_end(kafka, unique), what="records", timeout_s=START_S)
        worker.stop()
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if "exactly.once" not in line))
        log = folder / "runtime.log"
        ids = [f"{group}-count-{task}" for task in range(TASKS)]
        project = _project(tmp_path / "project", group, login)
        said = _said(project("doctor"))
        assert all(each in said for each in ids), said
        with distributed(rig, file) as ours:
            # it is named, and needs no other start
            wait_until(
                lambda: f"connect-cluster-{group}" in log.read_text(),
                what="the right of the runtime itself",
                timeout_s=START_S,
            )
            guarded.set_rights(of_leader)
            wait_until(
                lambda: _failures(worker.url, TASKS),
                what="the tasks to fail",
                timeout_s=START_S,
            )
            traces = _failures(worker.url, TASKS)
            assert all(
                f"needs Write on the transactional id {each}." in trace
                for each, trace in zip(ids, traces, strict=True)
            )
            said = _said(project("doctor"))
            assert all(each in said for each in ids), said
            logged = log.read_text()
            assert all(each in logged for each in ids), logged
            assert PASSWORD not in said + "".join(traces)
            guarded.set_rights(of_tasks)
            before = len(read_to_end(kafka, unique))
            post(f"{ours.url}/connectors/count/restart?includeTasks=true&onlyFailed=true")
            wait_until(
                lambda: len(read_to_end(kafka, unique)) > before,
                what="records",
                timeout_s=START_S,
            )
    finally:
        worker.kill()
        guarded.take_rights([*rights, *of_tasks, *of_leader])
    assert rig.end() == []


def _failures(url: str, count: int) -> list[str]:
    """Returns the traces of the tasks, once so many have failed."""
    found: Any = get(f"{url}/connectors/count/status", timeout=60)
    if not found.is_success:
        return []
    tasks = found.json()["tasks"]
    traces = [task.get("trace", "") for task in tasks if task["state"] == "FAILED"]
    return traces if len(traces) == count else []


def _project(folder: Path, group: str, login: dict[str, str]) -> Command:
    folder.mkdir()
    kafka = "".join(f"    {key}: '{value}'\n" for key, value in login.items())
    (folder / "connect.yaml").write_text(
        f"project: shop\ncluster:\n  group.id: {group}\n  target: runtime\n  kafka:\n{kafka}"
    )
    return Command(folder)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr
