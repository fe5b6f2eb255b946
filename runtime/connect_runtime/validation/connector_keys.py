"""Defines the config keys of every source or sink connector, with Connect's order and groups.

connector_keys.txt has a line for each key (see `option_tables`). client_keys.txt has a line for
each property of Kafka's clients: the clients that have it (producer, consumer, admin), its name,
type, importance and default. Definitions only; `rules` has the rules across keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Described,
    Importance,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    OneOf,
    Recommender,
    Validator,
    ValidList,
    ValidRegex,
    Width,
    at_least,
)
from connect_runtime.java import regex as java_regex
from connect_runtime.option_tables import default_of, define, sections
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import CONVERTER_KINDS, PluginKind
from connect_runtime.settings.connector_clients import ADMIN, CONSUMER, PRODUCER
from connect_runtime.settings.connector_topics import (
    DEFAULT,
    PREFIX,
    group_names,
    uses_topic_creation,
)
from connect_runtime.validation.plugin_choice import choose

Config = Mapping[str, str | None]
# Classes by the keys of a config that name them
Converters = Mapping[str, str | None]

_NONE: Final[Mapping[str, str | None]] = {}

_TABLE: Final = Path(__file__).with_name("connector_keys.txt")
_CLIENT_TABLE: Final = Path(__file__).with_name("client_keys.txt")
_CLIENTS: Final = {PRODUCER: "p", CONSUMER: "c", ADMIN: "a"}
_REPLICATION: Final = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka "
    "cluster, or -1 to use the broker's default"
)
_PARTITIONS: Final = "Number of partitions must be positive, or -1 to use the broker's default"


@dataclass(frozen=True, slots=True)
class Recommended:
    """Recommends these values. With `condition`, only if that key has a value, and the key is
    invisible otherwise."""

    values: tuple[str, ...]
    condition: str = ""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.values if self.visible(name, parsed) else ()

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return not self.condition or parsed.get(self.condition) is not None


def versions(version: str | None, condition: str = "") -> Recommended:
    """Recommends the installed version of a plugin, if it has one; `condition` as above."""
    return Recommended(() if version in (None, "undefined") else (str(version),), condition)


def connector_definitions(
    kind: str | None, version: str, converters: Converters = _NONE, config: Config = _NONE
) -> ConfigDef:
    """Returns the keys of every source or sink connector, or those of both if `kind` is None;
    `version` is the plugin's. `converters` are the worker's, which are defaults. Versions of
    converters that `config` names have the installed ones as defaults."""
    computed: dict[str, str | None] = {
        "connector.plugin.version": None if version == "undefined" else version
    }
    recommenders: dict[str, Recommender] = {"connector.plugin.version": versions(version)}
    for key, plugin_kind in CONVERTER_KINDS.items():
        converter, name, version_key = converters.get(key), config.get(key), f"{key}.plugin.version"
        installed = _version(key, plugin_kind, converter if name is None else name)
        computed |= {key: converter, version_key: installed}
        recommenders[key] = Recommended(
            tuple(plugin.class_name for plugin in registry.plugins(plugin_kind))
        )
        recommenders[version_key] = versions(installed, condition=key)
    definitions = ConfigDef()
    for section in ("common",) if kind is None else ("common", kind):
        for row in sections(_TABLE)[section]:
            name = row["name"]
            define(
                definitions,
                row,
                default=computed[name] if name in computed else default_of(row),
                validator=_VALIDATORS.get(name),
                recommender=recommenders.get(name),
            )
    return definitions


def _version(key: str, kind: PluginKind, name: str | None) -> str | None:
    plugin = None if name is None else choose(kind, key, name).plugin
    return None if plugin is None or plugin.version == "undefined" else plugin.version


@cache
def client_keys(prefix: str) -> Mapping[str, ConfigKey]:
    """Returns the properties of the client that `prefix` overrides, by their names without it."""
    definitions = ConfigDef()
    for row in sections(_CLIENT_TABLE)["clients"]:
        if _CLIENTS[prefix] in row["clients"]:
            name = row["name"]
            client = prefix.partition(".")[0]
            doc = f"Kafka's {client} property {name}, as Kafka documents it"
            define(definitions, row, documentation=doc)
    return definitions.keys


def topic_creation_definitions(config: Config) -> ConfigDef:
    """Returns the keys `topic.creation.<group>.*` of a source (KIP-158): of the default group and
    each listed one; none if the config has no such keys."""
    definitions = ConfigDef()
    if uses_topic_creation(config):
        _define_group(definitions, DEFAULT, ".*", NO_DEFAULT, NO_DEFAULT)
        default = f"{PREFIX}{DEFAULT}."
        for name in group_names(config):
            replication = config.get(f"{default}replication.factor") or 1
            partitions = config.get(f"{default}partitions") or 1
            _define_group(definitions, name, "", replication, partitions)
    return definitions


def _define_group(
    definitions: ConfigDef, name: str, include: str, replication: Any, partitions: Any
) -> None:
    patterns, count, replicas = _PATTERNS, _positive(_PARTITIONS), _positive(_REPLICATION)
    rows: tuple[tuple[str, ConfigType, Any, str, Validator], ...] = (
        ("include", ConfigType.LIST, include, "Inclusion Topic Pattern for", patterns),
        ("exclude", ConfigType.LIST, "", "Exclusion Topic Pattern for", patterns),
        (
            "replication.factor",
            ConfigType.SHORT,
            replication,
            "Replication Factor for Topics in",
            replicas,
        ),
        ("partitions", ConfigType.INT, partitions, "Partition Count for Topics in", count),
    )
    for order, (key, type, default, display, validator) in enumerate(rows, 1):
        # an invalid default is reported at its own key
        is_invalid = (
            default is not NO_DEFAULT and type is not ConfigType.LIST and not _fits(default)
        )
        definitions.define(
            f"{PREFIX}{name}.{key}",
            type,
            1 if is_invalid else default,
            validator=validator,
            importance=Importance.LOW,
            doc=f"{display} {name}",
            group=name,
            order=order,
            width=Width.LONG,
            display_name=f"{display} {name}",
        )


def _fits(default: Any) -> bool:
    text = str(default).strip()
    return text == "-1" or (text.isdecimal() and 0 < int(text) < 1 << 15)


# validators


def _positive(text: str) -> Described:
    def check(name: str, value: Any) -> None:
        if value is not None and value != -1 and value < 1:
            raise ConfigError.invalid(name, value, text)

    return Described(check, text)


def _check_patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            java_regex.compile(pattern)
        except java_regex.InvalidPattern as error:
            text = f"Syntax error in regular expression: {error}"
            raise ConfigError.invalid(name, value, text) from error


def _check_not_negative(name: str, value: Any) -> None:
    if value is not None:
        at_least(0)(name, value)


def _unique_aliases(kind: str) -> Described:
    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, value, "entry must be non null")
        if len(set(value)) != len(value):
            raise ConfigError.invalid(name, value, "Duplicate alias provided.")

    return Described(check, f"non-null string, unique {kind} aliases")


_PATTERNS: Final = Described(_check_patterns, "list of regular expressions")
_VALIDATORS: Final[Mapping[str, Validator]] = {
    "name": NonEmptyStringWithoutControlChars(),
    "tasks.max": at_least(1),
    "transforms": _unique_aliases("transformation"),
    "predicates": _unique_aliases("predicate"),
    "config.action.reload": OneOf.strings("none", "restart"),
    "errors.tolerance": OneOf.strings("none", "all"),
    "topic.creation.groups": _unique_aliases("topic creation"),
    "exactly.once.support": OneOf.any_case("REQUIRED", "REQUESTED"),
    "transaction.boundary": OneOf.any_case("INTERVAL", "POLL", "CONNECTOR"),
    "transaction.boundary.interval.ms": Described(_check_not_negative, "[0,...]"),
    "offsets.storage.topic": NonEmptyString(),
    "topics": ValidList(),
    "topics.regex": ValidRegex(),
}
