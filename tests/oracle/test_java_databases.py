"""A database that restarts or dies under Debezium and its JDBC sink, on a real worker and on ours:
states and traces are the same meanwhile, the source goes on by itself, the sink after a restart of
its task, and nothing is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest

from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.postgres import Postgres, postgres
from support.real_connectors import SHOP, Shop
from support.sides import START_S, Side, two_workers
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

_log = logging.getLogger(__name__)

WAREHOUSES: Final = ("apaches", "ours")
ROLES: Final = ("shop", "upsert")
AWAY_S: Final = 20.0
LOOK_S: Final = 0.5


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres([SHOP, *WAREHOUSES]) as running:
        yield running


@dataclass(slots=True)
class Seen:
    """States of a side's connectors and tasks, with the first line of their traces, in order and
    each once in a row."""

    side: Side
    shop: Shop
    states: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def look(self) -> None:
        try:
            answer = http.get(f"{self.side.url}/connectors?expand=status", timeout=30)
        except httpx.TransportError:
            return
        for role in ROLES:
            status = answer.json()[self.shop.connector(role)]["status"]
            for part, of in (("", status["connector"]), *(("/0", t) for t in status["tasks"])):
                trace = (of.get("trace") or "").partition("\n")[0]
                state = (of["state"], trace.replace(self.shop.name, "SIDE"))
                seen = self.states.setdefault(f"{role}{part}", [])
                if of["state"] == "RESTARTING":  # Apache's worker has it for restarts of connectors
                    continue
                if not seen or seen[-1] != state:
                    seen.append(state)


@contextmanager
def watched(seen: Sequence[Seen]) -> Iterator[None]:
    """Looks at both until the context ends."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            for each in seen:
                each.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _wait_until_moving(sides: Sequence[Side], shops: Sequence[Shop]) -> None:
    """Until both warehouses have a row that is not there yet. Sinks that failed start again."""
    newest = shops[0].rows(SHOP)[-1]
    wait_until(lambda: shops[0].rows(SHOP)[-1] != newest, what="a change")
    newest = shops[0].rows(SHOP)[-1]

    def arrived(side: Side, shop: Shop) -> bool:
        sink = f"/connectors/{shop.connector('upsert')}"
        (task,) = side("GET", f"{sink}/status").json()["tasks"]
        if task["state"] == "FAILED":
            assert side("POST", f"{sink}/tasks/0/restart").is_success
        return newest in shop.rows(shop.warehouse)

    for side, shop in zip(sides, shops, strict=True):
        wait_until(
            partial(arrived, side, shop),
            what=f"{newest} in {shop.warehouse}",
            timeout_s=START_S,
            every_s=1,
        )


@pytest.mark.parametrize("how", ["restarts", "is killed"])
def test_debezium_and_the_jdbc_sink_go_on_when_postgres(
    broker: BrokerAddress, server: Postgres, tmp_path: Path, unique: str, how: str
) -> None:
    plugins = tmp_path / "plugins"
    for name in ("debezium-postgres", "debezium-jdbc"):
        add_plugin(name, plugins)
    names = f"{unique}-a", f"{unique}-o"
    shops = [
        Shop(name, broker.bootstrap_servers, server, tmp_path / name, warehouse)
        for name, warehouse in zip(names, WAREHOUSES, strict=True)
    ]
    shops[0].create_table()
    settings = {
        "plugin.path": str(plugins),
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    with two_workers(tmp_path, names, broker.bootstrap_servers, settings) as sides:
        for side, shop in zip(sides, shops, strict=True):
            for role in ROLES:
                side.put(shop.connector(role), shop.configs()[shop.connector(role)])
        for shop in shops:
            shop.wait_for_snapshot(START_S)
        seen = [Seen(side, shop) for side, shop in zip(sides, shops, strict=True)]
        with shops[0].under_load(clicks=False):
            _wait_until_moving(sides, shops)
            with watched(seen):
                began = time.monotonic()
                if how == "restarts":
                    server.stop()
                else:
                    server.kill()
                    wait_until(
                        lambda: time.monotonic() > began + AWAY_S,
                        what="the time to pass",
                        timeout_s=AWAY_S + 10,
                    )
                server.start()
                _wait_until_moving(sides, shops)
        apaches, ours = (each.states for each in seen)
        _log.warning("By Apache's worker: %s", apaches)
        _log.warning("By ours: %s", ours)
        shops[0].recount()
        for shop in shops:
            wait_until(
                lambda shop=shop: shop.rows(SHOP) == shop.rows(shop.warehouse),
                what=f"all rows in {shop.warehouse}",
                timeout_s=START_S,
            )
            shop.done = shops[0].done
            shop.assert_each_change_once()
        assert {part: set(states) for part, states in ours.items()} == {
            part: set(states) for part, states in apaches.items()
        }
