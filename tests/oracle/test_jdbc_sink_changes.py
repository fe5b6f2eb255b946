"""Changes of a real JDBC sink: the plan's words, and what then is in its table.

Records 1 and 2 are delivered at first. While it is stopped for the change, 2 changes and 3 comes;
after it 4 comes, and a tombstone of 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from connect_specs.desired import Pin
from oracle.changing import Change, Changing, changing
from support.broker import BrokerAddress, create_topic, produce
from support.postgres import PASSWORD, USER, Postgres, postgres

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

FIRST = [("1", "a"), ("2", "a")]
MERGED = [("1", "a"), ("2", "b"), ("3", "b"), ("4", "c")]
CHANGES = {
    "insert": Change({"insert.mode": "insert"}, "added or refused", "duplicate key"),
    "update": Change({"insert.mode": "update"}, "adds none", [("1", "a"), ("2", "b")]),
    "delete": Change({"delete.enabled": "true"}, "deletes its row", MERGED[1:]),
    "no_delete": Change(
        {"delete.enabled": "false"}, "no longer deletes", MERGED, before={"delete.enabled": "true"}
    ),
    "same_key": Change(
        {"primary.key.mode": "record_value", "primary.key.fields": "id"}, "another key", MERGED
    ),
    "other_key": Change({"primary.key.mode": "kafka"}, "another key", "__connect"),
    "table": Change({"collection.name.format": "NAME_b"}, "go elsewhere", MERGED[1:]),
    "columns": Change(
        {"field.exclude.list": "NAME:note"},
        "other columns",
        [("1", "a"), ("2", "a"), ("3", None), ("4", None)],
    ),
    "evolution": Change({"schema.evolution": "none"}, "decided anew", MERGED),
    "group": Change(
        {"consumer.override.group.id": "NAME-b"}, "new consumer group", MERGED, "new-group"
    ),
    "batches": Change({"batch.size": "1"}, "", MERGED),
}
KEY = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
ROW = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int32"},
        {"field": "note", "type": "string", "optional": True},
    ],
}


@dataclass(frozen=True, slots=True)
class Reports:
    """A database, and the runtime that writes into it."""

    server: Postgres
    kafka: str
    runtime: Changing

    def config(self, name: str, more: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "topics": name,
            "connection.url": self.server.url(USER),
            "connection.username": USER,
            "connection.password": PASSWORD,
            "insert.mode": "upsert",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "collection.name.format": name,
            "flush.max.retries": "0",
            "consumer.override.auto.offset.reset": "earliest",
            **more,
        }

    def put(self, topic: str, row: int, note: str | None) -> None:
        """Writes a record of a row, or its tombstone."""
        key = json.dumps({"schema": KEY, "payload": {"id": row}}).encode()
        value = json.dumps({"schema": ROW, "payload": {"id": row, "note": note}}).encode()
        produce(self.kafka, topic, [(key, None if note is None else value)])

    def rows(self, table: str, database: str = USER) -> list[tuple[str | None, ...]]:
        (exists,) = self.server.sql(f"SELECT to_regclass('{table}') IS NOT NULL", database)
        if exists == ("f",):
            return []
        return self.server.sql(f"SELECT id, note FROM {table} ORDER BY id", database)


@pytest.fixture(scope="module")
def reports(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    folder, kafka = tmp_path_factory.mktemp("changes"), broker.bootstrap_servers
    with postgres(["other"]) as server, changing(folder, kafka, ["debezium-jdbc"]) as runtime:
        yield Reports(server, kafka, runtime)


@pytest.fixture
def name(reports: Reports, unique: str) -> Iterator[str]:
    """The name of a connector, its topic and its table."""
    name = unique.replace("-", "_").lower()[-40:]
    create_topic(reports.kafka, name)
    reports.put(name, 1, "a")
    reports.put(name, 2, "a")
    yield name
    reports.runtime.delete_all()


def run_first(reports: Reports, name: str, config: Mapping[str, str | None]) -> None:
    """Runs it until both rows are there, stops it, and changes records."""
    reports.runtime.apply(name, config)
    reports.runtime.wait_for(name, FIRST, lambda: reports.rows(name))
    reports.runtime.stop(name)
    reports.put(name, 2, "b")
    reports.put(name, 3, "b")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plan_says_what_a_change_does(reports: Reports, name: str, change: Change) -> None:
    before = reports.config(name, change.before)
    after = {**before, **change.changes}
    key = next(iter(change.changes))
    reports.runtime.apply(name, before)
    reports.runtime.wait_for(name, FIRST, lambda: reports.rows(name))
    consequence, words = reports.runtime.said(name, after, key)
    assert consequence == change.consequence
    assert change.said in words
    run_first(reports, name, before)
    reports.runtime.apply(name, after)
    reports.put(name, 4, "c")
    reports.put(name, 1, None)
    table = f"{name}_b" if key == "collection.name.format" else name
    reports.runtime.wait_until_equal(name, change.then, lambda: reports.rows(table))
    if table != name:
        assert reports.rows(name) == FIRST


def test_another_database_gets_the_records_from_then_on(reports: Reports, name: str) -> None:
    config = reports.config(name, {})
    run_first(reports, name, config)
    elsewhere = {**config, "connection.url": reports.server.url("other")}
    reports.runtime.apply(name, elsewhere)
    reports.put(name, 4, "c")
    reports.runtime.wait_until_equal(name, MERGED[1:], lambda: reports.rows(name, "other"))
    assert reports.rows(name) == FIRST


def test_a_rewind_repairs_the_table(reports: Reports, name: str) -> None:
    config = reports.config(name, {})
    run_first(reports, name, config)
    reports.server.sql(f"DELETE FROM {name}")
    reports.put(name, 4, "c")
    reports.runtime.apply(name, config, Pin("again", to="earliest"))
    reports.runtime.wait_until_equal(name, MERGED, lambda: reports.rows(name))


def test_a_renamed_sink_goes_on_where_it_was(reports: Reports, name: str) -> None:
    config = reports.config(name, {})
    run_first(reports, name, config)
    reports.server.sql(f"DELETE FROM {name}")
    renamed = f"{name}-renamed"
    reports.runtime.apply(renamed, config, old=name)
    reports.put(name, 4, "c")
    reports.runtime.wait_until_equal(renamed, MERGED[1:], lambda: reports.rows(name))
