"""docs/takeover.md: an Apache worker's connectors are taken over, and given back, as the page says.

After a change of what the command prints:

    CONNECT_WRITE_PAGES=1 .venv/bin/python -m pytest -q tests/oracle/test_takeover_page.py

writes the page anew. Then read it.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from support.broker import BrokerAddress, read_to_end
from support.connect_jars import add_plugin
from support.oracle import Oracle
from support.pages import Page, holds
from support.postgres import PASSWORD, USER, Postgres, postgres
from support.processes import kill, of_session
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs" / "takeover.md"
ROWS = 1000
# A service's commands on this machine: its process leads a session, and has ended as a zombie, too
RUNS = "grep -qs State:.[^Z] /proc/$(cat {0}.pid)/status"
STOP = f"kill $(cat {{0}}.pid); while {RUNS}; do sleep 0.1; done"
START = "setsid {1} >> {0}.log 2>&1 < /dev/null & echo $! > {0}.pid"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres(["shop", "reports"]) as server:
        rows = f"SELECT n, 'item ' || n FROM generate_series(1, {ROWS}) AS n"
        table = "CREATE TABLE orders (id int PRIMARY KEY, item text)"
        server.sql(f"{table}; INSERT INTO orders {rows}", "shop")
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path: a plan cuts long values."""
    with tempfile.TemporaryDirectory(prefix="data-") as name:
        yield Path(name)


@pytest.fixture
def worker(other_broker: BrokerAddress, server: Postgres, folder: Path) -> Iterator[Oracle]:
    """Debezium and its JDBC sink run on it, and have copied the table."""
    for name in ("debezium-postgres", "debezium-jdbc"):
        add_plugin(name, folder / "plugins")
    kafka = other_broker.bootstrap_servers
    worker = Oracle.start(folder, kafka, group_id="connect-cluster")
    (folder / "worker.pid").write_text(f"{worker.pid}")
    try:
        worker.put({"name": "shop-orders", **_source(server)})
        worker.put({"name": "reports-orders", **_sink(server)})
        wait_until(lambda: _reported(server) == ROWS, what="the rows", timeout_s=120)
        yield worker
    finally:
        for pid in (int(file.read_text()) for file in folder.glob("*.pid")):
            for process in of_session(pid):
                kill(process)


def _source(server: Postgres) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": "shop",
        "topic.prefix": "shop",
        "plugin.name": "pgoutput",
        "table.include.list": "public.orders",
    }


def _sink(server: Postgres) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": "shop.public.orders",
        "connection.url": server.url("reports"),
        "connection.username": USER,
        "connection.password": PASSWORD,
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": "orders",
    }


def _reported(server: Postgres) -> int:
    if server.sql("SELECT to_regclass('orders')", "reports") == [(None,)]:
        return 0
    return len(server.sql("SELECT id FROM orders", "reports"))


def test_what_the_page_shows_is_what_happens(
    other_broker: BrokerAddress, worker: Oracle, server: Postgres, folder: Path, tmp_path: Path
) -> None:
    apache, ours = folder / "worker", folder / "runtime"
    distributed = f"connect distributed {folder}/worker.properties"
    real = {
        "sudo systemctl stop kafka-connect": STOP.format(apache),
        "sudo systemctl start kafka-connect": START.format(apache, shlex.join(worker.command)),
        "sudo systemctl stop connect-runtime": STOP.format(ours),
        "sudo systemctl start connect-runtime": START.format(ours, distributed),
        "localhost:8083": worker.url.removeprefix("http://"),
        "localhost:9092": other_broker.bootstrap_servers,
        "db.example:5432": f"{LOOPBACK}:{server.port}",
        "port: 5432": f"port: {server.port}",
        "hostname: db.example": f"hostname: {LOOPBACK}",
        "MkU3OEVBNTcwNTJENDM2Qg": other_broker.cluster_id,
    }

    def followed(text: str) -> str:
        return Page(text, tmp_path, real).followed()

    holds(PAGE, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))
    # No second slot, and no row twice
    assert len(server.sql("SELECT slot_name FROM pg_replication_slots")) == 1
    assert _reported(server) == ROWS
    assert len(read_to_end(other_broker.bootstrap_servers, "shop.public.orders")) == ROWS
