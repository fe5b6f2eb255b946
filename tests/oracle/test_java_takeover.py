"""Real connectors under load are handed from Apache's worker to `connect distributed` and back,
three times, with the same worker.properties: what they moved is compared with what there was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import http
from support.broker import BrokerAddress, read_to_end
from support.distributed import distributed
from support.oracle import Oracle
from support.postgres import Postgres, postgres
from support.real_connectors import (
    CHECKPOINTS,
    HEARTBEATS,
    SHOP,
    SNAPSHOT_ROWS,
    WAREHOUSE,
    Shop,
)
from support.rest_catalog import rest_catalog
from support.rig import Ends, Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

# Spark, and JVMs for ten tasks
_START_S = 240
_TIMES = 3
SINKS = ("upsert", "lake")


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres([SHOP, WAREHOUSE]) as running:
        yield running


@pytest.fixture
def catalog(server: Postgres, plugin_path: Path, tmp_path: Path) -> Iterator[str]:
    (driver,) = (plugin_path / "debezium-postgres").glob("*/postgresql-*.jar")
    with rest_catalog(server, WAREHOUSE, driver, tmp_path) as url:
        yield url


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "rig")
    yield rig
    assert rig.end() == []


class Cluster:
    """The connectors on whichever worker runs."""

    def __init__(self, shop: Shop, url: str) -> None:
        self._shop = shop
        self._url = url

    def get(self, path: str) -> Any:
        try:
            answer = http.get(f"{self._url}{path}", timeout=60)
        except httpx.TransportError:  # the worker only starts
            return None
        return answer.json() if answer.is_success else None

    def put(self, path: str, body: Any = None) -> None:
        def accepted() -> bool:
            try:
                answer = http.put(f"{self._url}{path}", json=body, timeout=90)
            except httpx.TransportError:  # the worker only starts
                return False
            # a rebalance turns requests away, and so does a start
            assert answer.is_success or answer.status_code in (409, 503), answer.text
            return answer.is_success

        wait_until(accepted, what=f"PUT {path}", timeout_s=_START_S)

    def wait_until_it_runs(self) -> None:
        """Until all connectors and tasks run on this worker, and each has moved something."""
        self._wait_for_states({})
        before = self._progress()

        def moved() -> bool:
            _refuse_failures(self.get("/connectors?expand=status"))
            return all(now > then for now, then in zip(self._progress(), before, strict=True))

        wait_until(moved, what=f"each to have moved more than {before}", timeout_s=_START_S)

    def wait_until_it_rests(self) -> None:
        """Until all that there is has arrived. What has no end is stopped."""
        shop, ends = self._shop, Ends(self._shop.kafka)
        endless = [shop.connector(role) for role in ("count", "heartbeats")]
        for name in endless:
            self.put(f"/connectors/{name}/stop")
        self._wait_for_states(dict.fromkeys(endless, "STOPPED"))

        def arrived() -> bool:
            # the end of a transaction has an offset, too
            lags = [lag for role in SINKS for lag in self._lags(ends, self._offsets(role))]
            copied = [entry["offset"]["offset"] + 1 for entry in self._offsets("mirror")]
            read = [entry["offset"]["position"] for entry in self._offsets("lines")]
            return (
                all(lag <= 1 for lag in lags)
                and sum(copied) == shop.done.clicks
                and read == [shop.lines_file.stat().st_size]
                and shop.rows(SHOP) == shop.rows(WAREHOUSE)
                and shop.lake_rows() >= shop.done.clicks
            )

        wait_until(arrived, what="all to arrive", timeout_s=_START_S)

    def _offsets(self, role: str) -> Any:
        answer = self.get(f"/connectors/{self._shop.connector(role)}/offsets")
        return answer["offsets"]

    def _lags(self, ends: Ends, offsets: Any) -> list[int]:
        return [
            ends.stable(partition["kafka_topic"], partition["kafka_partition"])
            - entry["offset"]["kafka_offset"]
            for entry in offsets
            for partition in [entry["partition"]]
        ]

    def _wait_for_states(self, states: Mapping[str, str]) -> None:
        def runs() -> bool:
            found = self.get("/connectors?expand=status")
            if not found or found.keys() != self._shop.configs().keys():
                return False
            _refuse_failures(found)
            here = self._url.removeprefix("http://")
            return all(
                {(part["state"], part["worker_id"]) for part in _parts(each["status"])}
                == {(states.get(name, "RUNNING"), here)}
                and bool(each["status"]["tasks"]) == (name not in states)
                for name, each in found.items()
            )

        wait_until(runs, what="all connectors to run", timeout_s=_START_S)

    def _progress(self) -> list[int]:
        shop, ends = self._shop, Ends(self._shop.kafka)
        newest = shop.server.sql("SELECT to_regclass('orders') IS NOT NULL", WAREHOUSE) == [("t",)]
        rows = shop.server.sql("SELECT max(id) FROM orders", WAREHOUSE) if newest else [("0",)]
        topics = (shop.changes, shop.mirrored, shop.counted, shop.lines, CHECKPOINTS, HEARTBEATS)
        return [*(ends.stable(topic) for topic in topics), int(rows[0][0] or 0), shop.lake_rows()]

    def offsets_and_topics(self) -> dict[str, Any]:
        """Returns each connector's offsets and topics, and the lags of the sinks' groups."""
        ends = Ends(self._shop.kafka)
        answers: dict[str, Any] = {
            role: sorted(self._lags(ends, self._offsets(role))) for role in SINKS
        }
        for name in self._shop.configs():
            offsets = self.get(f"/connectors/{name}/offsets")["offsets"]
            topics = self.get(f"/connectors/{name}/topics")[name]["topics"]
            answers[name] = (
                sorted(json.dumps(each, sort_keys=True) for each in offsets),
                sorted(topics),
            )
        return answers


def _refuse_failures(statuses: Any) -> None:
    parts = [part for each in statuses.values() for part in _parts(each["status"])]
    failures = [str(part.get("trace")) for part in parts if part["state"] == "FAILED"]
    assert not failures, "\n".join(failures)


def _parts(status: Any) -> list[Any]:
    return [status["connector"], *status["tasks"]]


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "without that line"])
def test_real_connectors_are_taken_over_and_given_back(
    broker: BrokerAddress,
    server: Postgres,
    plugin_path: Path,
    catalog: str,
    rig: Rig,
    tmp_path: Path,
    unique: str,
    *,
    exactly_once: bool,
) -> None:
    shop = Shop(unique, broker.bootstrap_servers, server, tmp_path, catalog=catalog, more=True)
    shop.create_table()
    shop.create_topics()
    shop.add_lines()
    settings = {
        "plugin.path": str(plugin_path),
        "topic.creation.enable": "true",
        "java.file.connectors": "true",
    }
    folder = tmp_path / "apache"
    worker = Oracle.start(
        folder, shop.kafka, group_id=unique, exactly_once=exactly_once, settings=settings
    )
    file = folder / "worker.properties"
    if not exactly_once:
        worker.stop()
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if "exactly.once" not in line))
        worker = worker.again()
    cluster = Cluster(shop, worker.url)
    try:
        for name, config in shop.configs().items():
            cluster.put(f"/connectors/{name}/config", dict(config))
        shop.wait_for_snapshot(_START_S)
        with shop.under_load():
            for turn in range(_TIMES):
                cluster.wait_until_it_runs()
                worker.stop()
                with distributed(rig, file):
                    cluster.wait_until_it_runs()
                worker = worker.again() if turn < _TIMES - 1 else worker
        before = None
        for _ in range(2):
            with distributed(rig, file):
                cluster.wait_until_it_rests()
                before = before or cluster.offsets_and_topics()
                assert cluster.offsets_and_topics() == before
            worker = worker.again()
            cluster.wait_until_it_rests()
            assert cluster.offsets_and_topics() == before
            worker.stop()
    finally:
        worker.kill()
    _check(shop, exactly_once=exactly_once)


def _check(shop: Shop, *, exactly_once: bool) -> None:
    """Compares what arrived with what there was."""
    done = shop.done
    operations = shop.operations()
    counted = Counter(operation for operation, _, _ in set(operations))
    assert counted == {
        "r": SNAPSHOT_ROWS,
        "c": done.inserted,
        "u": done.updated,
        "d": done.deleted,
    }
    assert len([each for each in operations if each[0] == "r"]) == SNAPSHOT_ROWS
    slots = shop.server.sql("SELECT slot_name FROM pg_replication_slots")
    assert slots == [(shop.slot,)]
    clicks, mirrored = shop.values(shop.clicks), shop.values(shop.mirrored)
    assert {p: [*dict.fromkeys(values)] for p, values in mirrored.items()} == clicks
    for counts in shop.counts():
        assert sorted(set(counts)) == [*range(1, max(counts) + 1)]
    assert shop.lake_rows() == done.clicks
    (lines,) = shop.values(shop.lines).values()
    assert [*dict.fromkeys(lines)] == [b"line %d" % n for n in range(done.lines)]
    _check_checkpoints(shop, exactly_once=exactly_once)
    if exactly_once:
        assert len(lines) == done.lines
        assert len(operations) == len(set(operations))
        assert mirrored == clicks
        assert all(counts == sorted(set(counts)) for counts in shop.counts())


def _check_checkpoints(shop: Shop, *, exactly_once: bool) -> None:
    """None goes back, and none leads past a record that the group has not read; copies that are
    there twice count twice."""
    copies: dict[int, list[int]] = {}
    for message in read_to_end(shop.kafka, shop.mirrored):
        copies.setdefault(message.partition() or 0, []).append(message.offset() or 0)
    newest: dict[int, int] = {}
    for each in shop.checkpoints():
        assert each.upstream >= newest.get(each.partition, 0)
        newest[each.partition] = each.upstream
        passed = sum(offset < each.downstream for offset in copies[each.partition])
        assert passed <= each.upstream or not exactly_once
    assert newest.keys() == copies.keys()
