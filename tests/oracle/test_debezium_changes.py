"""Changes of a real Debezium for PostgreSQL: the plan's words, and what then happens.

Rows 1 to 3 are there at first, and row 4 comes while it runs. Row 5 comes while it is stopped for
the change, row 6 after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from connect_specs.desired import OffsetEntry, Pin
from oracle.changing import Change, Changing, changing
from support.broker import BrokerAddress, read_to_end
from support.postgres import PASSWORD, USER, Postgres, postgres
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

FIRST = [1, 2, 3, 4]
GOES_ON = [5, 6]
ANEW = [*FIRST, 5, 6]
LOST = [6]
GONE = "no longer available on the server"
CHANGES = {
    "prefix": Change({"topic.prefix": "NAME_b"}, "begins as if it were new", ANEW, "reread"),
    "always": Change({"snapshot.mode": "always"}, "all rows are written again", ANEW, "reread"),
    "no_data": Change({"snapshot.mode": "no_data"}, "changes alone", GOES_ON),
    "when_needed": Change({"snapshot.mode": "when_needed"}, "where it has no offset", GOES_ON),
    "initial_only": Change({"snapshot.mode": "initial_only"}, "no more changes are read", []),
    "fetch": Change({"snapshot.fetch.size": "9"}, "next snapshot", GOES_ON),
    "slot": Change({"slot.name": "NAME_b"}, "the task fails", GONE),
    "slot_no_data": Change(
        {"slot.name": "NAME_b", "snapshot.mode": "no_data"}, "the task fails", GONE
    ),
    "slot_when_needed": Change(
        {"slot.name": "NAME_b", "snapshot.mode": "when_needed"}, "takes a snapshot", ANEW
    ),
    "decoder": Change({"plugin.name": "decoderbufs"}, "is of one plugin", GONE),
    "slot_ahead": Change(
        {"slot.name": "NAME_b"},
        "made before",
        GOES_ON,
        ahead="SELECT pg_create_logical_replication_slot('NAME_b', 'pgoutput')",
    ),
    "slot_trusted": Change(
        {"slot.name": "NAME_b", "offset.mismatch.strategy": "trust_slot"}, "are lost", LOST
    ),
    "slot_greater": Change(
        {"slot.name": "NAME_b", "offset.mismatch.strategy": "trust_greater_lsn"}, "are lost", LOST
    ),
    "slot_mismatch": Change(
        {"slot.name": "NAME_b", "offset.mismatch.strategy": "trust_offset"}, "the task fails", GONE
    ),
    "drop": Change({"slot.drop.on.stop": "true"}, "at its next start the task fails", GOES_ON),
    "dropped": Change(
        {"snapshot.fetch.size": "9"},
        "its slot is dropped when it stops: at its next start the task fails",
        GONE,
        before={"slot.drop.on.stop": "true"},
    ),
    "dropped_when_needed": Change(
        {"snapshot.fetch.size": "9"},
        "its slot is dropped when it stops: at its next start it takes a snapshot",
        ANEW,
        before={"slot.drop.on.stop": "true", "snapshot.mode": "when_needed"},
    ),
    "database": Change({"database.dbname": "other"}, "unless a slot of this name", GONE),
    "publication": Change({"publication.name": "NAME_b"}, "are lost", LOST),
    "publication_ahead": Change(
        {"publication.name": "NAME_b"},
        "made before",
        GOES_ON,
        ahead="CREATE PUBLICATION NAME_b FOR TABLE NAME",
    ),
    "publication_mode": Change(
        {"publication.autocreate.mode": "all_tables"}, "which changes it sees", GOES_ON
    ),
    "columns": Change({"column.exclude.list": "public.NAME.note"}, "other columns", GOES_ON),
    "numbers": Change({"decimal.handling.mode": "string"}, "other types", GOES_ON),
    "signals": Change({"signal.data.collection": "public.NAME_b"}, "signals come", GOES_ON),
    "skipped": Change({"skipped.operations": "u"}, "other kinds of changes", GOES_ON),
    "skipped_all": Change({"skipped.operations": "c"}, "other kinds of changes", []),
    "tables": Change({"table.include.list": "public.NAME_b"}, "other tables", []),
}


@dataclass(frozen=True, slots=True)
class Shop:
    """A database, and the runtime that reads it."""

    server: Postgres
    kafka: str
    runtime: Changing

    def config(self, name: str, more: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": LOOPBACK,
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": USER,
            "topic.prefix": name,
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": f"public.{name}",
            **more,
        }

    def insert(self, table: str, row: int) -> None:
        self.server.sql(f"INSERT INTO {table} VALUES ({row})")

    def rows(self, topic: str) -> list[int]:
        """Returns the rows that a topic's records are of, in order."""
        values = (message.value() for message in read_to_end(self.kafka, topic))
        return [json.loads(value)["payload"]["after"]["id"] for value in values if value]

    def slots(self) -> dict[str | None, bool]:
        """Returns by slot whether it is in use."""
        rows = self.server.sql("SELECT slot_name, active FROM pg_replication_slots")
        return {name: active == "t" for name, active in rows}

    def offset(self, name: str) -> OffsetEntry:
        (entry,) = self.runtime.project.offsets(name)
        return entry


@pytest.fixture(scope="module")
def shop(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder, kafka = tmp_path_factory.mktemp("changes"), broker.bootstrap_servers
    with postgres(["other"]) as server, changing(folder, kafka, ["debezium-postgres"]) as runtime:
        yield Shop(server, kafka, runtime)


@pytest.fixture
def name(shop: Shop, unique: str) -> Iterator[str]:
    """The name of a connector, and of its table, which has three rows."""
    name = unique.replace("-", "_").lower()[-40:]
    columns = "(id int PRIMARY KEY, note text, price numeric(9, 2))"
    shop.server.sql(f"CREATE TABLE {name} {columns}; CREATE TABLE {name}_b {columns}")
    shop.server.sql(f"INSERT INTO {name} VALUES (1), (2), (3)")
    yield name
    shop.runtime.delete_all()
    wait_until(lambda: not any(shop.slots().values()), what="slots that nobody uses")
    shop.server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def run_first(shop: Shop, name: str, config: Mapping[str, Any], ahead: str = "") -> str:
    """Runs it until four rows have arrived; returns their topic."""
    topic = f"{name}.public.{name}"
    shop.runtime.apply(name, config)
    shop.runtime.wait_for(name, [1, 2, 3], lambda: shop.rows(topic))
    if ahead:
        shop.server.sql(ahead.replace("NAME", name))
    shop.insert(name, 4)
    shop.runtime.wait_for(name, FIRST, lambda: shop.rows(topic))
    return topic


def expect(shop: Shop, name: str, topic: str, at: int, then: Sequence[int] | str) -> None:
    shop.insert(name, 6)
    shop.runtime.wait_for(name, then, lambda: shop.rows(topic)[at:])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plan_says_what_a_change_does(shop: Shop, name: str, change: Change) -> None:
    before = shop.config(name, change.before)
    topic = run_first(shop, name, before, change.ahead)
    after = {**before, **change.changes}
    key = next(iter(change.changes))
    consequence, words = shop.runtime.said(name, after, key)
    assert consequence == change.consequence
    assert change.said in words
    shop.runtime.stop(name)
    shop.insert(name, 5)
    shop.runtime.apply(name, after)
    if change.then == []:
        shop.insert(name, 6)
        # a start later nothing has come
        shop.runtime.apply(name, {**after, "max.batch.size": "77"})
        assert (shop.rows(topic)[len(FIRST) :], shop.runtime.trace(name)) == ([], "")
    elif after["topic.prefix"] != name:
        expect(shop, name, f"{name}_b.public.{name}", 0, change.then)
    else:
        expect(shop, name, topic, len(FIRST), change.then)


def test_a_task_that_failed_for_its_slot_goes_on_with_the_former_one(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.apply(name, {**config, "slot.name": f"{name}_b"})
    shop.runtime.wait_for(name, GONE, list)
    assert shop.slots() == {name: False}
    shop.insert(name, 5)
    shop.runtime.apply(name, config)
    expect(shop, name, topic, len(FIRST), GOES_ON)


def test_a_renamed_connector_goes_on_with_its_slot_and_publication(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    shop.insert(name, 5)
    renamed = f"{name}-renamed"
    shop.runtime.apply(renamed, config, old=name)
    shop.insert(name, 6)
    shop.runtime.wait_for(renamed, GOES_ON, lambda: shop.rows(topic)[len(FIRST) :])
    assert shop.slots() == {name: True}
    publications = shop.server.sql("SELECT pubname FROM pg_publication")
    assert [pub for (pub,) in publications if str(pub).startswith(name)] == [name]


def test_a_slot_that_is_dropped_at_each_stop_makes_a_renamed_connector_fail(
    shop: Shop, name: str
) -> None:
    config = shop.config(name, {"slot.drop.on.stop": "true"})
    run_first(shop, name, config)
    renamed = f"{name}-renamed"
    shop.runtime.apply(renamed, config, old=name)
    shop.runtime.wait_for(renamed, GONE, list)


@pytest.mark.parametrize("mode", ["initial", "when_needed"])
def test_a_reset_takes_the_snapshot_of_its_mode(shop: Shop, name: str, mode: str) -> None:
    topic = reset(shop, name, mode)
    expect(shop, name, topic, len(FIRST), ANEW)


def test_a_reset_without_a_snapshot_goes_on_where_the_slot_is(shop: Shop, name: str) -> None:
    """The slot may not have confirmed the last change that was read, which then comes again."""
    topic = reset(shop, name, "no_data")
    shop.insert(name, 6)
    wait_until(lambda: shop.rows(topic)[-2:] == GOES_ON, what="later rows", timeout_s=90)
    assert shop.rows(topic)[len(FIRST) :] in (GOES_ON, [4, *GOES_ON])


def reset(shop: Shop, name: str, mode: str) -> str:
    """Stops it before row 5, and resets its offsets; returns the topic."""
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    shop.insert(name, 5)
    shop.runtime.apply(name, {**config, "snapshot.mode": mode}, Pin("anew", reset=True))
    assert shop.slots() == {name: True}
    return topic


def test_a_later_offset_jumps_over_the_changes_before_it(shop: Shop, name: str) -> None:
    config = shop.config(name, {})
    topic = run_first(shop, name, config)
    shop.runtime.stop(name)
    shop.insert(name, 5)
    entry = shop.offset(name)
    ((position,),) = shop.server.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
    later = dict.fromkeys(("lsn", "lsn_proc", "lsn_commit"), int(position or 0))
    moved = OffsetEntry(entry.partition, {**(entry.offset or {}), **later})
    shop.runtime.apply(name, config, Pin("later", (moved,)))
    expect(shop, name, topic, len(FIRST), LOST)
