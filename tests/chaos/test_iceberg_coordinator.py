"""Iceberg's coordinator, which has a producer of its own, is frozen in a worker, succeeded in
another one, and woken: the table's rows are counted, by Apache's workers and by ours."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java
from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.distributed import start_runtime
from support.engines import engines
from support.java_plugins import make_jar
from support.oracle import Oracle
from support.postgres import PASSWORD, USER, Postgres, postgres
from support.processes import Process, frozen, process
from support.real_connectors import WAREHOUSE, Shop
from support.rig import Ends, Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

_log = logging.getLogger(__name__)

TIMES: Final = 3
START_S: Final = 240
# Workers and members of groups are missed after so long; the start of the next takes more
SUCCESSOR_S: Final = 180
# A commit for which an answer is missing is given up after 30 s
RESTS_S: Final = 60.0
SETTINGS: Final = {
    "plugin.discovery": "service_load",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "6000",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A worker: its REST address, and all processes that its tasks run in."""

    url: str
    processes: Callable[[], Sequence[Process]]

    def get(self, path: str) -> Any:
        try:
            answer = http.get(f"{self.url}{path}", timeout=30)
        except httpx.TransportError:
            return None
        return answer.json() if answer.is_success else None


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres([WAREHOUSE]) as running:
        yield running


@contextmanager
def _apaches(
    folder: Path, kafka: str, group: str, settings: Mapping[str, str]
) -> Iterator[Sequence[Node]]:
    with ExitStack() as stack:
        nodes = []
        for name in ("apache-1", "apache-2"):
            worker = Oracle.start(folder / name, kafka, group_id=group, settings=settings)
            stack.callback(worker.kill)
            (found,) = filter(None, [process(worker.pid)])
            nodes.append(Node(worker.url, lambda found=found: [found]))  # type: ignore[misc]
        yield nodes


@contextmanager
def _ours(
    folder: Path, kafka: str, group: str, settings: Mapping[str, str]
) -> Iterator[Sequence[Node]]:
    rig = Rig(folder / "rig", group)
    try:
        runtimes = []
        for name in ("ours-1", "ours-2"):
            (folder / name).mkdir()
            runtimes.append(start_runtime(rig, kafka, folder / name, settings))

        def all_of(runtime: Any) -> Sequence[Process]:
            session = runtime.processes
            return [*session, *engines({each.pid for each in session})]

        nodes = [Node(each.at.url, partial(all_of, each)) for each in runtimes]
        for node in nodes:
            wait_until(partial(node.get, "/health"), what="its health", timeout_s=START_S)
        yield nodes
        for each in runtimes:
            each.command.terminate()
            each.command.wait(90)
    finally:
        assert rig.end() == []


@pytest.mark.parametrize("workers", [_apaches, _ours], ids=["apache", "ours"])
def test_rows_of_a_coordinator_that_is_frozen_succeeded_and_woken(
    broker: BrokerAddress,
    server: Postgres,
    tmp_path: Path,
    unique: str,
    workers: Any,
    record_property: Callable[[str, object], None],
) -> None:
    plugins = tmp_path / "plugins"
    lake = add_plugin("iceberg", plugins)
    driver = _driver(tmp_path)
    (lake / driver.name).symlink_to(driver)
    shop = Shop(unique, broker.bootstrap_servers, server, tmp_path)
    shop.create_topics()
    name = shop.connector("lake")
    settings = {**SETTINGS, "plugin.path": str(plugins)}
    with workers(tmp_path, shop.kafka, unique, settings) as nodes:
        _put(nodes[0], name, shop.configs()[name])
        with shop.under_load(table=False):
            _wait_until_it_grows(shop)
            for _ in range(TIMES):
                host = _host(nodes, name)
                (other,) = (node for node in nodes if node is not host)
                with frozen(host.processes()):
                    wait_until(
                        lambda other=other: _host([other], name) is other,  # type: ignore[misc]
                        what="a successor",
                        timeout_s=SUCCESSOR_S,
                    )
                    _wait_until_it_grows(shop)
                _wait_until_it_grows(shop)
        _wait_until_it_rests(shop, nodes, name)
    counts = Counter(_rows(shop, lake, tmp_path))
    lost = set(range(shop.done.clicks)) - counts.keys()
    repeated = counts.total() - len(counts)
    record_property("clicks", shop.done.clicks)
    record_property("lost", len(lost))
    record_property("repeated", repeated)
    _log.warning("%d clicks, %d lost, %d repeated", shop.done.clicks, len(lost), repeated)
    assert (len(lost), repeated) == (0, 0)


def _driver(folder: Path) -> Path:
    (driver,) = add_plugin("debezium-postgres", folder / "drivers").glob("*/postgresql-*.jar")
    return driver


def _put(node: Node, name: str, config: Mapping[str, str]) -> None:
    def accepted() -> bool:
        answer = http.put(f"{node.url}/connectors/{name}/config", json=dict(config), timeout=90)
        assert answer.is_success or answer.status_code in (409, 503), answer.text
        return answer.is_success

    wait_until(accepted, what="its creation", timeout_s=START_S)


def _host(nodes: Sequence[Node], name: str) -> Node | None:
    """The worker that the task runs on, by what these say."""
    for node in nodes:
        status = node.get(f"/connectors/{name}/status")
        for task in status["tasks"] if status else []:
            if task["state"] == "RUNNING":
                for each in nodes:
                    if each.url.endswith(task["worker_id"]):
                        return each
    return None


def _wait_until_it_grows(shop: Shop) -> None:
    before = shop.done.clicks
    wait_until(lambda: shop.lake_rows() > before, what="rows", timeout_s=SUCCESSOR_S)


def _wait_until_it_rests(shop: Shop, nodes: Sequence[Node], name: str) -> None:
    """Until the sink has read all clicks, and the table has them or gets no more."""
    ends = Ends(shop.kafka)

    def read_all() -> bool:
        found = next(filter(None, (n.get(f"/connectors/{name}/offsets") for n in nodes)), None)
        offsets = found["offsets"] if found else []
        return len(offsets) > 1 and all(
            entry["offset"]["kafka_offset"]
            == ends.high(shop.clicks, entry["partition"]["kafka_partition"])
            for entry in offsets
        )

    wait_until(read_all, what="all clicks to be read", timeout_s=START_S)
    until = time.monotonic() + RESTS_S
    wait_until(
        lambda: shop.lake_rows() >= shop.done.clicks or time.monotonic() > until,
        what="the time to pass",
        timeout_s=RESTS_S + 10,
    )


def _rows(shop: Shop, plugin: Path, folder: Path) -> list[int]:
    """The numbers of the rows in the table."""
    jar = folder / "lake-rows.jar"
    jars = [*plugin.glob("*.jar")]
    make_jar(Path(__file__).parent / "plugins" / "LakeRows.java", {}, jar, jars)
    path = os.pathsep.join([str(jar), *map(str, jars), classpath("connect")])
    arguments = [shop.server.url(shop.warehouse), USER, PASSWORD, f"file://{shop.folder}/lake"]
    command = [str(find_java()), "-cp", path, "tests.LakeRows", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]
