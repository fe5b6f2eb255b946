"""Changes of a real Debezium for MariaDB, which keeps a history of schemas: the words of the plan,
and what then happens.

Rows 1 to 3 are there at first, and row 4 comes while it runs. Row 5 comes while it is stopped for
the change, row 6 after it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from connect_specs.desired import Pin
from oracle.changing import Change, Changing, changing
from support.broker import BrokerAddress, read_to_end
from support.mariadb import PASSWORD, USER, MariaDb, mariadb

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

FIRST = [1, 2, 3, 4]
GOES_ON = [5, 6]
ANEW = [*FIRST, 5, 6]
DATABASE = "shop"
HISTORY = "schema.history.internal.kafka.topic"
NO_HISTORY = "db history topic"
CHANGES = {
    "prefix": Change({"topic.prefix": "NAME_b"}, "begins as if it were new", ANEW, "reread"),
    "history": Change({HISTORY: "NAME-other"}, "fails where there is none", NO_HISTORY),
    "history_recovery": Change(
        {HISTORY: "NAME-other", "snapshot.mode": "recovery"}, "fails where there is none", GOES_ON
    ),
    "history_when_needed": Change(
        {HISTORY: "NAME-other", "snapshot.mode": "when_needed"},
        "fails where there is none",
        NO_HISTORY,
    ),
    "recovery": Change({"snapshot.mode": "recovery"}, "schemas anew", GOES_ON),
    "never": Change({"snapshot.mode": "never"}, "takes no snapshot", GOES_ON),
    "server_id": Change({"database.server.id": "4711"}, "another replica", GOES_ON),
}


@dataclass(frozen=True, slots=True)
class Shop:
    """A database, and the runtime that reads it."""

    server: MariaDb
    kafka: str
    runtime: Changing

    def config(self, name: str, more: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": LOOPBACK,
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.server.id": str(10_000 + zlib.crc32(name.encode()) % 10_000),
            "database.ssl.mode": "disable",
            "database.include.list": DATABASE,
            "table.include.list": f"{DATABASE}.{name}",
            "topic.prefix": name,
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            HISTORY: f"{name}-history",
            **more,
        }

    def insert(self, table: str, row: int) -> None:
        self.server.sql(f"INSERT INTO {table} VALUES ({row})", DATABASE)

    def rows(self, topic: str) -> list[int]:
        """Returns the rows that a topic's records are of, in order."""
        values = (message.value() for message in read_to_end(self.kafka, topic))
        return [json.loads(value)["payload"]["after"]["id"] for value in values if value]


@pytest.fixture(scope="module")
def shop(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder, kafka = tmp_path_factory.mktemp("changes"), broker.bootstrap_servers
    with mariadb(DATABASE) as server, changing(folder, kafka, ["debezium-mariadb"]) as runtime:
        yield Shop(server, kafka, runtime)


@pytest.fixture
def name(shop: Shop, unique: str) -> Iterator[str]:
    """The name of a connector, and of its table, which has three rows."""
    name = unique.replace("-", "_").lower()[-40:]
    shop.server.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)", DATABASE)
    shop.server.sql(f"INSERT INTO {name} VALUES (1), (2), (3)", DATABASE)
    yield name
    shop.runtime.delete_all()


def run_first(shop: Shop, name: str, config: Mapping[str, Any]) -> str:
    """Runs it until four rows have arrived, and stops it; returns their topic."""
    topic = f"{name}.{DATABASE}.{name}"
    shop.runtime.apply(name, config)
    shop.runtime.wait_for(name, [1, 2, 3], lambda: shop.rows(topic))
    shop.insert(name, 4)
    shop.runtime.wait_for(name, FIRST, lambda: shop.rows(topic))
    return topic


def expect(shop: Shop, name: str, table: str, topic: str, then: Sequence[int] | str) -> None:
    shop.insert(table, 6)
    at = len(FIRST) if topic.startswith(f"{table}.") else 0
    shop.runtime.wait_for(name, then, lambda: shop.rows(topic)[at:])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plan_says_what_a_change_does(shop: Shop, name: str, change: Change) -> None:
    before = shop.config(name, change.before)
    topic = run_first(shop, name, before)
    after = {**before, **change.changes}
    key = next(iter(change.changes))
    consequence, words = shop.runtime.said(name, after, key)
    assert consequence == change.consequence
    assert change.said in words
    shop.runtime.stop(name)
    shop.insert(name, 5)
    shop.runtime.apply(name, after)
    if key == "topic.prefix":
        topic = f"{name}_b.{DATABASE}.{name}"
    expect(shop, name, name, topic, change.then)


def test_a_renamed_connector_goes_on_with_its_history(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    shop.insert(name, 5)
    renamed = f"{name}-renamed"
    shop.runtime.apply(renamed, config, old=name)
    expect(shop, renamed, name, topic, GOES_ON)


def test_a_reset_takes_a_snapshot_which_adds_to_the_history(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    shop.insert(name, 5)
    schemas = len(read_to_end(shop.kafka, f"{name}-history"))
    shop.runtime.apply(name, config, Pin("anew", reset=True))
    expect(shop, name, name, topic, ANEW)
    assert len(read_to_end(shop.kafka, f"{name}-history")) > schemas


def test_an_earlier_offset_reads_the_binlog_again(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    (before,) = shop.runtime.project.offsets(name)
    shop.runtime.apply(name, config)
    shop.insert(name, 5)
    shop.runtime.wait_for(name, [5], lambda: shop.rows(topic)[len(FIRST) :])
    shop.runtime.apply(name, config, Pin("back", (before,)))
    expect(shop, name, name, topic, [5, 5, 6])
