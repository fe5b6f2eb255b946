"""The primary of a Postgres is killed under load, and its standby promoted: Debezium and its JDBC
sink go on there, by a slot that the standby has kept up to date.

Both have one address, which leads to the server that is the primary, as that of a load balancer.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.distributed import Runtime, start_runtime
from support.postgres import Postgres, primary_and_standby
from support.real_connectors import SHOP, SNAPSHOT_ROWS, WAREHOUSE, Shop
from support.rig import Rig
from support.wait import wait_until

pytestmark = pytest.mark.long

START_S: Final = 240
BACK_S: Final = 180
MORE: Final = 20
SETTINGS: Final = {
    "consumer.session.timeout.ms": "6000",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "topic.creation.enable": "true",
}


@pytest.fixture
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with primary_and_standby([SHOP, WAREHOUSE]) as both:
        yield both


@pytest.fixture
def rig(tmp_path: Path, unique: str) -> Iterator[Rig]:
    rig = Rig(tmp_path / "rig", unique)
    yield rig
    assert rig.end() == []


@pytest.fixture
def runtime(rig: Rig, broker: BrokerAddress, tmp_path: Path) -> Iterator[Runtime]:
    plugins = tmp_path / "plugins"
    for name in ("debezium-postgres", "debezium-jdbc"):
        add_plugin(name, plugins)
    folder = tmp_path / "runtime"
    folder.mkdir()
    settings = {**SETTINGS, "plugin.path": str(plugins)}
    runtime = start_runtime(rig, broker.bootstrap_servers, folder, settings)
    wait_until(lambda: runtime.at.get("/health"), what="its health", timeout_s=START_S)
    yield runtime
    runtime.command.terminate()
    runtime.command.wait(90)


class PrimaryAddress:
    """A port that leads to the server of another port, which may change."""

    def __init__(self, leads_to: int) -> None:
        self.leads_to = leads_to
        address = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                with (
                    suppress(OSError),
                    socket.create_connection((LOOPBACK, address.leads_to)) as server,
                ):
                    back = threading.Thread(target=_copy, args=(server, self.request), daemon=True)
                    back.start()
                    _copy(self.request, server)
                    back.join()

        self._server = ThreadingTCPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    @contextmanager
    def served(self) -> Iterator[None]:
        """Takes connections while the context lasts."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        yield
        self._server.shutdown()
        thread.join()
        self._server.server_close()


def _copy(source: socket.socket, to: socket.socket) -> None:
    """Copies until one of them ends, which ends the other one."""
    with suppress(OSError):
        while block := source.recv(1 << 16):
            to.sendall(block)
    for each in (source, to):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def address(servers: tuple[Postgres, Postgres]) -> Iterator[PrimaryAddress]:
    address = PrimaryAddress(servers[0].port)
    with address.served():
        yield address


def _configs(shop: Shop, port: int) -> Mapping[str, Mapping[str, str]]:
    configs = shop.configs()
    source, sink = shop.connector("shop"), shop.connector("upsert")
    return {
        source: {
            **configs[source],
            "database.port": str(port),
            "slot.failover": "true",
            "retriable.restart.connector.wait.ms": "1000",
        },
        sink: {
            **configs[sink],
            "connection.url": f"jdbc:postgresql://{LOOPBACK}:{port}/{WAREHOUSE}",
            "connection.restart.on.errors": "true",
        },
    }


def test_both_go_on_with_the_standby(
    broker: BrokerAddress,
    servers: tuple[Postgres, Postgres],
    address: PrimaryAddress,
    runtime: Runtime,
    unique: str,
    tmp_path: Path,
) -> None:
    primary, standby = servers
    shop = Shop(unique, broker.bootstrap_servers, primary, tmp_path)
    shop.create_table()
    for name, config in _configs(shop, address.port).items():
        answer = http.put(
            f"{runtime.at.url}/connectors/{name}/config", json=dict(config), timeout=90
        )
        assert answer.is_success, answer.text
    shop.wait_for_snapshot(START_S)
    with shop.under_load(clicks=False):
        _wait_for_rows(shop, SNAPSHOT_ROWS + MORE)
        wait_until(
            lambda: (
                standby.sql(
                    "SELECT slot_name FROM pg_replication_slots"
                    " WHERE synced AND NOT temporary AND invalidation_reason IS NULL"
                )
                == [(shop.slot,)]
            ),
            what="the standby to have the slot",
            timeout_s=BACK_S,
        )
        primary.kill()
    standby.sql("SELECT pg_promote()")
    address.leads_to = standby.port
    shop.server = standby
    shop.recount()
    with shop.under_load(clicks=False):
        _wait_for_rows(shop, SNAPSHOT_ROWS + shop.done.inserted + MORE, runtime)
    wait_until(lambda: shop.rows(SHOP) == shop.rows(WAREHOUSE), what="all rows", timeout_s=BACK_S)
    shop.assert_each_change_once()


def _wait_for_rows(shop: Shop, newest: int, runtime: Runtime | None = None) -> None:
    """Until rows up to that number have arrived. A sink whose connection is lost in a commit fails,
    as in Apache's worker, and is restarted on `runtime`."""
    restart = f"/connectors/{shop.connector('upsert')}/restart?includeTasks=true&onlyFailed=true"

    def arrived() -> bool:
        if runtime is not None:
            assert http.post(f"{runtime.at.url}{restart}", timeout=30).is_success
        rows = shop.rows(WAREHOUSE)
        return bool(rows) and int(rows[-1][0] or 0) > newest

    wait_until(arrived, what=f"row {newest}", timeout_s=BACK_S, every_s=1)
