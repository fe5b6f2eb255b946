"""The OpenAPI document: made from the routes, served, kept in docs/, and true of every answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from connect_runtime import KAFKA_VERSION
from connect_runtime.rest import openapi
from connect_runtime.rest.app import create_app
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.validation.validate import check
from runtime.rest.client import WORKER
from support.connectors import SINK, SOURCE
from support.rest_worker import AsgiTransport, rest_worker

PAGE = Path(__file__).parents[3] / "docs" / "openapi.json"
ROUTES = [
    (method, path) for path, methods in openapi.description()["paths"].items() for method in methods
]
CONNECTORS = ("src", "still one", "snk")
# errors that no resource answered have no content type, as in Connect
JERSEYS = (404, 405, 406, 415)
HELD = [
    checks.response_schema_conformance,
    checks.status_code_conformance,
    checks.content_type_conformance,
]
DESCRIBED = [
    found.ok()
    for found in schemathesis.openapi.from_dict(
        openapi.document(ROUTES, KAFKA_VERSION)
    ).get_all_operations()
]
UNEXPECTED = "the worker's log says where"


def test_docs_have_the_document() -> None:
    document = openapi.document(ROUTES, KAFKA_VERSION)
    if os.environ.get("CONNECT_WRITE_PAGES"):
        PAGE.write_text(json.dumps(document, indent=1) + "\n")
    assert json.loads(PAGE.read_text()) == document


def test_every_route_is_described_and_nothing_else(client: httpx.Client) -> None:
    served = client.get("/openapi.json").json()
    assert served == openapi.document(ROUTES, KAFKA_VERSION)
    with pytest.raises(KeyError):
        openapi.document([("GET", "/new")], "1")


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """Of a real herder without Kafka, with a few connectors."""
    worker, _ = from_properties(WORKER)
    with rest_worker(check=lambda name, config: check(config, worker)) as running:
        app = create_app(
            lambda: running.verbs,
            PluginResources(worker).routes(),
            cluster_id=lambda: "kafka-1",
            commit="abc",
            metrics=lambda: "",
        )
        with httpx.Client(transport=AsgiTransport(app), base_url="http://connect") as found:
            for name, plugin, state in zip(
                CONNECTORS, (SOURCE, SOURCE, SINK), ("RUNNING", "STOPPED", "RUNNING"), strict=True
            ):
                config = {"name": name, "connector.class": plugin, "topics": "t"}
                body = {"name": name, "config": config, "initial_state": state}
                assert found.post("/connectors", json=body).status_code == 201
            yield found


@pytest.mark.parametrize("operation", DESCRIBED, ids=lambda operation: operation.label)
@given(data=st.data())
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_the_document_says(
    operation: Any, client: httpx.Client, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(list(GenerationMode)))
    case = data.draw(operation.as_strategy(generation_mode=mode))
    if "name" in case.path_parameters and data.draw(st.booleans()):
        case.path_parameters["name"] = data.draw(st.sampled_from(CONNECTORS))
    sent = requests.Request(**_plain(case)).prepare()
    answer = client.request(
        sent.method or "", sent.url or "", content=sent.body, headers=dict(sent.headers)
    )
    answer.elapsed = timedelta()
    assert UNEXPECTED not in answer.text
    if answer.status_code in JERSEYS and "content-type" not in answer.headers:
        assert answer.json()["error_code"] == answer.status_code
    else:
        case.validate_response(answer, checks=HELD)


def _plain(case: schemathesis.Case) -> dict[str, Any]:
    made = case.as_transport_kwargs(base_url="http://connect")
    return {
        key: made[key]
        for key in ("method", "url", "headers", "params", "json", "data", "cookies")
        if made.get(key) is not None
    }
