"""Defines the keys `topic.creation.<group>.*` of a source as Connect does (KIP-158)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    java_regex,
)
from connect_runtime.settings.connector_topics import (
    DEFAULT,
    PREFIX,
    group_names,
    uses_topic_creation,
)
from connect_runtime.validation.keys import LONG, Keys

_REPLICATION = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka "
    "cluster, or -1 to use the broker's default"
)
_PARTITIONS = "Number of partitions must be positive, or -1 to use the broker's default"


def topic_creation_definitions(config: Mapping[str, str | None]) -> ConfigDef:
    """Returns the keys of the default group and each listed one; none if the config has no such
    keys."""
    keys = Keys()
    if uses_topic_creation(config):
        _define(keys, DEFAULT, ".*", NO_DEFAULT, NO_DEFAULT)
        default = f"{PREFIX}{DEFAULT}."
        for name in group_names(config):
            replication = config.get(f"{default}replication.factor") or 1
            _define(keys, name, "", replication, config.get(f"{default}partitions") or 1)
    return keys.definitions


def _define(keys: Keys, name: str, include: str, replication: Any, partitions: Any) -> None:
    regexes = Described(_patterns, "list of regular expressions")
    for key, type, default, display, validator in (
        ("include", ConfigType.LIST, include, "Inclusion Topic Pattern for", regexes),
        ("exclude", ConfigType.LIST, "", "Exclusion Topic Pattern for", regexes),
        (
            "replication.factor",
            ConfigType.SHORT,
            replication,
            "Replication Factor for Topics in",
            Described(_positive(_REPLICATION), _REPLICATION),
        ),
        (
            "partitions",
            ConfigType.INT,
            partitions,
            "Partition Count for Topics in",
            Described(_positive(_PARTITIONS), _PARTITIONS),
        ),
    ):
        # an invalid default is reported at its own key
        bad = default is not NO_DEFAULT and type is not ConfigType.LIST and not _fits(default)
        keys.add(
            f"{PREFIX}{name}.{key}",
            type,
            1 if bad else default,
            f"{display} {name}",
            group=name,
            display=f"{display} {name}",
            width=LONG,
            validator=validator,
        )


def _positive(text: str) -> Any:
    def check(name: str, value: Any) -> None:
        if value is not None and value != -1 and value < 1:
            raise ConfigError.invalid(name, value, text)

    return check


def _fits(default: Any) -> bool:
    text = str(default).strip()
    return text == "-1" or (text.isdecimal() and 0 < int(text) < 1 << 15)


def _patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            java_regex.compile(pattern)
        except java_regex.InvalidPattern as error:
            text = f"Syntax error in regular expression: {error}"
            raise ConfigError.invalid(name, value, text) from error
