"""A small Java sink on a real worker and on ours: records, dead letters, the assignor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from connect_runtime.kafka.clients import admin
from connect_runtime.settings.worker_config import from_properties
from support import http
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.java_plugins import SINK, add_compiled, java_catalog
from support.oracle import Oracle
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

START_S = 180
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROUND_ROBIN = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
CONTEXT = "__connect.errors."


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("counting") / "plugins"
    add_compiled("Counting", {SINK: "tests.Counting$Lines"}, folder)
    return {"plugin.path": str(folder), "key.converter": STRING, "value.converter": STRING}


@pytest.fixture(scope="module")
def apache(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("apache-sinks")
    servers = broker.bootstrap_servers
    worker = Oracle.start(folder, servers, group_id=folder.name, settings=settings)
    yield worker
    worker.kill()


@pytest.fixture(scope="module")
def ours(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadCluster]:
    group = tmp_path_factory.mktemp("our-sinks").name
    names = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    address = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    worker, _ = from_properties({**address, **names, **settings})
    with (
        java_catalog(worker.properties),
        thread_cluster(broker.bootstrap_servers, group, settings) as cluster,
    ):
        yield cluster


def test_records_dead_letters_and_the_assignor_are_those_of_apaches_worker(
    apache: Oracle, ours: ThreadCluster, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    servers = broker.bootstrap_servers
    create_topic(servers, unique, partitions=2)
    values = [b'{"n": 1}', b"no JSON", b'{"n": 2}', b"{", b'{"n": 3}']
    produce(servers, unique, [(b"key", value) for value in values])
    configs = {
        side: {
            "name": f"{side}-{unique}",
            "connector.class": "tests.Counting$Lines",
            "topics": unique,
            "tasks.max": "1",
            "path": str(tmp_path / side),
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{side}-{unique}-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            "consumer.override.partition.assignment.strategy": ROUND_ROBIN,
            "consumer.override.auto.offset.reset": "earliest",
        }
        for side in ("apaches", "ours")
    }
    apache.put(configs["apaches"])
    ours.verbs.put_config(configs["ours"]["name"], dict(configs["ours"]))
    for side in configs:
        wait_until(
            lambda file=tmp_path / side: file.exists() and len(_lines(file)) >= 3,
            what=f"the lines of {side}",
            timeout_s=START_S,
        )
        wait_until(
            lambda topic=f"{side}-{unique}-dead": len(read_to_end(servers, topic)) >= 2,
            what=f"the dead letters of {side}",
            timeout_s=START_S,
        )
    assert _lines(tmp_path / "ours") == _lines(tmp_path / "apaches") == ["{n=1}", "{n=2}", "{n=3}"]
    theirs, of_ours = (
        [_letter(message, side) for message in read_to_end(servers, f"{side}-{unique}-dead")]
        for side in configs
    )
    assert of_ours == theirs
    assert [value for _, value, _ in theirs] == [b"no JSON", b"{"]
    kafka = admin({"bootstrap.servers": servers})
    groups = [f"connect-{config['name']}" for config in configs.values()]
    described = kafka.describe_consumer_groups(groups)
    assignors = {described[group].result(15).partition_assignor for group in groups}
    assert assignors == {"roundrobin"}
    http.delete(f"{apache.url}/connectors/{configs['apaches']['name']}", timeout=60)
    ours.verbs.delete(configs["ours"]["name"])


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def _letter(message: Message, side: str) -> tuple[Any, Any, dict[str, bytes]]:
    """Returns the key, the value and the headers of a dead letter; of a stack its first line."""
    headers = {}
    for name, value in message.headers() or []:
        text = value if isinstance(value, bytes) else b""
        first = text.splitlines()[0] if name.endswith("stacktrace") else text
        headers[name] = first.replace(f"{side}-".encode(), b"")
    assert f"{CONTEXT}exception.message" in headers
    return message.key(), message.value(), headers
