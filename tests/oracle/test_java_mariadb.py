"""Debezium on a real MariaDB, by a real worker and by ours: a snapshot, changes, a changed table, a
kill, the history of schemas, and offsets that are read, altered and reset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Message

from connect_runtime.kafka.local_processes import LOOPBACK
from support.broker import BrokerAddress, read_to_end
from support.connect_jars import add_plugin
from support.engines import task_engines
from support.mariadb import PASSWORD, USER, MariaDb, mariadb
from support.processes import kill
from support.sides import START_S, Side, two_workers
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

SHOP: Final = "shop"
PLUGIN: Final = "debezium-mariadb"
TABLE: Final = """
CREATE TABLE products (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(8, 2), at TIMESTAMP(3),
    tags JSON, picture BLOB);
INSERT INTO products VALUES (1, 'tea', 3.20, '2026-01-02 03:04:05.678', '{"a": 1}', x'00ff'),
    (2, 'café', -0.01, '2026-01-02 03:04:05', NULL, NULL), (3, NULL, NULL, NULL, '[]', '')
"""
# Of the first three: a record each; of a deletion two, as the key is removed, too
FIRST, CHANGED, KILLED, ROWS = 3, 6, 2, 6
CHANGES: Final = """
INSERT INTO products VALUES (4, 'milk', 1.10, '2026-02-02 00:00:00', NULL, NULL);
UPDATE products SET price = 2 WHERE id = 1;
DELETE FROM products WHERE id = 2;
ALTER TABLE products ADD COLUMN stock INT DEFAULT 7;
INSERT INTO products VALUES (5, 'bread', 4, '2026-02-02 00:00:00', NULL, NULL, 8);
UPDATE products SET stock = 9 WHERE id = 4;
"""
# When something was read, and the id of an attempt at the task
PASSING: Final = re.compile(
    rb'"ts_(ms|us|ns|sec)" ?: ?\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
)


@pytest.fixture
def server() -> Iterator[MariaDb]:
    with mariadb(SHOP) as running:
        running.sql(TABLE, SHOP)
        yield running


@pytest.fixture
def sides(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Sequence[Side]]:
    plugins = tmp_path / "plugins"
    add_plugin(PLUGIN, plugins)
    settings = {
        "plugin.path": str(plugins),
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    names = f"{unique}-a", f"{unique}-o"
    with two_workers(tmp_path, names, broker.bootstrap_servers, settings) as workers:
        yield workers


def _config(kafka: str, server: MariaDb, name: str, number: int) -> Mapping[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": str(7000 + number),
        "database.ssl.mode": "disable",
        "database.include.list": SHOP,
        "topic.prefix": name,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"{name}-history",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }


def _topics(side: Side) -> Sequence[str]:
    """The topics of the table's changes, of changes of schemas, and of their history."""
    return f"{side.name}.{SHOP}.products", side.name, f"{side.name}-history"


def test_debezium_on_mariadb_is_as_by_apaches_worker(
    broker: BrokerAddress, server: MariaDb, sides: Sequence[Side], tmp_path: Path
) -> None:
    kafka = broker.bootstrap_servers

    def wait_for(count: int) -> None:
        """Until both have written so many records of the table, which are the same."""
        for side in sides:
            wait_until(
                lambda side=side: len(read_to_end(kafka, _topics(side)[0])) >= count,  # type: ignore[misc]
                what=f"{count} records of {side.name}",
                timeout_s=START_S,
            )
        theirs, of_ours = (
            [[_neutral(side, each) for each in read_to_end(kafka, t)] for t in _topics(side)]
            for side in sides
        )
        assert of_ours == theirs
        assert len(theirs[0]) == count

    for number, side in enumerate(sides):
        side.put(side.name, _config(kafka, server, side.name, number))
        side.wait_for(side.name, "RUNNING", "RUNNING")
    wait_for(FIRST)
    server.sql(CHANGES, SHOP)
    wait_for(FIRST + CHANGED)
    ours = sides[1].runtime
    assert ours is not None
    kill(*task_engines(ours))
    server.sql("INSERT INTO products (id) VALUES (6), (7)", SHOP)
    wait_for(FIRST + CHANGED + KILLED)
    for side in sides:
        assert side("PUT", f"/connectors/{side.name}/stop").is_success
        side.wait_for(side.name, "STOPPED")
    theirs, of_ours = ([*_altered(side)] for side in sides)
    assert of_ours == theirs
    # the last one is a reset: a snapshot follows, of rows that have changed
    for side in sides:
        assert side("PUT", f"/connectors/{side.name}/resume").is_success
    wait_for(FIRST + CHANGED + KILLED + ROWS)


def _neutral(side: Side, message: Message) -> tuple[bytes, ...]:
    parts = (message.key(), message.value())
    return tuple(
        PASSING.sub(b"", bytes(part or b"").replace(side.name.encode(), b"SIDE")) for part in parts
    )


_SERVER: Final = {"server": "SIDE"}
_AT: Final = {"file": "binlog.000001", "pos": 4}
ALTERED: Final[Sequence[Any]] = (
    [{"partition": _SERVER, "offset": _AT}],
    [{"partition": _SERVER, "offset": {"file": "binlog.000001"}}],
    [{"partition": _SERVER, "offset": {"file": "binlog.000001", "pos": "4"}}],
    [{"partition": _SERVER, "offset": {"file": 7, "pos": 4}}],
    [{"partition": _SERVER, "offset": {"file": "binlog.000001", "pos": -4}}],
    [{"partition": _SERVER, "offset": {"nothing": 1}}],
    [{"partition": {"server": "other"}, "offset": _AT}],
    [{"partition": {"database": "SIDE"}, "offset": _AT}],
    [{"partition": _SERVER, "offset": None}],
    [{"partition": _SERVER, "offset": _AT}],
    None,
)


def _altered(side: Side) -> Iterator[Any]:
    """Yields the offsets, and for each change its answer and what they are after it."""
    path = f"/connectors/{side.name}/offsets"
    yield _of_binlog(side)
    for change in ALTERED:
        if change is None:
            answer = side("DELETE", path)
        else:
            text = json.dumps({"offsets": change}).replace("SIDE", side.name)
            answer = side("PATCH", path, json.loads(text))
        yield change, side.neutral(answer), side.neutral(side("GET", path))


def _of_binlog(side: Side) -> Any:
    """Returns the offsets that the stream has written."""
    answer = side("GET", f"/connectors/{side.name}/offsets")
    (entry,) = answer.json()["offsets"]
    assert {"file", "pos"} <= entry["offset"].keys()
    return side.neutral(answer)
