"""Client properties of Kafka's own clients: clients here accept them too, or refuse at once."""

import html
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime.joining import find_cluster
from connect_runtime.kafka.client_checks import check_worker_clients, override_errors
from connect_runtime.kafka.client_config import within_limits
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.snapshots import State
from connect_runtime.validation.validate import validate
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Invalid
from support.broker import BrokerAddress, create_topic
from support.thread_cluster import thread_cluster
from support.wait import wait_until

TABLE = yaml.safe_load(Path(__file__).with_name("client_limits.yaml").read_text())

_CLASSES = {
    "producer": "producer.ProducerConfig",
    "consumer": "consumer.ConsumerConfig",
    "admin": "admin.AdminClientConfig",
}
_KEY = re.compile(r'<h4><a id="([^"]+)"></a>.*?<th>Default:</th><td>(.*?)</td>', re.DOTALL)
_UNIT = re.compile(r" \(.*\)$")
SETTINGS = {
    "producer.delivery.timeout.ms": "120000",
    "consumer.group.protocol": "consumer",
}
SINK = "FileStreamSink"


@cache
def kafkas_defaults(client: str) -> dict[str, str]:
    """The default values of Kafka's documentation, which its own classes print."""
    command = [str(find_java()), "-cp", classpath("broker")]
    printed = subprocess.run(
        [*command, f"org.apache.kafka.clients.{_CLASSES[client]}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {key: _UNIT.sub("", html.unescape(text)) for key, text in _KEY.findall(printed)}
    assert len(found) > 50
    return {
        key: "" if text == '""' else text.replace("class ", "")
        for key, text in found.items()
        if text not in ("null", "") and key != "bootstrap.servers"
    }


@pytest.mark.parametrize("client", list(_CLASSES))
def test_every_default_of_kafka_is_taken(client: str) -> None:
    given = {f"{client}.{key}": value for key, value in kafkas_defaults(client).items()}
    for key, value in given.items():
        check_worker_clients({key: value})
    check_worker_clients(given)


@pytest.mark.parametrize(("given", "changed"), TABLE["limits"])
def test_values_beyond_librdkafkas_limits_become_the_nearest(
    given: dict[str, Any], changed: dict[str, Any]
) -> None:
    found = within_limits(given)
    assert {key: str(value) for key, value in found.items()} == {
        key: str(value) for key, value in (given | changed).items()
    }


def test_the_new_group_protocol_goes_without_what_the_broker_decides() -> None:
    given = {"group.protocol": "consumer", "group.id": "g", "session.timeout.ms": "10000"}
    assert within_limits(given) == {"group.protocol": "consumer", "group.id": "g"}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("producer.max.in.flight.requests.per.connection", "6", "must be set <= 5"),
        ("producer.retries", "0", "must be set >= 1"),
        ("producer.compression.type", "hunter2", "Invalid value for configuration property"),
        ("consumer.auto.offset.reset", "by_duration:PT1H", "Invalid value for"),
        ("consumer.partition.assignment.strategy", "o.a.RangeAssignor", "CooperativeSticky"),
        ("admin.request.timeout.ms", "hunter2", "request.timeout.ms"),
    ],
)
def test_what_cannot_be_reconciled_is_refused_by_its_key(key: str, value: str, why: str) -> None:
    good = {"producer.linger.ms": "7", "consumer.fetch.min.bytes": "2", "x": "y"}
    with pytest.raises(Invalid) as caught:
        check_worker_clients(good | {key: value})
    assert [each.where for each in caught.value.diagnostics] == [key]
    assert why in caught.value.diagnostics[0].what
    assert "hunter2" not in str(caught.value)
    client, _, name = key.partition(".")
    config = {f"{client}.override.{name}": value, f"{client}.override.client.id": "x"}
    errors = dict(override_errors(config, {}))
    assert list(errors) == [f"{client}.override.{name}"]
    assert why in errors[f"{client}.override.{name}"]


def test_references_are_not_judged() -> None:
    login = {
        "producer.override.security.protocol": "SASL_PLAINTEXT",
        "producer.override.sasl.mechanism": "PLAIN",
        "producer.override.sasl.jaas.config": "${file:a:b}",
        "producer.override.linger.ms": "${file:a:b}",
    }
    assert not list(override_errors(login, {}))
    wrong = dict(override_errors(login | {"producer.override.retries": "many"}, {}))
    assert list(wrong) == ["producer.override.retries"]
    unset = dict(override_errors({"producer.override.sasl.mechanism": "PLAIN"}, {}))
    assert unset == {}, "without SASL in the protocol, nobody logs in"


def test_lines_pass_with_kafkas_delivery_timeout_and_its_new_group_protocol(
    broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, unique)
    lines, copy = tmp_path / "lines.txt", tmp_path / "copy.txt"
    lines.write_text("a\nb\n")
    with thread_cluster(broker.bootstrap_servers, f"{unique}-g", SETTINGS) as cluster:
        source = {"connector.class": "FileStreamSource", "topic": unique, "file": str(lines)}
        sink = {"connector.class": SINK, "topics": unique, "file": str(copy), "name": unique}
        cluster.verbs.create("lines", source | {"name": "lines"}, None)
        cluster.verbs.create(unique, sink, None)
        wait_until(lambda: copy.exists() and copy.read_text() == "a\nb\n", what="both lines")
        cluster.stop_connector(unique)
        # two records and the end of their transaction
        assert [each.offset for each in cluster.verbs.offsets(unique)] == [{"kafka_offset": 3}]
        place = {"kafka_topic": unique, "kafka_partition": 0}
        cluster.verbs.alter_offsets(unique, [OffsetEntry(place, {"kafka_offset": 1})])
        cluster.verbs.resume(unique)
        wait_until(lambda: copy.read_text() == "a\nb\nb\n", what="the second line again")
        cluster.wait_for(unique, State.RUNNING, State.RUNNING)


def test_a_worker_whose_clients_cannot_be_made_does_not_start(
    broker: BrokerAddress, unique: str
) -> None:
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": unique,
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        **{f"{kind}.storage.topic": f"{unique}-{kind}" for kind in ("config", "offset", "status")},
        "producer.retries": "0",
    }
    config, _ = from_properties(given)
    with pytest.raises(Invalid, match=r"for configuration producer\.retries") as caught:
        find_cluster(config)
    assert [each.where for each in caught.value.diagnostics] == ["producer.retries"]
    found = validate(
        {"connector.class": SINK, "name": "n", "topics": "t", "consumer.override.acks": "1"}
        | {"consumer.override.fetch.min.bytes": "much"},
        config,
    )
    assert len(found.errors) == 1
    assert "configuration fetch.min.bytes: Not a number of type INT" in found.errors[0]
