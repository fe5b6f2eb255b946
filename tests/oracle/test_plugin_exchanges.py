"""Plugins of all kinds, their keys and the validation of configs that name them: Apache's worker
and ours give the same answers."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from connect_runtime.rest.app import create_app
from connect_runtime.rest.plugins import ConnectorPlugins
from connect_runtime.worker_config import from_properties
from oracle.comparing import ask, comparable, differences
from oracle.exchanges import Exchange
from oracle.plugin_exchanges import CONVERTERS, ERRORS, LISTED, PREDICATES, TRANSFORMS
from runtime.rest.serving import served
from support.oracle import Oracle

pytestmark = pytest.mark.oracle

NAMES = {"topic": "some-topic"}


@pytest.fixture(scope="module")
def ours(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Our REST API, set up as the worker is; no connector runs."""
    lines = (oracle.folder / "worker.properties").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    known = {key: value for key, value in given.items() if not key.startswith("plugin.")}
    worker, _ = from_properties(known, data_folder=tmp_path_factory.mktemp("ours"))
    routes = ConnectorPlugins(worker).routes()
    app = create_app(lambda: None, routes, cluster_id=lambda: "kafka-1", commit="abc")
    with (
        served(app) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=100) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def theirs(oracle: Oracle) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=oracle.url, timeout=100) as client:
        yield client


@pytest.mark.parametrize(
    "exchange", (*LISTED, *TRANSFORMS, *PREDICATES, *ERRORS, *CONVERTERS), ids=str
)
def test_both_answer_alike(ours: httpx.Client, theirs: httpx.Client, exchange: Exchange) -> None:
    found, expected = (comparable(ask(client, exchange, NAMES), NAMES) for client in (ours, theirs))
    assert found["status"] == expected["status"], (found, expected)
    if not exchange.differs:
        assert not differences(found, expected)
