"""Plugins of all kinds, their keys and the validation of configs that name them: Apache's worker
and ours give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given

from connect_runtime.rest.app import create_app
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import from_properties
from oracle.any_config import exchanges
from oracle.comparing import ask, comparable, differences
from runtime.rest.serving import served
from support import http
from support.broker import BrokerAddress
from support.connect_jars import debezium_jars
from support.exchanges import Exchange, plugin_exchanges
from support.oracle import Oracle

pytestmark = pytest.mark.oracle

NAMES = {"topic": "some-topic"}


@contextmanager
def set_up_as(oracle: Oracle, folder: Path) -> Iterator[httpx.Client]:
    """Our REST API, set up as the worker is; no connector runs."""
    lines = (oracle.folder / "worker.properties").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    known = {key: value for key, value in given.items() if not key.startswith("plugin.")}
    worker, _ = from_properties(known, data_folder=folder)
    routes = PluginResources(worker).routes()
    app = create_app(lambda: None, routes, cluster_id=lambda: "kafka-1", commit="abc")
    with (
        served(app) as server,
        http.client(f"http://127.0.0.1:{server.port}", timeout_s=100) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ours(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with set_up_as(oracle, tmp_path_factory.mktemp("ours")) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(oracle: Oracle) -> Iterator[httpx.Client]:
    with http.client(oracle.url, timeout_s=100) as client:
        yield client


@pytest.fixture(scope="module")
def with_debezium(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a worker with Debezium's transformations."""
    folder = tmp_path_factory.mktemp("with-debezium")
    plugin = folder / "plugins" / "debezium"
    plugin.mkdir(parents=True)
    for jar in debezium_jars():
        (plugin / jar.name).symlink_to(jar)
    worker = Oracle.start(folder, broker.bootstrap_servers, group_id=folder.name)
    try:
        yield worker.url
    finally:
        worker.kill()


@pytest.mark.parametrize(
    "exchange",
    plugin_exchanges("listed", "transforms", "predicates", "errors", "converters"),
    ids=str,
)
def test_both_answer_alike(ours: httpx.Client, theirs: httpx.Client, exchange: Exchange) -> None:
    _compare(ours, theirs, exchange)


@given(exchange=exchanges())
def test_both_answer_alike_about_any_config(
    ours: httpx.Client, theirs: httpx.Client, exchange: Exchange
) -> None:
    _compare(ours, theirs, exchange)


@pytest.mark.parametrize("exchange", plugin_exchanges("debezium"), ids=str)
def test_debeziums_transformation(
    ours: httpx.Client, with_debezium: str, exchange: Exchange
) -> None:
    with http.client(with_debezium, timeout_s=100) as theirs:
        _compare(ours, theirs, exchange)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["Allowlist", "Principal", "None"])
def test_policies_of_overrides(
    broker: BrokerAddress, tmp_path: Path, unique: str, policy: str
) -> None:
    worker = Oracle.start(
        tmp_path / "worker",
        broker.bootstrap_servers,
        group_id=unique,
        settings={
            "connector.client.config.override.policy": policy,
            "connector.client.config.override.allowlist": "linger.ms, fetch.max.bytes",
        },
    )
    try:
        with (
            set_up_as(worker, tmp_path) as ours,
            http.client(worker.url, timeout_s=100) as theirs,
        ):
            for exchange in plugin_exchanges("overrides"):
                _compare(ours, theirs, exchange)
    finally:
        worker.kill()


def _compare(ours: httpx.Client, theirs: httpx.Client, exchange: Exchange) -> None:
    found, expected = (comparable(ask(client, exchange, NAMES), NAMES) for client in (ours, theirs))
    status = expected["status"] if exchange.status is None else exchange.status
    assert found["status"] == status, (found, expected)
    if not exchange.differs:
        assert not differences(found, expected)
