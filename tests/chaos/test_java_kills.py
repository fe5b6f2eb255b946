"""Thirty faults, in random order and under load, of what runs Java connectors: JVMs and processes
of tasks, the connectors' JVM, and Spark's.

A file source and Debezium's stream lose nothing and repeat nothing for readers of what is
committed; the table that Debezium's JDBC sink writes equals the one that Debezium reads.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.distributed import Runtime, start_runtime
from support.engines import connectors_engines, spark_jvm, task_engines, task_with
from support.lines import Account, Feeder, account, once
from support.postgres import Postgres, postgres
from support.processes import Process, frozen, kill, node_servers
from support.real_connectors import SHOP, SNAPSHOT_ROWS, WAREHOUSE, Shop
from support.rig import Ends, Rig, committed_lines
from support.wait import wait_until

pytestmark = pytest.mark.long

_log = logging.getLogger(__name__)

FAULTS: Final = 30
START_S: Final = 240
BACK_S: Final = 120
# A frozen process is killed within ten seconds
NOTICED_S: Final = 40
LINES_EVERY_S: Final = 0.2
SETTINGS: Final = {
    "java.file.connectors": "true",
    "consumer.session.timeout.ms": "6000",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "topic.creation.enable": "true",
}
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres([SHOP, WAREHOUSE]) as running:
        yield running


@pytest.fixture
def rig(tmp_path: Path, unique: str) -> Iterator[Rig]:
    rig = Rig(tmp_path / "rig", unique)
    yield rig
    assert rig.end() == []


class Load:
    """The connectors, on a runtime, and what they are to move."""

    def __init__(self, runtime: Runtime, shop: Shop, feeder: Feeder, infile: Path) -> None:
        self.runtime, self.shop, self.infile = runtime, shop, infile
        self.lines = f"{shop.name}-lines"
        self._feeder, self._ends = feeder, Ends(shop.kafka)

    def create(self) -> None:
        """Creates the connectors."""
        configs = self.shop.configs()
        names = [self.shop.connector(role) for role in ("shop", "upsert")]
        file = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.infile),
            "topic": self.lines,
            "value.converter": STRING,
        }
        for name, config in [*((name, configs[name]) for name in names), (self.lines, file)]:
            answer = http.put(
                f"{self.runtime.at.url}/connectors/{name}/config", json=dict(config), timeout=90
            )
            assert answer.is_success, answer.text

    def wait_until_all_run(self, timeout_s: float) -> None:
        """Until connectors and tasks are RUNNING, and have moved more than there is now."""
        inserted, ends = self.shop.done.inserted, self._highs()

        def moved() -> bool:
            stable = [self._ends.stable(topic) for topic in (self.lines, self.shop.changes)]
            return (
                all(now > then for now, then in zip(stable, ends, strict=True))
                and self._newest_row() > SNAPSHOT_ROWS + inserted
            )

        wait_until(moved, what="all to move", timeout_s=timeout_s)
        wait_until(self._all_run, what="all to be RUNNING", timeout_s=timeout_s)

    def _highs(self) -> list[int]:
        return [self._ends.high(topic) for topic in (self.lines, self.shop.changes)]

    def _newest_row(self) -> int:
        rows = self.shop.rows(WAREHOUSE)
        return int(rows[-1][0] or 0) if rows else 0

    def _all_run(self) -> bool:
        connectors = self.runtime.at.get("/connectors?expand=status") or {}
        statuses = [each["status"] for each in connectors.values()]
        states = [
            part["state"] for each in statuses for part in (each["connector"], *each["tasks"])
        ]
        return states == ["RUNNING"] * 6

    def check(self) -> None:
        """Ends the load of lines, and compares what arrived with what there was."""
        last, shop = self._feeder.finish(0), self.shop
        wait_until(
            lambda: account(committed_lines(shop.kafka, self.lines), once(last)).lost == 0,
            what=f"all {last} lines",
            timeout_s=BACK_S,
            every_s=1,
        )
        arrived = account(committed_lines(shop.kafka, self.lines), once(last))
        assert arrived == Account(found=last, lost=0, duplicated=0, torn=0, extra=0)
        wait_until(
            lambda: shop.rows(SHOP) == shop.rows(WAREHOUSE), what="all rows", timeout_s=BACK_S
        )
        shop.assert_each_change_once()
        assert shop.server.sql("SELECT slot_name FROM pg_replication_slots") == [(shop.slot,)]


# --- faults ---

Hit = Callable[[Load], Sequence[Process]]


def _part(at: int, path: Callable[[Load], Path]) -> Hit:
    return lambda load: [task_with(load.runtime, path(load))[at]]


def _process(number: int, load: Load) -> Sequence[Process]:
    tasks = wait_until(
        lambda: tasks if len(tasks := load.runtime.tasks) == len(TASKS) else None,
        what="all tasks' processes",
        timeout_s=BACK_S,
    )
    return [tasks[number]]


def _one_of(processes: Callable[[Runtime], Sequence[Process]], load: Load) -> Sequence[Process]:
    return wait_until(lambda: processes(load.runtime), what="its process", timeout_s=BACK_S)[:1]


def _plugin(name: str) -> Callable[[Load], Path]:
    return lambda load: load.shop.folder / "plugins" / name


TASKS: Final[Mapping[str, Callable[[Load], Path]]] = {
    "file source": lambda load: load.infile,
    "Debezium": _plugin("debezium-postgres"),
    "JDBC sink": _plugin("debezium-jdbc"),
}
OF_RUNTIME: Final[Mapping[str, Hit]] = {
    "connectors' JVM": lambda load: connectors_engines(load.runtime),
    "Spark's JVM": lambda load: [spark_jvm(load.runtime)],
}
# By `java.tasks.jvm`
HITS: Final[Mapping[str, Mapping[str, Hit]]] = {
    "own": {
        **{f"process of {name}": _part(0, path) for name, path in TASKS.items()},
        **{f"JVM of {name}": _part(1, path) for name, path in TASKS.items()},
        **OF_RUNTIME,
    },
    "node": {
        **{f"process of task {number}": partial(_process, number) for number in range(len(TASKS))},
        "JVM of the tasks": lambda load: _one_of(task_engines, load),
        "agent": lambda load: _one_of(lambda runtime: node_servers(runtime.processes), load),
        **OF_RUNTIME,
    },
}


def _freeze(seconds: float, hit: Sequence[Process]) -> None:
    """Stops them by a signal for so long, unless they are killed for that."""
    until = time.monotonic() + seconds
    with frozen(hit):
        wait_until(
            lambda: time.monotonic() > until or not any(each.alive for each in hit),
            what="the time to pass",
            timeout_s=seconds + 10,
        )


WAYS: Final[Mapping[str, Callable[[Sequence[Process]], None]]] = {
    "killed": lambda hit: kill(*hit),
    "frozen for 3 s": partial(_freeze, 3.0),
    "frozen until noticed": partial(_freeze, NOTICED_S),
}


def _faults(chance: random.Random, hits: Iterable[str]) -> list[tuple[str, str]]:
    """All of them, each as often as possible, in random order."""
    possible = [(hit, way) for hit in hits for way in WAYS]
    faults = [*possible, *chance.sample(possible, FAULTS - len(possible))]
    chance.shuffle(faults)
    return faults


@pytest.mark.parametrize("jvm", HITS)
def test_nothing_is_lost_or_doubled_by_30_faults(
    jvm: str,
    broker: BrokerAddress,
    server: Postgres,
    rig: Rig,
    unique: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("CONNECT_CHAOS_SEED") or secrets.randbelow(1 << 32))
    _log.warning("CONNECT_CHAOS_SEED=%d", seed)
    shop = Shop(unique, broker.bootstrap_servers, server, tmp_path)
    shop.create_table()
    plugins = tmp_path / "plugins"
    for name in ("debezium-postgres", "debezium-jdbc"):
        add_plugin(name, plugins)
    folder = tmp_path / "runtime"
    folder.mkdir()
    settings = {**SETTINGS, "plugin.path": str(plugins), "java.tasks.jvm": jvm}
    runtime = start_runtime(rig, shop.kafka, folder, settings)
    infile = tmp_path / "lines.txt"
    took: dict[str, list[float]] = {}
    try:
        wait_until(lambda: runtime.at.get("/health"), what="its health", timeout_s=START_S)
        with Feeder(infile, LINES_EVERY_S) as feeder:
            load = Load(runtime, shop, feeder, infile)
            load.create()
            shop.wait_for_snapshot(START_S)
            with shop.under_load(clicks=False):
                load.wait_until_all_run(START_S)
                for number, (hit, way) in enumerate(_faults(random.Random(seed), HITS[jvm]), 1):
                    WAYS[way](HITS[jvm][hit](load))
                    began = time.monotonic()
                    load.wait_until_all_run(BACK_S)
                    seconds = round(time.monotonic() - began, 1)
                    _log.warning("%d: %s %s, all ran again in %s s", number, hit, way, seconds)
                    took.setdefault(f"{hit} {way}", []).append(seconds)
            load.check()
        assert runtime.command.poll() is None, runtime.last_words()
    finally:
        runtime.command.terminate()
        runtime.command.wait(90)
    record_property("seed", seed)
    record_property("all_ran_again_after_s", took)
