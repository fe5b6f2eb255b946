"""Validation of transformations and predicates: keys, groups, orders, and Connect's texts.

What Apache's worker answers is compared in tests/oracle/test_plugin_exchanges.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    Predicate,
    Transformation,
)
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.infos import ConfigInfo, ConfigInfos
from connect_runtime.validation.validate import validate

SINK = {"name": "n", "connector.class": "FileStreamSink", "topics": "t"}


class Doubled:
    """Recommends twice what another option says."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return [name, "", parsed["size"] * 2]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return bool(parsed["size"] > 1)


def _odd(name: str, value: Any) -> None:
    if value is not None and value % 2 == 0:
        raise ConfigError.invalid(name, value, "Odd numbers only")


class Own(Transformation):
    """A user's transformation, with each kind of option."""

    def version(self) -> str:
        return "2.0"

    def config(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("size", ConfigType.INT, 1, validator=Described(_odd, "odd"), group="Sizes")
            .define("zeta", ConfigType.STRING, "", importance=Importance.HIGH)
            .define("alpha", ConfigType.STRING, "", importance=Importance.LOW)
            .define("must", ConfigType.STRING, importance=Importance.LOW)
            .define("twice", ConfigType.INT, 2, recommender=Doubled(), dependents=["size"])
            .define("negate", ConfigType.INT, 7)
            .define("type", ConfigType.INT, 7)
        )

    def configure(self, options: Mapping[str, str]) -> None:
        raise AssertionError("nothing is configured by validation")

    def apply(self, record: Any) -> Any:
        return record


class Never(Predicate):
    """A user's predicate."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str]) -> None:
        raise AssertionError("nothing is configured by validation")

    def test(self, record: Any) -> bool:
        return False


@pytest.fixture(scope="module", autouse=True)
def module_of_a_user() -> Iterator[None]:
    name = "chains_of_a_user"
    sys.modules[name] = SimpleNamespace(Own=Own, Never=Never)  # type: ignore[assignment]
    allow_modules({PLUGIN_MODULES: name})
    yield
    del sys.modules[name]


@pytest.fixture(scope="module")
def worker() -> WorkerConfig:
    given = {
        "bootstrap.servers": "localhost:9092",
        "group.id": "g",
        "key.converter": "Json",
        "value.converter": "Json",
    }
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    return from_properties({**given, **topics})[0]


def infos_of(worker: WorkerConfig, **config: str) -> ConfigInfos:
    """Validates a sink with these keys; `__` stands for a dot."""
    return validate({**SINK, **{k.replace("__", "."): v for k, v in config.items()}}, worker)


def of_prefix(infos: ConfigInfos, prefix: str) -> dict[str, ConfigInfo]:
    return {
        info.key.name.removeprefix(prefix): info
        for info in infos.configs
        if info.key is not None and info.key.name.startswith(prefix)
    }


def errors(infos: ConfigInfos) -> dict[str, list[str]]:
    values = [info.value for info in infos.configs if info.value is not None]
    return {value.name: list(value.errors) for value in values if value.errors}


def test_options_come_after_the_class_required_ones_first(worker: WorkerConfig) -> None:
    infos = infos_of(
        worker,
        transforms="a",
        transforms__a__type="chains_of_a_user:Own",
        transforms__a__must="x",
        transforms__a__size="5",
    )
    found = of_prefix(infos, "transforms.a.")
    assert list(found) == [
        "type",
        "plugin.version",
        "must",
        "zeta",
        "negate",
        "predicate",
        "twice",
        "alpha",
        "size",
    ]
    keys = [info.key for info in found.values() if info.key is not None]
    assert [key.order for key in keys] == list(range(9))
    assert {key.group for key in keys[:-1]} == {"Transforms: a"}
    assert keys[-1].group == "Transforms: a: Sizes"
    assert infos.groups[-2:] == ("Transforms: a", "Transforms: a: Sizes")
    assert infos.error_count == 0


def test_an_option_named_like_connects_is_hidden(worker: WorkerConfig) -> None:
    infos = infos_of(
        worker,
        transforms="a",
        transforms__a__type="chains_of_a_user:Own",
        transforms__a__must="x",
        transforms__a__negate="true",
        transforms__a__predicate="p",
        predicates="p",
        predicates__p__type="chains_of_a_user:Never",
    )
    assert errors(infos) == {}
    negate = of_prefix(infos, "transforms.a.")["negate"]
    assert (negate.key and negate.key.type, negate.value and negate.value.value) == (
        ConfigType.BOOLEAN,
        "true",
    )


def test_options_know_their_own_names_only(worker: WorkerConfig) -> None:
    infos = infos_of(
        worker,
        transforms="a",
        transforms__a__type="chains_of_a_user:Own",
        transforms__a__must="x",
        transforms__a__size="4",
    )
    assert errors(infos) == {
        "transforms.a.size": ["Invalid value 4 for configuration size: Odd numbers only"]
    }
    twice = of_prefix(infos, "transforms.a.")["twice"]
    assert twice.value is not None
    assert twice.value.recommended == ("twice", "", "8")
    assert twice.value.visible
    assert twice.key is not None
    assert twice.key.dependents == ("transforms.a.size",)


@pytest.mark.parametrize(("asked", "shown"), (("[3,)", "[3,)"), (" latest ", "[latest,latest]")))
def test_a_version_that_is_not_installed(worker: WorkerConfig, asked: str, shown: str) -> None:
    infos = infos_of(
        worker,
        transforms="a",
        transforms__a__type="chains_of_a_user:Own",
        transforms__a__plugin__version=asked,
    )
    text = f"Own not found that matches the version range {shown}, available versions: [2.0]"
    assert list(errors(infos)) == ["transforms.a.type", "transforms.a.plugin.version"]
    assert all(found[0].endswith(text) for found in errors(infos).values())


@pytest.mark.parametrize(
    ("regex", "construct"),
    (
        (r"(?U)a", "The flag U is not supported here near index 2"),
        (r"\Ga", r"\G is not supported here near index 1"),
        (r"\X", r"\X is not supported here near index 1"),
        (r"\p{IsGreek}", "The character property {IsGreek} is not supported here"),
        (r"(?<=a+)b", "look-behind"),
    ),
)
def test_java_expressions_without_a_translation_are_refused_by_name(
    worker: WorkerConfig, regex: str, construct: str
) -> None:
    configs: tuple[tuple[str, dict[str, str]], ...] = (
        ("topics.regex", {"topics": "", "topics__regex": regex}),
        (
            "transforms.a.regex",
            {
                "transforms": "a",
                "transforms__a__type": "RegexRouter",
                "transforms__a__regex": regex,
                "transforms__a__replacement": "x",
            },
        ),
        (
            "predicates.p.pattern",
            {
                "predicates": "p",
                "predicates__p__type": "TopicNameMatches",
                "predicates__p__pattern": regex,
            },
        ),
    )
    for key, config in configs:
        found = errors(infos_of(worker, **config))
        assert list(found) == [key]
        assert construct.lower() in found[key][0].lower()
        assert f"Invalid value {regex} for configuration" in found[key][0]
