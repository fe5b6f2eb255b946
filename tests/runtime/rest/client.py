"""Asks the REST application without a socket, and the connector and worker that its tests use."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp

from connect_runtime.rest.app import Served, create_app
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.settings.worker_config import from_properties
from connect_specs.desired import TargetState
from runtime.rest.fake_verbs import FakeVerbs

SOURCE = {"connector.class": "FileStreamSource", "topic": "orders"}
SINK = {"connector.class": "FileStreamSink", "topics": "orders"}
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@dataclass(frozen=True, slots=True)
class Client:
    app: ASGIApp

    def __call__(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """`body` text and bytes are sent as they are, anything else as JSON; None is no body."""
        content = body if isinstance(body, str | bytes | None) else json.dumps(body)
        kind = {} if body is None else {"content-type": "application/json"}

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://connect:8083"
            ) as client:
                sent = {**kind, **(headers or {})}
                return await client.request(method, path, content=content, headers=sent)

        return asyncio.run(ask())


def app_of(
    verbs: FakeVerbs | None,
    settings: RestSettings | None = None,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    serves: Served = Served.ALL,
) -> ASGIApp:
    """The application over these verbs; None: before there are any."""
    worker, _ = from_properties(WORKER)
    return create_app(
        lambda: verbs,
        PluginResources(worker).routes(),
        cluster_id=lambda: "kafka-1",
        commit="abc",
        settings=settings,
        tls=tls,
        serves=serves,
    )


def client_of(
    verbs: FakeVerbs | None,
    settings: RestSettings | None = None,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> Client:
    """Asks the application over these verbs."""
    return Client(app_of(verbs, settings, tls))


def running_source() -> FakeVerbs:
    """One running source, `fs`."""
    verbs = FakeVerbs()
    verbs.create("fs", {**SOURCE, "name": "fs"}, None)
    return verbs


def all_connectors() -> FakeVerbs:
    """Those of `exchanges.yaml`, and `fs`: running ones and stopped ones of both kinds."""
    verbs = running_source()
    for name, state in (("src", None), ("idle", TargetState.STOPPED)):
        verbs.create(name, {**SOURCE, "name": name}, state)
    for name, state in (("snk", None), ("still", TargetState.STOPPED)):
        verbs.create(name, {**SINK, "name": name}, state)
    return verbs


def error(code: int, message: str) -> dict[str, Any]:
    """Connect's error body."""
    return {"error_code": code, "message": message}
