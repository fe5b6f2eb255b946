"""Debezium whose starts fail for five minutes, after they have connected: the database keeps no
connection of it."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.snapshots import State, TaskId
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.java_plugins import TRANSFORMATION, add_compiled, java_catalog
from support.postgres import PASSWORD, Postgres, postgres
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

_log = logging.getLogger(__name__)

FAILING_S: Final = 300.0
START_S: Final = 180
LOOK_S: Final = 0.5
# A start's own connections: to look at the table, to the slot, and for the snapshot
MOST_AT_ONCE: Final = 6
# With pauses of 1 s, 2, 4, ... up to a minute; without them there would be 50
MOST_STARTS: Final = 14
HOLDER: Final = "holder"
# What fails, by the name of the connector, which is also that of its login
CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    # throws, and is restarted by REST as soon as it has failed
    "publication": {"publication.autocreate.mode": "disabled", "publication.name": "missing"},
    # Debezium tries it again itself, in the same JVM
    "slot": {
        "slot.name": HOLDER,
        "slot.max.retries": "2",
        "slot.retry.delay.ms": "500",
        "snapshot.mode": "no_data",
    },
    # ends its JVM, and starts again in another one
    "exits": {"transforms": "exit", "transforms.exit.type": "tests.Exiting"},
}
LOGINS: Final = (*CONFIGS, HOLDER)


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        running.sql("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
        for name in LOGINS:
            running.sql(f"CREATE ROLE {name} LOGIN SUPERUSER")
        yield running


@pytest.fixture
def cluster(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[ThreadCluster]:
    plugins = tmp_path / "plugins"
    add_plugin("debezium-postgres", plugins)
    add_compiled("Exiting", {TRANSFORMATION: "tests.Exiting"}, plugins)
    settings = {"plugin.path": str(plugins), "plugin.discovery": "service_load"}
    kafka = {"bootstrap.servers": broker.bootstrap_servers, "group.id": unique}
    converters = {"key.converter": STRING, "value.converter": STRING}
    topics = {
        f"{kind}.storage.topic": f"{unique}-{kind}" for kind in ("config", "offset", "status")
    }
    worker, _ = from_properties({**kafka, **converters, **topics, **settings})
    with (
        java_catalog(worker.properties),
        thread_cluster(broker.bootstrap_servers, unique, settings) as started,
    ):
        yield started


def _create(cluster: ThreadCluster, server: Postgres, prefix: str, name: str) -> None:
    config = {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": name,
        "database.password": PASSWORD,
        "database.dbname": "postgres",
        "topic.prefix": f"{prefix}-{name}",
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "table.include.list": "public.orders",
        **CONFIGS.get(name, {}),
    }
    cluster.verbs.create(name, config, None)


@dataclass(slots=True)
class Seen:
    """Numbers of connections by login, and when each attempt was launched, by connector."""

    connections: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    launched: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    traces: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def look(self, cluster: ThreadCluster, server: Postgres) -> None:
        counts = _connections(server)
        for name in LOGINS:
            self.connections[name].append(counts.get(name, 0))
        launches = [attempt.id.connector for attempt in cluster.launcher.launches]
        for name in CONFIGS:
            for _ in range(launches.count(name) - len(self.launched[name])):
                self.launched[name].append(time.monotonic())
            status = cluster.connect.herder.view.status.tasks.get(TaskId(name, 0))
            if status is not None and status.trace:
                self.traces[name].add(status.trace.partition("\n")[0])
            if status is not None and status.state is State.FAILED:
                cluster.verbs.restart_task(name, 0)


def _connections(server: Postgres) -> Mapping[str, int]:
    rows = server.sql("SELECT usename, count(*) FROM pg_stat_activity GROUP BY usename")
    return {str(name): int(count or 0) for name, count in rows}


def test_a_database_keeps_no_connection_of_starts_that_fail_for_five_minutes(
    cluster: ThreadCluster,
    server: Postgres,
    unique: str,
    record_property: Callable[[str, object], None],
) -> None:
    _create(cluster, server, unique, HOLDER)
    cluster.wait_for(HOLDER, State.RUNNING, State.RUNNING, timeout_s=START_S)
    active = "SELECT active FROM pg_replication_slots"
    wait_until(lambda: server.sql(active) == [("t",)], what="its slot", timeout_s=START_S)
    for name in CONFIGS:
        _create(cluster, server, unique, name)
    seen, until = Seen(), time.monotonic() + FAILING_S

    def over() -> bool:
        seen.look(cluster, server)
        return time.monotonic() > until

    wait_until(over, what="the time to pass", timeout_s=FAILING_S + 60, every_s=LOOK_S)
    for name in CONFIGS:
        starts, counts = seen.launched[name], seen.connections[name]
        pauses = [round(after - before) for before, after in pairwise(starts)]
        record_property(name, {"between starts, s": pauses, "at once": max(counts)})
        _log.warning("%s: %s, %d, %s", name, pauses, max(counts), seen.traces[name])
    for name in CONFIGS:
        wait_until(
            lambda name=name: not _connections(server).get(name),  # type: ignore[misc]
            what=f"a moment without connections of {name}",
            timeout_s=START_S,
        )
        assert max(seen.connections[name]) <= MOST_AT_ONCE
        cluster.stop_connector(name)
    assert not _connections(server).keys() & CONFIGS.keys()
    assert _connections(server)[HOLDER] > 0
    assert 4 < len(seen.launched["exits"]) <= MOST_STARTS
    assert len(seen.launched["publication"]) > MOST_STARTS
