"""Client properties of connectors, layer by layer, the place of their offsets, and addresses of
brokers, with the texts of Java's clients."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from connect_runtime.api import ConfigError
from connect_runtime.settings.connector_clients import (
    ConnectorClients,
    Kind,
    OffsetsPlace,
    check_addresses,
    check_known,
    forbidden_overrides,
    policy_of,
)
from connect_runtime.settings.connector_topics import TopicSettings

TABLE = yaml.safe_load(Path(__file__).with_name("connector_clients.yaml").read_text())

BOOTSTRAP = "bootstrap.servers"
WORKER = {
    "bootstrap.servers": "a:9092,b:9092",
    "security.protocol": "SASL_SSL",
    "sasl.jaas.config": "worker",
    "ssl.truststore.location": "/worker.pem",
    "producer.sasl.jaas.config": "producer",
    "producer.linger.ms": "5",
    "consumer.sasl.jaas.config": "consumer",
    "consumer.max.poll.records": "100",
    "admin.sasl.jaas.config": "admin",
    "offset.storage.topic": "offsets",
    "config.storage.topic": "configs",
}
TASKS_ONLY = {"bootstrap.servers": "a:9092,b:9092"}


def clients(
    kind: Kind = "source", worker: Mapping[str, str] = WORKER, **config: str
) -> ConnectorClients:
    given = {key.replace("_", "."): value for key, value in config.items()}
    return ConnectorClients("group", "offsets", worker, "c", given, kind)


def test_every_layer_wins_over_the_one_before() -> None:
    source = clients(
        producer_override_linger_ms="7",
        consumer_override_client_rack="r",
        admin_override_sasl_jaas_config="own",
    )
    assert source.producer() == {
        "bootstrap.servers": "a:9092,b:9092",
        "sasl.jaas.config": "producer",
        "linger.ms": "7",
    }
    assert source.consumer() == {
        "bootstrap.servers": "a:9092,b:9092",
        "sasl.jaas.config": "consumer",
        "max.poll.records": "100",
        "client.rack": "r",
    }
    # as in Connect, only admin clients take the worker's unprefixed properties
    assert source.admin() == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "/worker.pem",
        "sasl.jaas.config": "own",
    }
    assert source.worker_client() == {
        key: WORKER[key]
        for key in (
            "bootstrap.servers",
            "security.protocol",
            "sasl.jaas.config",
            "ssl.truststore.location",
        )
    }


def test_a_reader_of_offsets_is_a_member_of_no_group() -> None:
    source = clients(
        worker=TASKS_ONLY,
        consumer_override_group_id="g",
        consumer_override_group_protocol="consumer",
        consumer_override_isolation_level="read_uncommitted",
        consumer_override_fetch_max_bytes="9",
    )
    assert source.offsets_consumer() == {**TASKS_ONLY, "fetch.max.bytes": "9"}


@pytest.mark.parametrize(("kind", "given", "which", "expected"), TABLE["followed"])
def test_other_clients_follow_to_another_cluster(
    kind: Kind, given: dict[str, str], which: str, expected: dict[str, str]
) -> None:
    assert getattr(clients(kind, **given), which)() == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, OffsetsPlace("offsets", None, False)),
        ({"offsets_storage_topic": "  "}, OffsetsPlace("offsets", None, False)),
        ({"offsets_storage_topic": "own"}, OffsetsPlace("own", "offsets", False)),
        # the same topic and the same servers, in another order: nothing of its own
        (
            {
                "offsets_storage_topic": "offsets",
                "producer_override_bootstrap_servers": "b:9092, a:9092",
            },
            OffsetsPlace("offsets", None, False),
        ),
        # only the cluster is given: a topic of its own there, named like the worker's
        (
            {"producer_override_bootstrap_servers": "x:1"},
            OffsetsPlace("offsets", "offsets", True),
        ),
        (
            {"offsets_storage_topic": "own", "producer_override_bootstrap_servers": "x:1"},
            OffsetsPlace("own", "offsets", True),
        ),
    ],
)
def test_where_a_sources_offsets_are(given: dict[str, str], expected: OffsetsPlace) -> None:
    assert clients(**given).place == expected


@pytest.mark.parametrize("key", ["offsets.storage.topic", "producer.override.bootstrap.servers"])
def test_a_standalone_workers_offsets_are_in_its_file(key: str) -> None:
    found = ConnectorClients("group", "offsets", WORKER, "c", {key: "x:1"}, "source", in_file=True)
    assert found.place == OffsetsPlace("offsets", None, elsewhere=False)
    assert not found.own_login
    # records still go where the connector says
    assert found.elsewhere == key.startswith("producer")


@pytest.mark.parametrize(("given", "own_login"), TABLE["own_login"])
def test_offsets_are_reached_by_the_worker_or_the_connector(
    given: dict[str, str], own_login: bool
) -> None:
    assert clients(**given).own_login == own_login


LOGIN = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "worker"}
ONE_LOGIN = TASKS_ONLY | {
    f"{client}{key}": value
    for client in ("", "producer.", "consumer.", "admin.")
    for key, value in LOGIN.items()
}


@pytest.mark.parametrize(
    ("worker", "given", "offsets", "producer"),
    [
        (TASKS_ONLY, {}, False, False),
        (ONE_LOGIN, {}, False, False),
        (ONE_LOGIN, {"offsets_storage_topic": "own"}, False, False),
        (ONE_LOGIN, {"producer_override_sasl_jaas_config": "x"}, True, True),
        (ONE_LOGIN, {"consumer_override_sasl_jaas_config": "x"}, True, False),
        (ONE_LOGIN, {"admin_override_sasl_jaas_config": "x"}, True, False),
        (TASKS_ONLY, {"producer_override_bootstrap_servers": "x:1"}, True, True),
        (TASKS_ONLY, {"producer_override_bootstrap_servers": "b:9092,a:9092"}, True, False),
        # logins that the worker gives to all its connectors: its own topic it reads by itself
        (WORKER, {}, False, True),
        (WORKER, {"offsets_storage_topic": "own"}, True, True),
    ],
)
def test_a_client_with_another_login_is_the_connectors_own(
    worker: Mapping[str, str], given: dict[str, str], offsets: bool, producer: bool
) -> None:
    found = clients(worker=worker, **given)
    assert (found.own_offsets_login, found.own_producer) == (offsets, producer)


@pytest.mark.parametrize(
    ("worker", "given", "group"),
    [
        ({}, {}, "connect-c"),
        ({"consumer.group.id": "w"}, {}, "w"),
        ({"consumer.group.id": "w"}, {"consumer_override_group_id": "o"}, "o"),
    ],
)
def test_the_group_of_a_sink(worker: dict[str, str], given: dict[str, str], group: str) -> None:
    assert clients("sink", {**TASKS_ONLY, **worker}, **given).group == group


def test_an_own_topic_is_created_as_the_workers() -> None:
    given = {
        "offset.storage.partitions": "3",
        "offset.storage.replication.factor": "-1",
        "offset.storage.topic": "offsets",
        "offset.storage.cleanup.policy": "delete",
        "offset.storage.min.insync.replicas": "2",
    }
    found = clients(worker={**TASKS_ONLY, **given}).new_offsets_topic
    assert found == TopicSettings(3, -1, {"min.insync.replicas": "2"})
    assert clients(worker=TASKS_ONLY).new_offsets_topic == TopicSettings(25, 3, {})


# --- policies ---

PACKAGE = "org.apache.kafka.connect.connector.policy."
TEXT = "The '{}' policy does not allow '{}' to be overridden in the connector configuration."


@pytest.mark.parametrize(("given", "policy"), TABLE["policies"])
def test_the_policy_of_a_worker(given: dict[str, str], policy: str) -> None:
    assert policy_of(given) == policy


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be one of All, None, Principal, Allowlist"):
        policy_of({"connector.client.config.override.policy": "Some"})


@pytest.mark.parametrize(("policy", "kind", "key", "allowed"), TABLE["overrides"])
def test_overrides_that_a_policy_allows(policy: str, kind: Kind, key: str, allowed: bool) -> None:
    worker = {
        **TASKS_ONLY,
        "connector.client.config.override.policy": policy,
        "connector.client.config.override.allowlist": "linger.ms, acks",
    }
    text = TEXT.format(policy, key.split(".override.")[1])
    found = list(forbidden_overrides({key: "x", "other": "y"}, worker, kind))
    assert found == ([] if allowed else [(key, text)])
    check = ConnectorClients("g", "o", worker, "c", {key: "x"}, kind).check
    if allowed:
        check()
    else:
        with pytest.raises(ConfigError, match="Client Config Overrides not allowed"):
            check()


def test_hosts_and_ports() -> None:
    given = ["a.b:9092", "[::1]:1", "SASL_SSL://c:65535", ""]
    assert check_addresses(BOOTSTRAP, given) == [("a.b", 9092), ("::1", 1), ("c", 65535)]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "No resolvable bootstrap urls given in bootstrap.servers"),
        ([""], "No resolvable bootstrap urls given in bootstrap.servers"),
        (["127.0.0.1"], "Invalid url in bootstrap.servers: 127.0.0.1"),
        (["a:1", "b:"], "Invalid url in bootstrap.servers: b:"),
        (["a:65536"], "Invalid port in bootstrap.servers: a:65536"),
        (["a:1234567890"], "Invalid port in bootstrap.servers: a:1234567890"),
    ],
)
def test_an_invalid_address_is_refused(given: list[str], text: str) -> None:
    for check in (check_addresses, check_known):
        with pytest.raises(ConfigError) as refused:
            check(BOOTSTRAP, given)
        assert str(refused.value) == text


def test_one_host_must_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int) -> list[object]:
        if host != "known":
            raise socket.gaierror("unknown")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    check_known(BOOTSTRAP, ["unknown:1", "known:2"])
    with pytest.raises(ConfigError, match="No resolvable bootstrap urls given"):
        check_known(BOOTSTRAP, ["unknown:1", "other:2"])
