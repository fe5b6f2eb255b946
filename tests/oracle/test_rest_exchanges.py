"""Real Apache Connect and this runtime, asked the same: the same status, headers and body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from oracle.comparing import ask, comparable, differences
from oracle.our_worker import our_runtime
from support import http
from support.broker import BrokerAddress, create_topic
from support.exchanges import Exchange, exchanges
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two, and the names that its requests are made with."""

    client: httpx.Client
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class Sides:
    ours: Side
    theirs: Side


@pytest.fixture(scope="module")
def sides(
    broker: BrokerAddress, oracle: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sides]:
    """Both with the same four connectors: two that run, and two that never ran."""
    folder = tmp_path_factory.mktemp("shapes")
    (folder / "in.txt").write_text("one\ntwo\n")
    topic, group = f"shapes-{oracle.group_id}", f"ours-{oracle.group_id}"
    create_topic(broker.bootstrap_servers, topic)
    runtime = our_runtime(broker, group, folder)
    try:
        found = []
        for url, its_group in ((runtime.url, group), (oracle.url, oracle.group_id)):
            client = http.client(url, timeout_s=100)
            names = {"topic": topic, "missing": "no-such-topic", "group": its_group}
            _create_connectors(client, topic, folder, its_group)
            found.append(Side(client, names))
        for side in found:
            wait_until(lambda side=side: _settled(side.client), what="connectors", timeout_s=60)
        yield Sides(*found)
        for side in found:
            for name in ("src", "snk", "idle", "still"):
                side.client.delete(f"/connectors/{name}")
            side.client.close()
    finally:
        runtime.stop()


def _create_connectors(client: httpx.Client, topic: str, folder: Path, group: str) -> None:
    source = {"connector.class": "FileStreamSource", "topic": topic, "file": str(folder / "in.txt")}
    sink = {"connector.class": "FileStreamSink", "topics": topic, "file": str(folder / group)}
    wait_until(lambda: client.get("/health").status_code == 200, what="health", timeout_s=60)
    for name, config, state in (
        ("src", source, "running"),
        ("snk", sink, "running"),
        ("idle", source, "stopped"),
        ("still", sink, "stopped"),
    ):
        body = {"name": name, "config": config, "initial_state": state}
        wait_until(
            lambda body=body: client.post("/connectors", json=body).status_code == 201,
            what=f"{name} to be created",
        )


def _settled(client: httpx.Client) -> bool:
    found: dict[str, Any] = {
        name: client.get(f"/connectors/{name}/status").json()
        for name in ("src", "snk", "idle", "still")
    }
    running = all(
        [task["state"] for task in found[name].get("tasks", ())] == ["RUNNING"]
        for name in ("src", "snk")
    )
    stopped = all(
        found[name].get("connector", {}).get("state") == "STOPPED" for name in ("idle", "still")
    )
    produced = bool(client.get("/connectors/src/offsets").json().get("offsets"))
    tracked = bool(client.get("/connectors/src/topics").json()["src"]["topics"])
    return running and stopped and produced and tracked


@pytest.mark.parametrize(
    "exchange",
    exchanges("reads", "unknown", "http", "loggers", "bodies", "configs", "offsets"),
    ids=str,
)
def test_both_answer_alike(sides: Sides, exchange: Exchange) -> None:
    ours, theirs = (
        comparable(ask(side.client, exchange, side.names), side.names)
        for side in (sides.ours, sides.theirs)
    )
    expected = theirs["status"] if exchange.status is None else exchange.status
    assert ours["status"] == expected, (ours, theirs)
    # what they do alike is no difference
    assert exchange.status is None or theirs["status"] != exchange.status
    if not exchange.differs:
        assert not differences(ours, theirs)
