"""Debezium and a transformation of its own on a real Postgres: records, a kill, moved offsets."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.engine.jvm import running_jvms
from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.metrics.jvm_metrics import samples_of
from connect_runtime.settings.worker_config import from_properties
from support.broker import BrokerAddress, read_to_end
from support.connect_jars import add_plugin
from support.java_plugins import java_catalog, newest_engine_jvm
from support.postgres import PASSWORD, USER, Postgres, postgres
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

START_S = 180
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        running.sql(
            "CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1), (2), (3)"
        )
        yield running


@pytest.fixture
def plugin_path(tmp_path: Path) -> Path:
    add_plugin("debezium-postgres", tmp_path / "plugins")
    return tmp_path / "plugins"


def ids(broker: BrokerAddress, topic: str) -> list[int]:
    """The rows that the records are of, in order."""
    return [
        json.loads(m.value() or b"{}")["id"] for m in read_to_end(broker.bootstrap_servers, topic)
    ]


def events_seen(prefix: str) -> dict[str, float]:
    """Debezium's counts of the tasks with this prefix, by context."""
    return {
        labels["context"]: value
        for name, labels, value in samples_of(running_jvms())
        if name == "debezium_metrics_TotalNumberOfEventsSeen" and labels["name"] == prefix
    }


def test_each_change_is_a_record_once_through_a_kill_and_offsets_move(
    broker: BrokerAddress, plugin_path: Path, server: Postgres, unique: str
) -> None:
    config = {
        "name": "shop",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": USER,
        "topic.prefix": unique,
        "plugin.name": "pgoutput",
        "table.include.list": "public.orders",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    group, topic = f"g-{unique[-8:]}", f"{unique}.public.orders"
    settings = {"plugin.path": str(plugin_path), "key.converter": JSON, "value.converter": JSON}
    names = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    worker, _ = from_properties(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **names, **settings}
    )

    def wait_for(*expected: int) -> None:
        wait_until(
            lambda: len(ids(broker, topic)) >= len(expected), what="records", timeout_s=START_S
        )
        assert ids(broker, topic) == [*expected]

    with (
        java_catalog(worker.properties),
        thread_cluster(broker.bootstrap_servers, group, settings) as cluster,
    ):
        cluster.verbs.create("shop", config, None)
        wait_for(1, 2, 3)
        server.sql("INSERT INTO orders VALUES (4)")
        wait_for(1, 2, 3, 4)
        seen = {"snapshot": 3.0, "streaming": 1.0}
        wait_until(lambda: events_seen(unique) == seen, what="Debezium's own counts")
        os.kill(newest_engine_jvm(), signal.SIGKILL)
        server.sql("INSERT INTO orders VALUES (5)")
        wait_for(1, 2, 3, 4, 5)
        _move_offsets(cluster, unique)
        cluster.verbs.resume("shop")
        wait_for(1, 2, 3, 4, 5, 1, 2, 3, 4, 5)
        cluster.stop_connector("shop")
        cluster.verbs.delete("shop")


def _move_offsets(cluster: ThreadCluster, prefix: str) -> None:
    """Resets them, so that the connector takes its snapshot again."""
    cluster.stop_connector("shop")
    (entry,) = cluster.verbs.offsets("shop")
    assert entry.partition == {"server": prefix}
    assert entry.offset is not None
    assert isinstance(entry.offset["lsn"], int)
    cluster.verbs.reset_offsets("shop")
    assert cluster.verbs.offsets("shop") == []
