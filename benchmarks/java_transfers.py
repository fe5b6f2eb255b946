"""What Java connectors are measured with: each work moves records once, on one worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.inputs import Input, Inputs, customer_with_schema
from benchmarks.topics import Output, delete_topic, make_topic, read_topic, wait_for_records
from benchmarks.transfers import Measured, measure
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import WORKLOADS
from connect_runtime.kafka.local_processes import LOOPBACK
from support.connect_jars import add_plugin
from support.postgres import PASSWORD, USER, Postgres

PLUGINS: Final = ("debezium-postgres", "debezium-jdbc", "mirror")
DEBEZIUM: Final = "io.debezium.connector.postgresql.PostgresConnector"
_JDBC_SINK: Final = "io.debezium.connector.jdbc.JdbcSinkConnector"
_MIRROR: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PATIENCE_S: Final = 300.0
_ROWS: Final = "id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(10, 2), note text"
_A_ROW: Final = "n, 'customer ' || n, n % 1000 + 0.5, repeat('x', 60)"
_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Site:
    """What both workers read and write. `scale` multiplies the records."""

    folder: Path
    inputs: Inputs
    server: Postgres
    scale: float

    def scaled(self, records: Input) -> Input:
        """Returns an input with so many times its records."""
        return records.scaled(self.scale)


@dataclass(frozen=True, slots=True)
class JavaWork:
    """Moves records by a connector of a name. `same` and `defaults` are what our rate should be as
    a multiple of Apache's: with the options of Apache's start script, and with ours. `cpu` is the
    same for CPU time, with the same options."""

    name: str
    text: str
    run: Callable[[Worker, Site, str], Measured]
    same: float
    defaults: float
    cpu: float | None = None


def make_plugin_path(folder: Path) -> Path:
    """Returns a plugin.path with the plugins of all works."""
    for name in PLUGINS:
        add_plugin(name, folder)
    return folder


def debezium(server: Postgres, name: str, table: str, **further: str) -> dict[str, str]:
    """Returns the config of a connector that reads a table into the topic `name.public.table`."""
    return {
        "connector.class": DEBEZIUM,
        "tasks.max": "1",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": USER,
        "plugin.name": "pgoutput",
        "topic.prefix": name,
        "table.include.list": f"public.{table}",
        "slot.name": name,
        "slot.drop.on.stop": "true",
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        **further,
    }


def create_table(server: Postgres, table: str, rows: int) -> None:
    """Creates a table of orders."""
    server.sql(f"CREATE TABLE {table} ({_ROWS})")
    insert(server, table, 0, rows)


def insert(server: Postgres, table: str, first: int, count: int) -> None:
    """Inserts orders, ten thousand in a transaction."""
    for start in range(first, first + count, _AT_ONCE):
        end = min(start + _AT_ONCE, first + count)
        server.sql(
            f"INSERT INTO {table} SELECT {_A_ROW} FROM generate_series({start}, {end - 1}) n"
        )


def is_streaming(server: Postgres, slot: str) -> bool:
    """Returns whether a connector reads the slot."""
    return server.sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'") == [
        ("t",)
    ]


def _lines(name: str) -> Callable[[Worker, Site, str], Measured]:
    (workload,) = (workload for workload in WORKLOADS if workload.name == name)

    def run(worker: Worker, site: Site, connector: str) -> Measured:
        scaled = replace(workload, records=site.scaled(workload.records))
        return measure(worker, scaled, site.inputs, site.folder, connector)

    return run


def _snapshot(worker: Worker, site: Site, connector: str) -> Measured:
    count, table = _count(site), "snapshot"
    if site.server.sql(f"SELECT to_regclass('{table}')") == [(None,)]:
        create_table(site.server, table, count)
    config = debezium(site.server, connector, table, **{"snapshot.mode": "initial_only"})
    return _into_topic(worker, connector, config, f"{connector}.public.{table}", count)


def _stream(worker: Worker, site: Site, connector: str) -> Measured:
    count, table = _count(site), f"of_{connector}"
    create_table(site.server, table, 0)
    config = debezium(site.server, connector, table, **{"snapshot.mode": "no_data"})

    def change() -> None:
        wait_for(lambda: is_streaming(site.server, connector), "the stream", _PATIENCE_S, 0.1)
        insert(site.server, table, 0, count)

    topic = f"{connector}.public.{table}"
    try:
        return _into_topic(worker, connector, config, topic, count, change)
    finally:
        site.server.sql(f"DROP TABLE {table}")


def _mirror(worker: Worker, site: Site, connector: str) -> Measured:
    records = site.scaled(_MIRRORED)
    topic = site.inputs.topic(records)
    config = {
        "connector.class": _MIRROR,
        "tasks.max": "1",
        "source.cluster.alias": connector,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": worker.bootstrap,
        "target.cluster.bootstrap.servers": worker.bootstrap,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
    }
    return _into_topic(worker, connector, config, f"{connector}.{topic}", records.count)


def _into_topic(
    worker: Worker,
    connector: str,
    config: Mapping[str, str],
    topic: str,
    count: int,
    change: Callable[[], None] = lambda: None,
) -> Measured:
    """Runs a source until so many records are in its topic. `change` makes what it reads."""
    make_topic(worker.bootstrap, topic)
    cpu = worker.cpu_times()
    try:
        worker.call("POST", "/connectors", {"name": connector, "config": config})
        change()
        wait_for_records(worker.bootstrap, topic, count)
        arrived = read_topic(worker.bootstrap, topic, count)
        cpu_s = worker.cpu_since(cpu)
    finally:
        worker.call("DELETE", f"/connectors/{connector}")
        delete_topic(worker.bootstrap, topic)
    if arrived.output.count != count:
        raise RuntimeError(f"{connector}: {arrived.output.count} of {count} records")
    return Measured(count / arrived.took_s, cpu_s * 1e6 / count, arrived.output)


def _upserts(worker: Worker, site: Site, connector: str) -> Measured:
    """The rows' numbers rise, and one task writes them in order: the largest one counts them,
    cheaply."""
    records = site.scaled(_UPSERTED)
    topic = site.inputs.topic(records)
    table = f"of_{connector}"
    config = {
        "connector.class": _JDBC_SINK,
        "tasks.max": "1",
        "topics": topic,
        "connection.url": site.server.url(USER),
        "connection.username": USER,
        "connection.password": PASSWORD,
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "collection.name.format": table,
        "value.converter": _JSON,
    }
    cpu = worker.cpu_times()
    try:
        worker.call("POST", "/connectors", {"name": connector, "config": config})
        took_s, first = _written(site.server, table, records.count)
        cpu_s = worker.cpu_since(cpu)
        ((count,),) = site.server.sql(f"SELECT count(*) FROM {table}")
    finally:
        worker.call("DELETE", f"/connectors/{connector}")
        site.server.sql(f"DROP TABLE IF EXISTS {table}")
    if count != str(records.count):
        raise RuntimeError(f"{connector}: {count} of {records.count} rows")
    rate = (records.count - first) / took_s
    return Measured(rate, cpu_s * 1e6 / records.count, Output(records.count, 0, 0))


def _written(server: Postgres, table: str, count: int) -> tuple[float, int]:
    """Waits until the table has all rows. Returns the seconds from the first look that saw rows,
    and how many it saw."""
    deadline = time.monotonic() + _PATIENCE_S
    began_s, first, rows = 0.0, 0, 0
    while rows < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{table}: {rows} of {count} rows")
        time.sleep(0.05)
        if not began_s and server.sql(f"SELECT to_regclass('{table}')") == [(None,)]:
            continue
        (answer,) = server.sql(f"SELECT max(id) - min(id) + 1 FROM {table}")
        rows = int(answer[0] or 0)
        if rows and not began_s:
            began_s, first = time.monotonic(), rows
    return time.monotonic() - began_s, first


def _count(site: Site) -> int:
    return site.scaled(_MIRRORED).count


_MIRRORED: Final = Input("mirrored", 300_000, lambda number: b"%089d" % number)
_UPSERTED: Final = Input("upserted", 500_000, customer_with_schema)
WORKS: Final = (
    JavaWork("java-source", "file source, exactly once", _lines("source"), 0.97, 1.05),
    JavaWork("java-sink", "file sink", _lines("sink"), 0.97, 1.05),
    JavaWork("java-snapshot", "Debezium, snapshot of 300,000 rows", _snapshot, 0.95, 1.1, 1.03),
    JavaWork("java-stream", "Debezium, 300,000 changes", _stream, 0.95, 1.05, 1.03),
    JavaWork("java-upsert", "Debezium's JDBC sink, 500,000 upserts", _upserts, 0.97, 1.0),
    JavaWork("java-mirror", "MirrorSource, 300,000 records", _mirror, 0.95, 1.0),
)
