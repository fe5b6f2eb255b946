"""Values that Kafka's own clients take: our clients take them too, or say at once why not."""

import html
import re
import subprocess
from functools import cache
from typing import Any

import pytest

from connect_runtime.kafka.client_checks import check_worker_clients, override_errors
from connect_runtime.kafka.client_limits import within_limits
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.java import find_java
from connect_specs.diagnostics import Invalid

_CLASSES = {
    "producer": "producer.ProducerConfig",
    "consumer": "consumer.ConsumerConfig",
    "admin": "admin.AdminClientConfig",
}
_KEY = re.compile(r'<h4><a id="([^"]+)"></a>.*?<th>Default:</th><td>(.*?)</td>', re.DOTALL)
_UNIT = re.compile(r" \(.*\)$")


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


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        (
            {"delivery.timeout.ms": "120000", "transaction.timeout.ms": "10000"},
            {"delivery.timeout.ms": 10_000},
        ),
        (
            {"delivery.timeout.ms": "2147483647", "transaction.timeout.ms": "60000"},
            {"delivery.timeout.ms": 60_000},
        ),
        ({"delivery.timeout.ms": "5000", "linger.ms": "9000"}, {"linger.ms": 4_999}),
        (
            {"reconnect.backoff.ms": 5_000, "reconnect.backoff.max.ms": 1_000},
            {"reconnect.backoff.max.ms": 5_000},
        ),
        (
            {"session.timeout.ms": "10000", "max.poll.interval.ms": "5000"},
            {"session.timeout.ms": 5_000},
        ),
        ({"session.timeout.ms": "400000"}, {"max.poll.interval.ms": 400_000}),
        ({"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": 0}),
        ({"fetch.min.bytes": "0"}, {"fetch.min.bytes": 1}),
        ({"fetch.max.bytes": "500000"}, {"fetch.max.bytes": 1_000_000}),
        ({"metadata.max.age.ms": "9223372036854775807"}, {"metadata.max.age.ms": 86_400_000}),
        (
            {"partition.assignment.strategy": "range,cooperative-sticky"},
            {"partition.assignment.strategy": "cooperative-sticky"},
        ),
        ({"linger.ms": "soon", "enable.idempotence": True}, {}),
    ],
)
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
