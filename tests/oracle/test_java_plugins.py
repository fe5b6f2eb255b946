"""Java plugins on one plugin.path: Apache's worker and ours list them, describe their keys and
validate configs alike, but for what docs/architecture.md says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from connect_runtime.engine.catalog import JavaCatalog, use_catalog
from connect_runtime.plugins import registry
from connect_runtime.rest.app import create_app
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.validation.validate import check
from oracle.comparing import differences
from runtime.engine.test_plugin_path import CLASSES, PLUGIN, add
from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.java_plugins import make_jar
from support.oracle import Oracle
from support.rest_worker import AsgiTransport, rest_worker

pytestmark = [pytest.mark.oracle, pytest.mark.long]

KAFKA = "org.apache.kafka.connect"
# Google's has no manifest of its connectors, and bundles Kafka's clients
PLUGINS = ("debezium-postgres", "debezium-jdbc", "mirror", "iceberg", "pubsub")
CONNECTORS = (
    "io.debezium.connector.postgresql.PostgresConnector",
    "io.debezium.connector.jdbc.JdbcSinkConnector",
    f"{KAFKA}.mirror.MirrorSourceConnector",
    f"{KAFKA}.mirror.MirrorCheckpointConnector",
    f"{KAFKA}.mirror.MirrorHeartbeatConnector",
    "org.apache.iceberg.connect.IcebergSinkConnector",
    "com.google.pubsub.kafka.source.CloudPubSubSourceConnector",
    "com.google.pubsub.kafka.sink.CloudPubSubSinkConnector",
    "com.google.pubsublite.kafka.source.PubSubLiteSourceConnector",
    "com.google.pubsublite.kafka.sink.PubSubLiteSinkConnector",
    "tests.Various$Source",
    "PostgresConnector",
    "Postgres",
)
TOPICS = {"name": "c", "topics": "t"}
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "empty": {},
    "minimal": {**TOPICS, "topic": "t", "tasks.max": "1"},
    "wrong": {
        "name": "c",
        "tasks.max": "x",
        "topics": "a",
        "topics.regex": "b",
        "errors.tolerance": "most",
        "header.converter": "Nope",
        "key.converter": "Nope",
    },
    "overrides": {
        **TOPICS,
        "producer.override.linger.ms": "5",
        "producer.override.sasl.jaas.config": "open-sesame-1",
        "consumer.override.max.poll.records": "10",
        "admin.override.retries": "x",
    },
    "exactly once": {**TOPICS, "exactly.once.support": "required", "transaction.boundary": "poll"},
    "boundary": {**TOPICS, "transaction.boundary": "connector"},
    "dead letters": {**TOPICS, "errors.deadletterqueue.topic.name": "t", "errors.tolerance": "all"},
    "topics": {
        "name": "c",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "a",
        "topic.creation.a.include": "[",
    },
    "chain": {
        **TOPICS,
        "transforms": "a,b",
        "transforms.a.type": f"{KAFKA}.transforms.InsertField$Value",
        "transforms.b.type": UNWRAP,
        "transforms.b.drop.tombstones": "maybe",
        "transforms.b.predicate": "p",
        "predicates": "p",
        "predicates.p.type": f"{KAFKA}.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "[",
    },
    "converters": {
        **TOPICS,
        "key.converter": f"{KAFKA}.json.JsonConverter",
        "key.converter.schemas.enable": "maybe",
        "value.converter": "io.debezium.converters.CloudEventsConverter",
        "header.converter": f"{KAFKA}.storage.SimpleHeaderConverter",
    },
    "range": {**TOPICS, "connector.plugin.version": "[1,2"},
    "versions": {
        **TOPICS,
        "transforms": "b",
        "transforms.b.type": UNWRAP,
        "transforms.b.plugin.version": "[9.0]",
    },
    "nulls": {**TOPICS, "name": None},
}
# A null pointer in Apache's worker in place of the errors
NO_VALUE = "ConfigInfo.configValue()"


@pytest.fixture(scope="module")
def theirs(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("java-plugins")
    path = folder / "java plugins"
    for name in PLUGINS:
        add_plugin(name, path)
    jar = folder / "various.jar"
    make_jar(PLUGIN, CLASSES, jar)
    for version in ("0.9", "2.0", "10.0"):
        services = {} if version == "0.9" else CLASSES
        add(jar, path / version / "various.jar", version, services=services)
    settings = {"plugin.path": str(path), "plugin.discovery": "hybrid_warn"}
    worker = Oracle.start(folder, broker.bootstrap_servers, group_id=folder.name, settings=settings)
    try:
        yield worker
    finally:
        worker.kill()


@pytest.fixture(scope="module")
def their_client(theirs: Oracle) -> Iterator[httpx.Client]:
    with http.client(theirs.url, timeout_s=100) as client:
        yield client


@pytest.fixture(scope="module")
def our_client(theirs: Oracle) -> Iterator[httpx.Client]:
    """Our REST API of a worker with the same file; no connector runs."""
    lines = (theirs.folder / "worker.properties").read_text().splitlines()
    worker, _ = from_properties(dict(line.split("=", 1) for line in lines))
    catalog = JavaCatalog(worker.properties, "ours:8083")
    use_catalog(catalog)
    try:
        assert catalog.scan()
        with rest_worker(
            runs_tasks=False, check=lambda name, config: check(config, worker)
        ) as ours:
            routes = PluginResources(worker).routes()
            app = create_app(lambda: ours.connect, routes, cluster_id=lambda: "k", commit="c")
            url = "http://127.0.0.1:8083"
            with httpx.Client(transport=AsgiTransport(app), base_url=url, timeout=100) as client:
                yield client
    finally:
        use_catalog(None)
        registry.connector.cache_clear()
        catalog.close()


def _without_texts(value: Any) -> Any:
    """Keys of classes that are ours have our documentation."""
    if isinstance(value, list):
        return [_without_texts(entry) for entry in value]
    return {key: text for key, text in value.items() if key != "documentation"}


@pytest.mark.parametrize("query", ["", "?connectorsOnly=false"])
def test_lists_are_alike(our_client: httpx.Client, their_client: httpx.Client, query: str) -> None:
    """Ours has the file connectors, and a version of its own of Debezium's transformation."""
    ours, theirs = (c.get(f"/connector-plugins{query}").json() for c in (our_client, their_client))
    further = [row for row in ours if row not in theirs]
    assert [row for row in ours if row in theirs] == theirs
    assert {(row["class"], row.get("version")) for row in further} <= {(UNWRAP, "0.1.0")}


def test_the_keys_of_each_plugin_are_alike(
    our_client: httpx.Client, their_client: httpx.Client
) -> None:
    plugins = their_client.get("/connector-plugins?connectorsOnly=false").json()
    names = dict.fromkeys(plugin["class"] for plugin in plugins)
    assert len(names) > 70
    for name in names:
        path = f"/connector-plugins/{name}/config"
        ours, theirs = our_client.get(path), their_client.get(path)
        assert ours.status_code == theirs.status_code, path
        assert not differences(_without_texts(ours.json()), _without_texts(theirs.json())), path


@pytest.mark.parametrize("version", ["[99.0]", "[1,2", "0.9"])
def test_versions_that_are_not_there_are_refused_alike(
    our_client: httpx.Client, their_client: httpx.Client, version: str
) -> None:
    """Apache's text lists each copy of a plugin, of which ours has one for each version."""
    plugins = their_client.get("/connector-plugins?connectorsOnly=false").json()
    for name in dict.fromkeys(plugin["class"] for plugin in plugins):
        path = f"/connector-plugins/{name}/config"
        ours, theirs = (
            client.get(path, params={"version": version}) for client in (our_client, their_client)
        )
        assert ours.status_code == theirs.status_code, path
        if not theirs.is_success:
            assert ours.json() == theirs.json(), path


@pytest.mark.parametrize("name", CONNECTORS)
def test_validation_is_alike(
    our_client: httpx.Client, their_client: httpx.Client, name: str
) -> None:
    """Also its order and texts, and refusals of a create."""
    for title, config in CONFIGS.items():
        body = {"connector.class": name, **config}
        path = f"/connector-plugins/{name}/config/validate"
        ours, theirs = (c.put(path, json=body) for c in (our_client, their_client))
        assert ours.status_code == theirs.status_code, title
        assert json.loads(ours.text) == json.loads(theirs.text), title
        created = {"name": "c", "config": body}
        ours, theirs = (c.post("/connectors", json=created) for c in (our_client, their_client))
        if NO_VALUE in theirs.text:
            assert ours.status_code == 400, title
        else:
            assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json()), title
        for client in (our_client, their_client):
            client.delete("/connectors/c")
