"""What Java connectors are measured with: each work moves records once, on one worker.

The first half of the records is for both workers to compile what moves them: Java does that while a
program runs, for seconds, and a task of ours begins with a JVM of its own. The second half is
measured, and besides it all records, with the start of the task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.inputs import LINES, Input, Inputs, customer_with_schema
from benchmarks.topics import (
    Output,
    admin_client,
    delete_topic,
    end_of,
    make_topic,
    read_topic,
)
from benchmarks.transfers import Measured, Whole
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import SINK, SOURCE
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
_LOOK_S: Final = 0.02
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


def keep_a_task(worker: Worker, file: Path) -> None:
    """Creates a connector that waits for lines of a file, so that the JVM of tasks lasts."""
    file.touch()
    config = {"connector.class": SOURCE, "tasks.max": "1", "file": str(file), "topic": "idle"}
    worker.call("PUT", "/connectors/idle/config", config)

    def runs() -> bool:
        tasks = worker.statuses().get("idle", {}).get("tasks", [])
        return [task["state"] for task in tasks] == ["RUNNING"]

    wait_for(runs, "the idle connector", 60, 0.5)


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


def _file_source(worker: Worker, site: Site, connector: str) -> Measured:
    records = site.scaled(LINES)
    config = {
        "connector.class": SOURCE,
        "tasks.max": "1",
        "file": str(site.inputs.file(records)),
        "topic": connector,
    }
    return _into_topic(worker, connector, config, connector, records.count)


def _file_sink(worker: Worker, site: Site, connector: str) -> Measured:
    records = site.scaled(LINES)
    topic, file = site.inputs.topic(records), site.folder / f"{connector}.txt"
    config = {
        "connector.class": SINK,
        "tasks.max": "1",
        "file": str(file),
        "topics": topic,
        "consumer.override.isolation.level": "read_committed",
    }
    line = len(records.value(0) or b"") + 1

    def lines() -> int:
        return file.stat().st_size // line if file.exists() else 0

    try:
        return _running(worker, connector, config, records.count, lines)
    finally:
        file.unlink(missing_ok=True)


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
    admin = admin_client(worker.bootstrap)
    try:
        measured = _running(worker, connector, config, count, lambda: end_of(admin, topic), change)
        arrived = read_topic(worker.bootstrap, topic, count).output.count
    finally:
        delete_topic(worker.bootstrap, topic)
    if arrived != count:
        raise RuntimeError(f"{connector}: {arrived} of {count} records")
    return measured


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

    def rows() -> int:
        if site.server.sql(f"SELECT to_regclass('{table}')") == [(None,)]:
            return 0
        ((largest,),) = site.server.sql(f"SELECT max(id) - min(id) + 1 FROM {table}")
        return int(largest or 0)

    try:
        measured = _running(worker, connector, config, records.count, rows)
        ((count,),) = site.server.sql(f"SELECT count(*) FROM {table}")
    finally:
        site.server.sql(f"DROP TABLE IF EXISTS {table}")
    if count != str(records.count):
        raise RuntimeError(f"{connector}: {count} of {records.count} rows")
    return measured


def _running(
    worker: Worker,
    connector: str,
    config: Mapping[str, str],
    count: int,
    arrived: Callable[[], int],
    change: Callable[[], None] = lambda: None,
) -> Measured:
    """Runs a connector until so many records have arrived, then deletes it."""
    cpu = worker.cpu_times()
    worker.call("POST", "/connectors", {"name": connector, "config": config})
    try:
        changing = threading.Thread(target=change)
        changing.start()
        measured = _warm_rate(worker, count, arrived, cpu)
        changing.join()
    finally:
        worker.call("DELETE", f"/connectors/{connector}")
    return measured


def _warm_rate(
    worker: Worker, count: int, arrived: Callable[[], int], cpu: dict[int, float]
) -> Measured:
    """Measures the second half of the records, with the classes compiled that move them, and all of
    them, with the start of the task: `cpu` is from before."""
    deadline = time.monotonic() + _PATIENCE_S
    first = half = (0.0, 0)
    at_half: dict[int, float] = {}
    while True:
        now = (time.monotonic(), arrived())
        first = first if first[1] else now
        if now[1] >= count // 2 and not half[1]:
            half, at_half = now, worker.cpu_times()
        if now[1] >= count:
            break
        if now[0] > deadline:
            raise RuntimeError(f"{now[1]} of {count} records after {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    # what comes in the end between two looks is counted as far as it is asked for
    end = (now[0], count)
    return Measured(
        _rate(half, end),
        worker.cpu_since(at_half) * 1e6 / (count - half[1]),
        Output(count, 0, 0),
        whole=Whole(_rate(first, end), worker.cpu_since(cpu) * 1e6 / count),
    )


def _rate(begin: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - begin[1]) / max(end[0] - begin[0], 0.001)


def _count(site: Site) -> int:
    return site.scaled(_MIRRORED).count


_MIRRORED: Final = Input("mirrored", 600_000, lambda number: b"%089d" % number)
_UPSERTED: Final = Input("upserted", 1_000_000, customer_with_schema)
WORKS: Final = (
    JavaWork("java-source", "file source, exactly once", _file_source, 0.97, 1.05),
    JavaWork("java-sink", "file sink", _file_sink, 0.97, 1.05),
    JavaWork("java-snapshot", "Debezium, snapshot of 300,000 rows", _snapshot, 0.95, 1.1, 1.03),
    JavaWork("java-stream", "Debezium, 300,000 changes", _stream, 0.95, 1.05, 1.03),
    JavaWork("java-upsert", "Debezium's JDBC sink, 500,000 upserts", _upserts, 0.97, 1.0),
    JavaWork("java-mirror", "MirrorSource, 300,000 records", _mirror, 0.95, 1.0),
)
