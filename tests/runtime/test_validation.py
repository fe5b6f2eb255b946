"""Validation of configs, as far as support/exchanges.yaml does not compare it with Apache's."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    ExactlyOnceSupport,
    SourceConnector,
    SourceTask,
    TransactionBoundaries,
)
from connect_runtime.connectors.file_source import FileStreamSourceConnector
from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import Plugin
from connect_runtime.rest import plugin_resources
from connect_runtime.rest.exchange import Call
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation import rules
from connect_runtime.validation import validate as validate_module
from connect_runtime.validation.infos import ConfigInfos
from connect_runtime.validation.validate import check, validate

JSON = "org.apache.kafka.connect.json.JsonConverter"
SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}
SINK = {"name": "n", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}
DLQ = "errors.deadletterqueue"


@pytest.fixture(scope="module")
def worker() -> WorkerConfig:
    return from_properties(
        {
            "bootstrap.servers": "localhost:9092",
            "group.id": "connect-cluster",
            "config.storage.topic": "c",
            "offset.storage.topic": "o",
            "status.storage.topic": "s",
            "key.converter": JSON,
            "value.converter": JSON,
        }
    )[0]


def _errors(infos: ConfigInfos) -> dict[str, list[str]]:
    return {
        info.value.name: list(info.value.errors)
        for info in infos.configs
        if info.value is not None and info.value.errors
    }


@pytest.mark.parametrize(
    ("config", "errors"),
    [
        ({}, ["Consumer group for sink connector named cluster conflicts with Connect worker "
              "group connect-cluster"]),
        ({"consumer.override.group.id": "other"}, []),
    ],
)  # fmt: skip
def test_a_sink_whose_group_would_be_the_workers_is_refused(
    worker: WorkerConfig, config: dict[str, str], errors: list[str]
) -> None:
    infos = validate({**SINK, "name": "cluster", **config}, worker)
    assert list(infos.errors) == errors


def test_a_standalone_worker_has_no_group_that_sinks_could_share() -> None:
    given = {
        "key.converter": JSON,
        "value.converter": JSON,
        "bootstrap.servers": "localhost:9092",
        "offset.storage.file.filename": "/tmp/x",
    }
    worker, _ = from_properties(given, standalone=True)
    check({**SINK, "name": "standalone"}, worker)
    check({**SINK, "consumer.override.group.id": "connect-standalone"}, worker)


def test_a_regex_that_takes_years_is_given_up(
    worker: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: Python's matcher would hold up all threads of the runtime. This one takes 1 s."""
    monkeypatch.setattr(rules, "MATCH_LIMIT_S", 0.01)
    dlq = "a" * 32
    config = {**SINK, "topics": "", "topics.regex": "(a|aa)+b", f"{DLQ}.topic.name": dlq}
    assert _errors(validate(config, worker))["topics.regex"] == [
        f"Invalid regex: it takes more than 0.01 s to match the topic '{dlq}'"
    ]


def test_without_a_class_there_is_nothing_to_check(worker: WorkerConfig) -> None:
    with pytest.raises(RequestError) as raised:
        check({"name": "fs", "topic": "t1", "db.password": "hunter2"}, worker)
    text = "Connector config {name=fs, topic=t1, db.password=[hidden]} contains no connector type"
    assert (raised.value.status, raised.value.message) == (400, text)
    with pytest.raises(RequestError) as raised:
        check({"connector.class": "Bogus"}, worker)
    assert raised.value.message.startswith(
        "Failed to find any class that implements Connector and which name matches Bogus, "
        "available connectors are: PluginDesc{klass=class org.apache.kafka.connect.file."
    )


def test_keys_come_in_connects_order(worker: WorkerConfig) -> None:
    config = {
        **SINK,
        "x": None,
        "consumer.override.a": "1",
        "value.converter": JSON,
        "key.converter": JSON,
    }
    infos = validate(config, worker)
    names = [(info.key or info.value).name for info in infos.configs]  # type: ignore[union-attr]
    assert names[:3] == ["x", "name", "connector.class"]
    assert names.index("topics") < names.index("file") < names.index("consumer.override.a")
    assert names.index("consumer.override.a") < names.index("key.converter.converter.type")
    assert names.index("key.converter.schemas.enable") < names.index(
        "value.converter.schemas.enable"
    )
    of_options = ("Schemas", "Serialization")
    assert infos.groups == ("Common", "Transforms", "Predicates", "Error Handling", *of_options)


def test_what_a_plugin_raises_shows_no_secret(
    worker: WorkerConfig, preflight: type[Preflight], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Preflight, config: Mapping[str, str]) -> None:
        login = f"{config['api.token']} and {config['pin']}"
        raise ValueError(f"cannot log in with {login} to {config['url']}")

    monkeypatch.setattr(preflight, "validate", refuse)
    config = {"connector.class": "p.Mine", "name": "a", "api.token": "hunter2", "url": "db:1"}
    config["pin"] = "170845"
    with pytest.raises(RequestError) as raised:
        check(config, worker)
    assert raised.value.message == "cannot log in with [hidden] and [hidden] to db:1"


@pytest.mark.parametrize("key", ["consumer.override.max.poll.records", "admin.override.retries"])
def test_a_client_override_of_the_wrong_type_is_an_error_of_its_key(
    worker: WorkerConfig, key: str
) -> None:
    """Connect answers 500, with this text."""
    infos = validate({**SINK, "errors.deadletterqueue.topic.name": "dead", key: " x "}, worker)
    name = key.partition(".override.")[2]
    assert infos.error_count == 1
    assert infos.errors == (
        f"Invalid value  x  for configuration {name}: Not a number of type INT",
    )


def test_secrets_of_client_overrides_are_not_echoed(worker: WorkerConfig) -> None:
    secrets = (
        "producer.override.sasl.jaas.config",
        "consumer.override.ssl.key.password",
        "admin.override.ssl.keystore.key",
        "consumer.override.ssl.truststore.certificates",
        "producer.override.sasl.oauthbearer.client.credentials.client.secret",
    )
    # without it, a sink has no producer and no admin client of its own
    with_dead_letters = {**SINK, "errors.deadletterqueue.topic.name": "dead"}
    config = {
        **with_dead_letters,
        **dict.fromkeys(secrets, "s3cret"),
        "consumer.override.client.id": "me",
    }
    infos = validate(config, worker)
    shown = {info.value.name: info.value.value for info in infos.configs if info.value}
    assert {name: shown[name] for name in secrets} == dict.fromkeys(secrets, "[hidden]")
    assert shown["consumer.override.client.id"] == "me"
    assert "s3cret" not in str(infos)


class Preflight(SourceConnector):
    """Answers what a test tells it to; raises what is an exception."""

    support: Any = None
    boundaries: Any = TransactionBoundaries.UNSUPPORTED

    def config(self) -> ConfigDef:
        keys = ConfigDef().define("secret", ConfigType.PASSWORD, "x")
        return keys.define("pin", ConfigType.PASSWORD, "x")

    def task_class(self) -> type[SourceTask]:
        return SourceTask

    def start(self, props: Mapping[str, str]) -> None:
        raise AssertionError("validation starts nothing")

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return []

    def stop(self) -> None:
        pass

    def exactly_once_support(self, config: Mapping[str, str]) -> Any:
        if isinstance(self.support, Exception):
            raise self.support
        return self.support

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> Any:
        if isinstance(self.boundaries, Exception):
            raise self.boundaries
        return self.boundaries


@pytest.fixture
def preflight(monkeypatch: pytest.MonkeyPatch) -> type[Preflight]:
    class Mine(Preflight):
        pass

    def connector(name: str) -> Plugin:
        return Plugin(Mine, "p.Mine", "source", "1.0")

    monkeypatch.setattr(registry, "connector", connector)
    return Mine


UNEXPECTED = "An unexpected error occurred during validation"


@pytest.mark.parametrize(
    ("support", "begins"),
    [
        (ExactlyOnceSupport.SUPPORTED, None),
        (ExactlyOnceSupport.UNSUPPORTED, "The connector does not support exactly-once semantics"),
        (None, "The connector does not implement the API required for preflight validation"),
        (ConnectorError("why"), f"{UNEXPECTED}: why"),
        (ConnectorError(), f"{UNEXPECTED}; please see the worker logs for more details."),
    ],
)
def test_required_exactly_once_is_checked_before(
    worker: WorkerConfig, preflight: type[Preflight], support: Any, begins: str | None
) -> None:
    preflight.support = support
    config = {"name": "n", "connector.class": "M", "exactly.once.support": "Required"}
    errors = _errors(validate(config, worker))
    if begins is None:
        assert errors == {}
    else:
        assert errors["exactly.once.support"][0].startswith(begins)
    assert _errors(validate({**config, "exactly.once.support": "requested"}, worker)) == {}


def test_required_exactly_once_needs_a_worker_that_has_it(
    worker: WorkerConfig, preflight: type[Preflight]
) -> None:
    preflight.support = ExactlyOnceSupport.SUPPORTED
    disabled = {**worker.properties, "exactly.once.source.support": "disabled"}
    config = {"name": "n", "connector.class": "M", "exactly.once.support": "required"}
    errors = _errors(validate(config, replace(worker, properties=disabled)))
    assert errors["exactly.once.support"] == [
        "This worker does not have exactly-once source support enabled."
    ]


@pytest.mark.parametrize(
    ("boundaries", "begins"),
    [
        (TransactionBoundaries.SUPPORTED, None),
        (TransactionBoundaries.UNSUPPORTED, "The connector does not support connector-defined"),
        (None, "This connector has returned a null value from its canDefineTransactionBoundaries"),
        (ValueError("why"), f"{UNEXPECTED}: why"),
    ],
)
def test_own_boundaries_are_checked_before(
    worker: WorkerConfig, preflight: type[Preflight], boundaries: Any, begins: str | None
) -> None:
    preflight.boundaries = boundaries
    config = {"name": "n", "connector.class": "M", "transaction.boundary": "connector"}
    errors = _errors(validate(config, worker))
    if begins is None:
        assert errors == {}
    else:
        assert errors["transaction.boundary"][0].startswith(begins)


def test_a_password_is_never_shown(worker: WorkerConfig, preflight: type[Preflight]) -> None:
    config = {"name": "n", "connector.class": "M", "secret": "hunter2"}
    infos = validate(config, worker)
    assert "hunter2" not in repr(infos)
    shown = {info.value.name: info.value.value for info in infos.configs if info.value}
    assert shown["secret"] == "[hidden]"


def test_a_plugin_that_exits_ends_no_process(
    worker: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(self: object, config: object) -> None:
        raise SystemExit("the password is hunter2")

    monkeypatch.setattr(FileStreamSourceConnector, "validate", leave)
    with pytest.raises(RequestError) as refused:
        check(SOURCE, worker)
    assert refused.value.message == "The validation of FileStreamSource raised SystemExit"


def test_a_plugin_that_hangs_is_not_waited_for(
    worker: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hang(self: object) -> ConfigDef:
        over.wait(20)
        return ConfigDef()

    for module in (validate_module, plugin_resources):
        monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(FileStreamSourceConnector, "config", hang)
    keys = PluginResources(worker).definitions
    try:
        for asked in (
            lambda: validate(SOURCE, worker),
            lambda: keys(Call({"plugin": "FileStreamSource"})),
        ):
            with pytest.raises(RequestError, match="has not returned in") as refused:
                asked()
            assert refused.value.status == 500
    finally:
        over.set()
