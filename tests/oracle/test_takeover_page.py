"""docs/takeover.md: a secured Apache worker hands its connectors over, and gets them back, as the
page says.

After a change of what the command prints:

    CONNECT_WRITE_PAGES=1 .venv/bin/python -m pytest -q tests/oracle/test_takeover_page.py

writes the page anew. Then read it.
"""

from __future__ import annotations

import os
import shlex
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support import guarded_broker
from support.broker import create_topic, produce, read_to_end
from support.certificates import java_store
from support.connect_jars import add_plugin
from support.guarded_broker import GuardedBroker, binding, three_guarded_brokers
from support.oracle import Oracle
from support.pages import Page, holds
from support.postgres import PASSWORD, USER, Postgres, postgres
from support.processes import kill, of_session
from support.real_connectors import rows_of_lake
from support.rig import lines_of
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs" / "takeover.md"
ROWS = 1000
TABLES = ("orders", "customers", "items", "payments")
LOGS = range(1, 5)
GROUP = "connect-cluster"
LOGIN = "connect"
STORE_PASSWORD = "changeit"
CONNECTORS = 20
ARRIVED_S = 240
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
FILES = "org.apache.kafka.connect.file.FileStream"
# Those of the connectors' data, and of what they agree upon
TOPICS = ("shop-", "clicks", "src.", "logs-", "mm2-", "heartbeats", "lake-control")
# A service's commands on this machine: its process leads a session, and has ended as a zombie, too
RUNS = "grep -qs State:.[^Z] /proc/$(cat {0}.pid)/status"
STOP = f"kill $(cat {{0}}.pid); while {RUNS}; do sleep 0.1; done"
START = "setsid {1} >> {0}.log 2>&1 < /dev/null & echo $! > {0}.pid"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres(["shop", "reports"]) as server:
        for table in TABLES:
            server.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, item text)", "shop")
            _add_rows(server, table, 1)
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path: a plan cuts long values."""
    with tempfile.TemporaryDirectory(prefix="data-") as name:
        yield Path(name)


@pytest.fixture
def brokers(folder: Path) -> Iterator[GuardedBroker]:
    """Three, on which the workers' login may do what it needs."""
    with three_guarded_brokers(folder / "kafka") as brokers:
        brokers.let_in(LOGIN)
        names = [
            *(("TOPIC", name) for name in (GROUP, *TOPICS)),
            ("GROUP", GROUP),
            ("GROUP", "connect-"),
            # of Iceberg's sink, beside that of its task
            ("GROUP", "cg-control-"),
            # and it chooses its ids
            ("TRANSACTIONAL_ID", ""),
        ]
        brokers.set_rights(
            [binding(LOGIN, kind, name or "*", "ALL", prefixed=bool(name)) for kind, name in names]
        )
        yield brokers


@pytest.fixture
def worker(brokers: GuardedBroker, server: Postgres, folder: Path) -> Iterator[Oracle]:
    """All connectors run on it, and have moved what there is."""
    for name in ("debezium-postgres", "debezium-jdbc", "mirror", "iceberg"):
        add_plugin(name, folder / "plugins")
    (driver,) = (folder / "plugins" / "debezium-postgres").glob("*/postgresql-*.jar")
    (folder / "plugins" / "iceberg" / driver.name).symlink_to(driver)
    own = brokers.authority.sign("worker")
    java_store(folder / "worker.jks", "JKS", own=own, password=STORE_PASSWORD)
    worker = Oracle.start(
        folder,
        brokers.addresses["SEALED"],
        group_id=GROUP,
        settings=_settings(brokers, folder),
        verify=ssl.create_default_context(cafile=brokers.authority.own.certificate),
    )
    (folder / "worker.pid").write_text(f"{worker.pid}")
    create_topic(brokers.open["bootstrap.servers"], "clicks")
    _add_clicks(brokers, 0)
    try:
        for name, config in _connectors(brokers, server, folder).items():
            worker.put({"name": name, **config})
        _wait_until_arrived(brokers, server, folder, ROWS)
        yield worker
    finally:
        for pid in (int(file.read_text()) for file in folder.glob("*.pid")):
            for process in of_session(pid):
                kill(process)


# --- what there is, and where it goes ---


def _login(brokers: GuardedBroker, folder: Path) -> dict[str, str]:
    trust = folder / "truststore.jks"
    if not trust.exists():
        trusted = (brokers.authority.own.certificate,)
        java_store(trust, "JKS", trusted=trusted, password=STORE_PASSWORD)
    return {
        **brokers.sealed(LOGIN),
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": STORE_PASSWORD,
    }


def _settings(brokers: GuardedBroker, folder: Path) -> dict[str, str]:
    login = _login(brokers, folder)
    return {
        **{
            f"{client}{key}": value
            for client in ("", "producer.", "consumer.", "admin.")
            for key, value in login.items()
        },
        "listeners": f"https://localhost:{free_port()}",
        "listeners.https.ssl.keystore.location": str(folder / "worker.jks"),
        "listeners.https.ssl.keystore.password": STORE_PASSWORD,
        "plugin.path": str(folder / "plugins"),
        "topic.creation.enable": "true",
        **{f"{kind}.storage.replication.factor": "3" for kind in ("config", "offset", "status")},
    }


def _connectors(
    brokers: GuardedBroker, server: Postgres, folder: Path
) -> Mapping[str, dict[str, str]]:
    configs = {
        "mirror-source": _mirror(brokers, folder, "Source", {"topics": "clicks"}),
        "mirror-checkpoints": _mirror(
            brokers,
            folder,
            "Checkpoint",
            {"groups": "connect-lake-clicks", "groups.exclude": "console-consumer-.*"},
        ),
        "mirror-heartbeats": _mirror(brokers, folder, "Heartbeat", {}),
        "lake-clicks": _lake(server, folder),
    }
    for table in TABLES:
        configs |= {
            f"shop-{table}": _source(server, table),
            f"reports-{table}": _sink(server, table),
        }
    for number in LOGS:
        file = folder / f"log-{number}.txt"
        _add_lines(file, 1)
        topic = f"logs-{number}"
        configs |= {
            f"logs-{number}": _file("Source", {"file": str(file), "topic": topic}),
            f"archive-{number}": _file(
                "Sink", {"file": str(_archive(folder, number)), "topics": topic}
            ),
        }
    assert len(configs) == CONNECTORS
    return configs


def _source(server: Postgres, table: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": "shop",
        "topic.prefix": f"shop-{table}",
        "plugin.name": "pgoutput",
        "slot.name": f"shop_{table}",
        "publication.name": f"shop_{table}",
        "publication.autocreate.mode": "filtered",
        "table.include.list": f"public.{table}",
    }


def _sink(server: Postgres, table: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": f"shop-{table}.public.{table}",
        "connection.url": server.url("reports"),
        "connection.username": USER,
        "connection.password": PASSWORD,
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": table,
    }


def _mirror(
    brokers: GuardedBroker, folder: Path, kind: str, settings: Mapping[str, str]
) -> dict[str, str]:
    login = _login(brokers, folder)
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "tasks.max": "1",
        "source.cluster.alias": "src",
        "target.cluster.alias": "dst",
        **{
            f"{cluster}.cluster.{key}": value
            for cluster in ("source", "target")
            for key, value in login.items()
        },
        **{
            f"{topic}replication.factor": "3"
            for topic in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
        },
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "key.converter": BYTES,
        "value.converter": BYTES,
        **settings,
    }


def _lake(server: Postgres, folder: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": "clicks",
        "iceberg.tables": "web.clicks",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.topic": "lake-control",
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "iceberg.catalog.uri": server.url("reports"),
        "iceberg.catalog.jdbc.user": USER,
        "iceberg.catalog.jdbc.password": PASSWORD,
        "iceberg.catalog.warehouse": f"file://{folder}/lake",
        "key.converter": STRING,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def _file(kind: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": f"{FILES}{kind}Connector",
        "tasks.max": "1",
        "key.converter": STRING,
        "value.converter": STRING,
        **settings,
    }


def _archive(folder: Path, number: int) -> Path:
    return folder / f"archive-{number}.txt"


def _add_rows(server: Postgres, table: str, first: int) -> None:
    rows = f"SELECT n, 'item ' || n FROM generate_series({first}, {first + ROWS - 1}) AS n"
    server.sql(f"INSERT INTO {table} {rows}", "shop")


def _add_clicks(brokers: GuardedBroker, first: int) -> None:
    records = [(b"%d" % n, b'{"n": %d}' % n) for n in range(first, first + ROWS)]
    produce(brokers.open["bootstrap.servers"], "clicks", records)


def _add_lines(file: Path, first: int) -> None:
    with file.open("a") as lines:
        lines.writelines(f"line {n}\n" for n in range(first, first + ROWS))


# --- what has arrived ---


def _wait_until_arrived(brokers: GuardedBroker, server: Postgres, folder: Path, count: int) -> None:
    counts: dict[str, int] = {}

    def all_arrived() -> bool:
        counts.update(_arrived(brokers, server, folder))
        return min(counts.values()) >= count

    try:
        wait_until(all_arrived, what=f"all {count} of each", timeout_s=ARRIVED_S)
    except AssertionError as late:
        late.add_note(f"{counts}")
        raise


def _arrived(brokers: GuardedBroker, server: Postgres, folder: Path) -> dict[str, int]:
    """Returns how much there is of each of the connectors' data."""
    kafka = brokers.open["bootstrap.servers"]
    topics = [*(f"shop-{table}.public.{table}" for table in TABLES), "src.clicks"]
    topics += [f"logs-{number}" for number in LOGS]
    counts = {topic: len(read_to_end(kafka, topic)) for topic in topics}
    counts |= {table: _reported(server, table) for table in TABLES}
    counts |= {f"archive-{n}": len(lines_of(_archive(folder, n))) for n in LOGS}
    return counts | {"lake": rows_of_lake(server, "reports")}


def _reported(server: Postgres, table: str) -> int:
    if server.sql(f"SELECT to_regclass('{table}')", "reports") == [(None,)]:
        return 0
    return len(server.sql(f"SELECT id FROM {table}", "reports"))


def test_what_the_page_shows_is_what_happens(
    brokers: GuardedBroker,
    worker: Oracle,
    server: Postgres,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", guarded_broker.PASSWORD)
    apache, ours = folder / "worker", folder / "runtime"
    # not the one of warm.path(), which a signal does not reach
    distributed = (
        f"{Path(sys.executable).with_name('connect')} distributed {folder}/worker.properties"
    )
    sealed = brokers.addresses["SEALED"]
    real = {
        "sudo systemctl stop kafka-connect": STOP.format(apache),
        "sudo systemctl start kafka-connect": START.format(apache, shlex.join(worker.command)),
        "sudo systemctl stop connect-runtime": STOP.format(ours),
        "sudo systemctl start connect-runtime": START.format(ours, distributed),
        "https://localhost:8083": worker.url,
        "kafka-1:9093,kafka-2:9093,kafka-3:9093": sealed,
        "kafka-1:9093,kafka-2:9093 and 1 more": f"{sealed.rpartition(',')[0]} and 1 more",
        "/etc/kafka/ca.pem": str(brokers.authority.own.certificate),
        "/etc/kafka": str(folder),
        "db.example:5432": f"{LOOPBACK}:{server.port}",
        "port: 5432": f"port: {server.port}",
        "hostname: db.example": f"hostname: {LOOPBACK}",
        "MkU3OEVBNTcwNTJENDM2Qg": check_reachable(brokers.open),
    }

    def followed(text: str) -> str:
        return Page(text, tmp_path, real).followed()

    holds(PAGE, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))
    assert not of_session(int((folder / "runtime.pid").read_text()))
    # No second slot, no new snapshot, no record twice
    assert len(server.sql("SELECT slot_name FROM pg_replication_slots")) == len(TABLES)
    assert set(_arrived(brokers, server, folder).values()) == {ROWS}
    _add_more(brokers, server, folder, ROWS)
    # And the same under the runtime, which the page stops as soon as all run there
    for command in ("stop kafka-connect", "start connect-runtime"):
        subprocess.run(real[f"sudo systemctl {command}"], shell=True, check=True)
    _add_more(brokers, server, folder, 2 * ROWS)
    subprocess.run(real["sudo systemctl stop connect-runtime"], shell=True, check=True)


def _add_more(brokers: GuardedBroker, server: Postgres, folder: Path, count: int) -> None:
    """Adds to what there is, and waits until it has arrived, once."""
    for table in TABLES:
        _add_rows(server, table, count + 1)
    _add_clicks(brokers, count)
    for number in LOGS:
        _add_lines(folder / f"log-{number}.txt", count + 1)
    _wait_until_arrived(brokers, server, folder, count + ROWS)
    assert set(_arrived(brokers, server, folder).values()) == {count + ROWS}
