"""Real connectors over the same data on a real worker and on ours: what they write, and offsets
by REST (KIP-875), where the same requests get the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from connect_runtime.kafka import clients
from support.broker import BrokerAddress, read_to_end
from support.postgres import Postgres, postgres
from support.real_connectors import SHOP, SNAPSHOT_ROWS, Shop
from support.sides import START_S, Side, two_workers
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

WAREHOUSES = ("apaches", "ours")


@dataclass(frozen=True, slots=True)
class Connected(Side):
    """A worker with its connectors over the data that both sides have."""

    shop: Shop = field(kw_only=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres([SHOP, *WAREHOUSES]) as running:
        yield running


@pytest.fixture(scope="module")
def sides(
    broker: BrokerAddress,
    server: Postgres,
    plugin_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sequence[Connected]]:
    """Apache's, then ours."""
    folder = tmp_path_factory.mktemp("sides")
    names = [f"{folder.name}-{side}" for side in WAREHOUSES]
    shops = [
        Shop(name, broker.bootstrap_servers, server, folder / name, warehouse)
        for name, warehouse in zip(names, WAREHOUSES, strict=True)
    ]
    shops[0].create_table()
    for shop in shops:
        shop.create_topics()
    settings = {
        "plugin.path": str(plugin_path),
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    with two_workers(folder, (names[0], names[1]), broker.bootstrap_servers, settings) as workers:
        yield [
            Connected(side.url, side.name, shop=shop)
            for side, shop in zip(workers, shops, strict=True)
        ]


def _entry(partition: Any, offset: Any) -> Mapping[str, Any]:
    return {"partition": partition, "offset": offset}


_LSN = {"lsn": 1, "lsn_proc": 1, "lsn_commit": 1, "txId": 1, "ts_usec": 1}
_SERVER = {"server": "SIDE"}
_OTHER = {"server": "other"}
_MIRRORED = {"cluster": "src", "partition": 0, "topic": "SIDE-clicks"}
_KAFKA = {"kafka_topic": "SIDE-clicks", "kafka_partition": 0}
_CHANGES = {"kafka_topic": "SIDE.public.orders", "kafka_partition": 0}

# Of one `change_table`: rows inserted, updated and deleted
CHANGES = 5 + 2 + 1
TOMBSTONES = 1
# When Debezium and Postgres have written something, where a snapshot was taken, and the id of an
# attempt at its task
PASSING = re.compile(
    rb'"ts_[mun]s":\d+|"(lsn|lsn_proc|txId)":\d+|"sequence":"\[[^\]]*\]"'
    rb"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)

# By the connector's role: what is altered while it is stopped, in order; None is a reset
ALTERED: Mapping[str, Sequence[Sequence[Mapping[str, Any]] | None]] = {
    "shop": (
        [_entry(_SERVER, _LSN)],
        [_entry(_SERVER, {"lsn": "x"})],
        [_entry(_SERVER, {"nothing": 1})],
        [_entry(_OTHER, _LSN)],
        [_entry({"schema": "SIDE"}, _LSN)],
        [_entry(_SERVER, None)],
        None,
    ),
    "mirror": (
        [_entry(_MIRRORED, {"offset": 3})],
        [_entry(_MIRRORED, {"offset": -1})],
        [_entry(_MIRRORED, {"offset": "3"})],
        [_entry(_MIRRORED, {"position": 3})],
        [_entry(_MIRRORED, {})],
        [_entry({**_MIRRORED, "cluster": "other"}, {"offset": 3})],
        [_entry({**_MIRRORED, "partition": "0"}, {"offset": 3})],
        [_entry({**_MIRRORED, "partition": -1}, {"offset": 3})],
        [_entry({**_MIRRORED, "topic": 7}, {"offset": 3})],
        [_entry({"topic": "SIDE-clicks"}, {"offset": 3})],
        [_entry({"topic": "SIDE-clicks"}, None)],
        [_entry(_MIRRORED, None)],
        None,
    ),
    "upsert": (
        [_entry(_CHANGES, {"kafka_offset": 5})],
        [_entry(_CHANGES, {"kafka_offset": "5"})],
        [_entry(_CHANGES, {"kafka_offset": -5})],
        [_entry(_CHANGES, {"offset": 5})],
        [_entry({**_CHANGES, "kafka_partition": 7}, {"kafka_offset": 5})],
        [_entry({"topic": "SIDE"}, {"kafka_offset": 5})],
        [_entry(_CHANGES, None)],
        None,
    ),
    "lake": ([_entry(_KAFKA, {"kafka_offset": 2})], [_entry(_KAFKA, None)], None),
    "count": (
        # also the one that is not altered again: each side has counted on until it was stopped
        [_entry({"number": "0"}, {"count": 7}), _entry({"number": "1"}, {"count": 7})],
        [_entry({"number": "0"}, {"count": "many"})],
    ),
}


@pytest.fixture(scope="module")
def moved(sides: Sequence[Connected]) -> Sequence[Connected]:
    """They have moved the same rows, changes and clicks."""
    _create(sides)
    sides[0].shop.change_table()
    for side in sides:
        side.shop.add_clicks()
        _wait_until_all_arrived(side)
    return sides


def test_records_rows_and_topics_of_real_connectors_are_those_of_apaches_worker(
    moved: Sequence[Connected],
) -> None:
    theirs, of_ours = (_moved(side) for side in moved)
    assert of_ours == theirs
    assert len(theirs["changes"]) == SNAPSHOT_ROWS + CHANGES + TOMBSTONES


def _moved(side: Connected) -> Mapping[str, Any]:
    """Returns what a side has written, without its name and what depends on time."""
    shop = side.shop
    kafka = clients.admin({"bootstrap.servers": shop.kafka})
    topics = (shop.changes, shop.mirrored)
    listed = kafka.list_topics(timeout=15).topics
    return {
        "changes": [_neutral(side, message) for message in read_to_end(shop.kafka, shop.changes)],
        "mirrored": [_neutral(side, message) for message in read_to_end(shop.kafka, shop.mirrored)],
        "partitions": [len(listed[topic].partitions) for topic in topics],
        "rows": shop.rows(shop.warehouse),
        "in use": {
            role: side.neutral(side("GET", f"/connectors/{shop.connector(role)}/topics"))
            for role in ALTERED
        },
    }


def _neutral(side: Connected, message: Message) -> tuple[Any, ...]:
    headers = [*(message.headers() or [])]
    return (
        message.partition(),
        *(
            PASSING.sub(b"", bytes(part or b"").replace(side.shop.name.encode(), b"SIDE"))
            for part in (message.key(), message.value(), *(value for _, value in headers))
        ),
        [name for name, _ in headers],
    )


def test_offsets_of_real_connectors_are_altered_as_by_apaches_worker(
    moved: Sequence[Connected],
) -> None:
    sides = moved
    for role in ALTERED:
        for side in sides:
            name = side.shop.connector(role)
            assert side("PUT", f"/connectors/{name}/stop").is_success
            side.wait_for(name, "STOPPED")
    for role, changes in ALTERED.items():
        apaches, ours = (list(_altered(side, role, changes)) for side in sides)
        assert ours == apaches, role


def test_offsets_in_a_topic_of_their_own_are_reset(moved: Sequence[Connected]) -> None:
    """By Apache's worker with exactly-once support that hangs: it answers 500 after 90 s."""
    side = moved[1]
    name = side.shop.connector("count")
    assert side("PUT", f"/connectors/{name}/stop").is_success
    side.wait_for(name, "STOPPED")
    for change, left in (([_entry({"number": "0"}, None)], ["1"]), (None, [])):
        ((_, (status, _), (_, offsets)),) = _altered(side, "count", [change])
        assert status == 200
        assert [entry["partition"]["number"] for entry in offsets["offsets"]] == left


def _create(sides: Sequence[Connected]) -> None:
    for side in sides:
        for name, config in side.shop.configs().items():
            side.put(name, config)
    for side in sides:
        for name, config in side.shop.configs().items():
            side.wait_for(name, *["RUNNING"] * (1 + int(config["tasks.max"])))


def _wait_until_all_arrived(side: Connected) -> None:
    shop = side.shop
    wait_until(
        lambda: (
            shop.rows(shop.warehouse) == shop.rows(SHOP)
            and len(shop.operations()) == SNAPSHOT_ROWS + CHANGES
            and shop.lake_rows() == shop.done.clicks
            and sum(map(len, shop.values(shop.mirrored).values())) == shop.done.clicks
        ),
        what="all to arrive",
        timeout_s=START_S,
    )


def _altered(side: Connected, role: str, changes: Any) -> Iterator[Any]:
    """Yields the answer to each change, and what the offsets are after it."""
    path = f"/connectors/{side.shop.connector(role)}/offsets"
    for change in changes:
        text = json.dumps({"offsets": change}).replace("SIDE", side.shop.name)
        if change is None:
            answer = side("DELETE", path)
        else:
            answer = side("PATCH", path, json.loads(text))
        yield change, side.neutral(answer), side.neutral(side("GET", path))
