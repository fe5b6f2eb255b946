"""The network of a Spark worker is cut: its tasks run elsewhere, and what still runs there, cut off
from everybody, ends once it is heard again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from connect_runtime.kafka import embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from support import http
from support.distributed import Runtime, start_runtime
from support.lines import Feeder, account, once
from support.network import node_with_network
from support.processes import of_session, task_processes
from support.rig import Rig, committed_lines
from support.spark_cluster import SparkCluster
from support.wait import wait_until

NAMES = ("a", "b", "c")
NOTICED_S = 15.0
RECOVERY_S = 120.0
# the topics are read as a whole each time
EVERY_S = 1.0


@contextmanager
def _broker(folder: Path, host: str) -> Iterator[str]:
    with (
        patch.object(embedded, "LOOPBACK", host),
        patch.object(embedded, "LOOPBACK", host),
    ):
        started = EmbeddedBroker.start(folder)
        try:
            yield started.bootstrap_servers
        finally:
            started.stop()


def _slots(runtime: Runtime) -> int:
    return int((runtime.at.get("/runtime") or {}).get("slots", 0))


def _all_run(runtime: Runtime) -> bool:
    """Whether all connectors and their tasks do."""
    found = runtime.at.get("/connectors?expand=status") or {}
    states = [
        (each["status"]["connector"]["state"], [task["state"] for task in each["status"]["tasks"]])
        for each in found.values()
    ]
    return states == [("RUNNING", ["RUNNING"])] * len(NAMES)


def _deliver(kafka: str, lasts: Mapping[str, int]) -> None:
    """The lines up to the last of each topic are in it."""
    for name, last in lasts.items():
        wait_until(
            partial(_has, kafka, name, last),
            what=f"{last} lines in {name}",
            timeout_s=RECOVERY_S,
            every_s=0.5,
        )


def _has(kafka: str, name: str, last: int) -> bool:
    return account(committed_lines(kafka, name), once(last)).lost == 0


@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make networks")
def test_the_network_of_a_worker_is_cut(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with ExitStack() as stack:
        node = stack.enter_context(node_with_network())
        kafka = stack.enter_context(_broker(tmp_path / "broker", node.here))
        rig = Rig(tmp_path / "project", "cut", f"{{bootstrap.servers: '{kafka}'}}")
        spark = SparkCluster(tmp_path / "spark", host=node.here)
        stack.callback(spark.end)
        stack.callback(rig.end)
        spark.start_master()
        far = spark.start_worker(node.address, starter=node.starter)
        (tmp_path / "runtime").mkdir()
        settings = spark.settings | {"spark.master": spark.url}
        runtime = start_runtime(rig, kafka, tmp_path / "runtime", settings)
        wait_until(lambda: _slots(runtime), what="slots", timeout_s=RECOVERY_S)
        feeders = {name: stack.enter_context(Feeder(tmp_path / name, EVERY_S)) for name in NAMES}
        for name in NAMES:
            config = {"connector.class": "FileStreamSource", "file": str(tmp_path / name)}
            body = {"name": name, "config": config | {"topic": name}}
            http.request("POST", f"{runtime.at.url}/connectors", json=body, timeout=90)
        _deliver(kafka, dict.fromkeys(NAMES, 1))
        before = task_processes(of_session(far.pid))
        assert len(before) == len(NAMES), "all tasks are on the node"
        spark.start_worker()
        wait_until(lambda: _slots(runtime) == 2 * spark.cores, what="both nodes' slots")
        cut_at = time.monotonic()
        with node.cut():
            wait_until(
                lambda: _slots(runtime) == spark.cores,
                what="the node to be missed",
                timeout_s=NOTICED_S,
                every_s=0.2,
            )
            record_property("noticed_after_s", round(time.monotonic() - cut_at, 1))
            wait_until(lambda: _all_run(runtime), what="all to run", timeout_s=RECOVERY_S)
            _deliver(kafka, {name: each.count for name, each in feeders.items()})
            assert all(each.alive for each in before), "nobody can tell them to end"
        wait_until(
            lambda: not any(each.alive for each in before),
            what="the orphans to end",
            timeout_s=RECOVERY_S,
        )
        lasts = {name: each.finish(0) for name, each in feeders.items()}
        _deliver(kafka, lasts)
        for name, last in lasts.items():
            found = account(committed_lines(kafka, name), once(last))
            assert (found.lost, found.duplicated, found.extra) == (0, 0, 0)
        assert _all_run(runtime)
        runtime.command.send_signal(signal.SIGTERM)
        assert runtime.command.wait(60) == 0
