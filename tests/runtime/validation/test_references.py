"""A config with references is validated as what it resolves to, and shown as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    ConfigValue,
    SourceConnector,
    SourceTask,
    at_least,
)
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import Plugin
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.infos import ConfigInfos, ValueInfo
from connect_runtime.validation.validate import check, validate

STRING = "org.apache.kafka.connect.storage.StringConverter"
CLASS = f"{__name__}.CheckedSource"


class CheckedSource(SourceConnector):
    """Says what it was asked to validate."""

    asked: ClassVar[list[Mapping[str, str | None]]] = []
    throws: ClassVar[bool] = False

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        keys = ConfigDef()
        keys.define("port", ConfigType.INT)
        keys.define("user", ConfigType.STRING)
        keys.define("pass.word", ConfigType.PASSWORD)
        return keys

    def validate(self, configs: Mapping[str, str | None]) -> list[ConfigValue]:
        self.asked.append(dict(configs))
        if self.throws:
            raise ValueError(f"no login with {configs['pass.word']}")
        found = super().validate(configs)
        for value in found:
            if value.name == "user":
                value.errors.append(f"{configs['user']} may not log in with {configs['pass.word']}")
                value.recommended_values = ["me", configs["user"]]
        return found

    def start(self, props: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SourceTask]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return []

    def stop(self) -> None: ...


CONFIG = {
    "name": "n",
    "connector.class": CLASS,
    "port": "${env:CONNECT_TEST_PORT}",
    "user": "${env:CONNECT_TEST_USER}",
    "pass.word": "x-${env:CONNECT_TEST_PASSWORD}",
    "unknown": "${env:CONNECT_TEST_PASSWORD}",
    "producer.override.sasl.jaas.config": "${env:CONNECT_TEST_PASSWORD}",
}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> WorkerConfig:
    for name, value in (("PORT", "5432"), ("USER", "someone"), ("PASSWORD", "s3cret")):
        monkeypatch.setenv(f"CONNECT_TEST_{name}", value)
    plugin = Plugin(CheckedSource, CLASS, "source", "1")
    monkeypatch.setattr(registry, "connector", lambda name: plugin)
    monkeypatch.setattr(CheckedSource, "asked", [])
    monkeypatch.setattr(CheckedSource, "throws", False)
    return from_properties(
        {
            "bootstrap.servers": "localhost:9092",
            "group.id": "g",
            "config.storage.topic": "c",
            "offset.storage.topic": "o",
            "status.storage.topic": "s",
            "key.converter": STRING,
            "value.converter": STRING,
            "config.providers": "env",
            "config.providers.env.class": "EnvVarConfigProvider",
        }
    )[0]


@pytest.fixture
def providers(worker: WorkerConfig) -> ConfigProviders:
    return ConfigProviders(worker.properties)


def _values(infos: ConfigInfos) -> dict[str, ValueInfo]:
    return {info.value.name: info.value for info in infos.configs if info.value is not None}


def _errors(infos: ConfigInfos) -> dict[str, tuple[str, ...]]:
    return {name: value.errors for name, value in _values(infos).items() if value.errors}


@pytest.mark.parametrize("is_known", [False, True])
def test_errors_of_a_converters_option_count_once_and_none_of_what_is_unknown(
    worker: WorkerConfig,
    providers: ConfigProviders,
    monkeypatch: pytest.MonkeyPatch,
    is_known: bool,
) -> None:
    options = ConfigDef().define("size", ConfigType.INT, 1, validator=at_least(1))
    monkeypatch.setattr(StringConverter, "config", lambda self: options)
    config = {
        "name": "n",
        "connector.class": CLASS,
        "port": "1",
        "user": "",
        "pass.word": "",
        "key.converter": STRING,
        "key.converter.size": "${env:CONNECT_TEST_USER}",
    }
    infos = validate(config, worker, providers if is_known else None)
    errors = _errors(infos)
    errors.pop("user", None)
    assert [len(each) for each in errors.values()] == [2] * is_known
    # with the error of `user`, for which a connector is asked if all is known
    assert infos.error_count == 2 * is_known


def test_resolved_values_are_validated_and_never_shown(
    worker: WorkerConfig, providers: ConfigProviders
) -> None:
    infos = validate(CONFIG, worker, providers)
    (asked,) = CheckedSource.asked
    assert (asked["port"], asked["pass.word"]) == ("5432", "x-s3cret")
    assert _errors(infos) == {"user": ("[hidden] may not log in with [hidden]",)}
    assert infos.error_count == 1
    values = _values(infos)
    shown = {key: values[key].value for key in ("port", "user", "pass.word")}
    assert shown == {
        "port": CONFIG["port"],
        "user": CONFIG["user"],
        "pass.word": "[hidden]",
    }
    assert values["user"].recommended == ("me", "[hidden]")
    assert infos.name == CLASS
    text = repr(infos)
    assert "s3cret" not in text
    assert "someone" not in text
    with pytest.raises(RequestError) as raised:
        check(CONFIG, worker, providers)
    assert "[hidden] may not log in" in raised.value.message


def test_a_value_of_the_wrong_type(
    worker: WorkerConfig, providers: ConfigProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_TEST_PORT", "not-a-port")
    errors = _errors(validate(CONFIG, worker, providers))
    assert errors["port"] == (
        "Invalid value [hidden] for configuration port: Not a number of type INT",
    )


def test_what_a_connector_throws_holds_no_value(
    worker: WorkerConfig, providers: ConfigProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckedSource, "throws", True)
    with pytest.raises(RequestError) as raised:
        validate(CONFIG, worker, providers)
    assert raised.value.message == "no login with [hidden]"
    assert raised.value.__cause__ is None


def test_a_reference_without_a_value_is_its_keys_only_error(
    worker: WorkerConfig, providers: ConfigProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONNECT_TEST_PORT")
    monkeypatch.delenv("CONNECT_TEST_PASSWORD")
    infos = validate(CONFIG, worker, providers)
    errors = _errors(infos)
    assert set(errors) == {"port", "pass.word", "unknown", "producer.override.sasl.jaas.config"}
    assert errors["port"] == (
        "The reference ${env:CONNECT_TEST_PORT} in port cannot be resolved: the config provider "
        "env has no CONNECT_TEST_PORT.",
    )
    assert infos.error_count == 4
    # a connector may log in where it validates: not with the text of a reference
    assert CheckedSource.asked == []


def test_where_the_connector_does_not_run_references_are_not_checked(worker: WorkerConfig) -> None:
    infos = validate({**CONFIG, "tasks.max": "many"}, worker)
    errors = _errors(infos)
    assert set(errors) == {"tasks.max"}
    assert infos.error_count == len(errors["tasks.max"])
    assert CheckedSource.asked == []
    check(CONFIG, worker)


def test_references_to_providers_that_the_worker_lacks_are_plain_text(
    worker: WorkerConfig, providers: ConfigProviders
) -> None:
    config: dict[str, Any] = {**CONFIG, "port": "${vault:db:port}"}
    errors = _errors(validate(config, worker, providers))
    assert errors["port"] == (
        "Invalid value ${vault:db:port} for configuration port: Not a number of type INT",
    )


def test_client_overrides_are_checked_with_the_values_that_are_known(
    worker: WorkerConfig, providers: ConfigProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_TEST_BATCH", "17000")
    properties = dict(worker.properties) | {"producer.batch.size": "${env:CONNECT_TEST_BATCH}"}
    ours = from_properties(properties)[0]
    config = {
        **{key: CONFIG[key] for key in ("name", "connector.class", "port")},
        "user": "me",
        "pass.word": "1234",
        "producer.override.linger.ms": "${env:CONNECT_TEST_PORT}",
        "producer.override.compression.type": "gzip",
    }
    overrides = {key for key in config if key.startswith("producer.override.")}
    for given in (providers, None):
        errors = _errors(validate(config, ours, given))
        assert not overrides & errors.keys()
