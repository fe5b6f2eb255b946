"""The config keys that every source or sink connector has, with Connect's names, order and groups.

Definitions only; what one key says about another is in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime import plugins
from connect_runtime.api import (
    NO_DEFAULT,
    AllOf,
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    OneOf,
    Validator,
    ValidRegex,
    Width,
    at_least,
)
from connect_runtime.connectors.built_in import VERSION

COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"
TOPIC_CREATION: Final = "Topic Creation"
EXACTLY_ONCE: Final = "Exactly Once Support"
OFFSETS_TOPIC: Final = "offsets.topic"
SIMPLE_HEADER_CONVERTER: Final = frozenset(
    ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "SimpleHeaderConverter", "Simple")
)
CONVERTER_KEYS: Final = ("key.converter", "value.converter", "header.converter")

_SIDES: Final = {"key": "Key", "value": "Value", "header": "Header"}
_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH
_SHORT, _WIDE, _LONG = Width.SHORT, Width.MEDIUM, Width.LONG


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What a connector's keys default to that the worker sets."""

    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str | None = None


@dataclass(frozen=True, slots=True)
class _Recommended:
    """Recommends these values, None: the converters that are installed."""

    values: tuple[str, ...] | None = None

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        if self.values is not None:
            return self.values
        return [plugin.class_name for plugin in plugins.converters()]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


def _aliases(kind: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None and len(set(value)) != len(value):
            raise ConfigError.invalid(name, value, "Duplicate alias provided.")

    return Described(check, f"non-null string, unique {kind} aliases")


class _Keys:
    """Defines keys in groups, shortly."""

    def __init__(self) -> None:
        self.definitions = ConfigDef()
        self._orders: dict[str, int] = {}

    def add(
        self,
        name: str,
        type: ConfigType,
        default: Any,
        doc: str,
        *,
        group: str,
        display: str,
        importance: Importance = _LOW,
        width: Width = _SHORT,
        order: int | None = None,
        validator: Validator | None = None,
        recommender: _Recommended | None = None,
    ) -> None:
        """`order` None: the next one of the group."""
        found = self._orders.get(group, 0) + 1 if order is None else order
        self._orders[group] = max(found, self._orders.get(group, 0))
        self.definitions.define(
            name,
            type,
            default,
            validator=validator,
            importance=importance,
            doc=doc,
            group=group,
            order=found,
            width=width,
            display_name=display,
            recommender=recommender,
        )


def source_definitions(version: str, defaults: WorkerDefaults) -> ConfigDef:
    """The keys of every source connector; `version` is the plugin's."""
    keys = _common(version, defaults)
    keys.add(
        "topic.creation.groups",
        ConfigType.LIST,
        "",
        "Groups of settings for topics that are created by source connectors",
        group=TOPIC_CREATION,
        display="Topic Creation Groups",
        width=_LONG,
        validator=_aliases("topic creation"),
    )
    _exactly_once(keys)
    keys.add(
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        "A topic of its own for this connector's source offsets",
        group=OFFSETS_TOPIC,
        display="Offsets topic",
        width=_LONG,
        order=1,
        validator=NonEmptyString(),
    )
    return keys.definitions


def sink_definitions(version: str, defaults: WorkerDefaults) -> ConfigDef:
    """The keys of every sink connector; `version` is the plugin's."""
    keys = _common(version, defaults)
    for name, type, display, doc, validator in (
        ("topics", ConfigType.LIST, "Topics", "Topics to consume, separated by commas", None),
        (
            "topics.regex",
            ConfigType.STRING,
            "Topics regex",
            "A regular expression for the topics to consume",
            ValidRegex(),
        ),
    ):
        keys.add(
            name,
            type,
            "",
            doc,
            group=COMMON,
            display=display,
            importance=_HIGH,
            width=_LONG,
            order=4,
            validator=validator,
        )
    _dead_letters(keys)
    return keys.definitions


def _common(version: str, defaults: WorkerDefaults) -> _Keys:
    keys = _Keys()
    keys.add(
        "name",
        ConfigType.STRING,
        NO_DEFAULT,
        "Globally unique name to use for this connector.",
        group=COMMON,
        display="Connector name",
        importance=_HIGH,
        width=_WIDE,
        validator=NonEmptyStringWithoutControlChars(),
    )
    keys.add(
        "connector.class",
        ConfigType.STRING,
        NO_DEFAULT,
        "Name, simple name or alias of the connector's class",
        group=COMMON,
        display="Connector class",
        importance=_HIGH,
        width=_LONG,
    )
    keys.add(
        "connector.plugin.version",
        ConfigType.STRING,
        None if version == "undefined" else version,
        "Version of the connector",
        group=COMMON,
        display="Connector version",
        importance=_MEDIUM,
        width=_WIDE,
        recommender=_versions(version),
    )
    keys.add(
        "tasks.max",
        ConfigType.INT,
        1,
        "Maximum number of tasks to use for this connector.",
        group=COMMON,
        display="Tasks max",
        importance=_HIGH,
        validator=at_least(1),
    )
    keys.add(
        "tasks.max.enforce",
        ConfigType.BOOLEAN,
        True,
        "Whether a connector that makes more tasks than tasks.max fails",
        group=COMMON,
        display="Enforce tasks max",
    )
    _converters(keys, defaults)
    _chains(keys)
    _errors(keys)
    return keys


def _converters(keys: _Keys, defaults: WorkerDefaults) -> None:
    classes = (defaults.key_converter, defaults.value_converter, defaults.header_converter)
    for (side, title), default in zip(_SIDES.items(), classes, strict=True):
        keys.add(
            f"{side}.converter",
            ConfigType.CLASS,
            default,
            f"Class that converts {side}s; the worker's if it is not set",
            group=COMMON,
            display=f"{title} converter class",
            recommender=_Recommended(),
        )
        version = _converter_version(f"{side}.converter", default)
        keys.add(
            f"{side}.converter.plugin.version",
            ConfigType.STRING,
            version,
            f"Version of the {side} converter",
            group=COMMON,
            display=f"{title} converter version",
            recommender=_versions(version),
        )


def alias_definitions(transforms: Sequence[str], predicates: Sequence[str]) -> ConfigDef:
    """The keys of each transformation and predicate, by alias."""
    keys = _Keys()
    for kind, title, aliases in (
        ("transforms", "Transformation", transforms),
        ("predicates", "Predicate", predicates),
    ):
        for alias in aliases:
            group = f"{kind.capitalize()}: {alias}"
            keys.add(
                f"{kind}.{alias}.type",
                ConfigType.CLASS,
                NO_DEFAULT,
                f"Class of the {title.lower()} '{alias}'",
                group=group,
                display=f"{title} type for {alias}",
                importance=_HIGH,
                width=_LONG,
            )
            if kind == "transforms":
                _conditions(keys, alias, group)
    return keys.definitions


def _conditions(keys: _Keys, alias: str, group: str) -> None:
    prefix = f"transforms.{alias}."
    keys.add(
        f"{prefix}predicate",
        ConfigType.STRING,
        "",
        "Alias of the predicate that decides which records are transformed",
        group=group,
        display="Predicate",
        importance=_MEDIUM,
        width=_LONG,
    )
    keys.add(
        f"{prefix}negate",
        ConfigType.BOOLEAN,
        False,
        "Whether to transform the records for which the predicate does not hold",
        group=group,
        display="Negate",
        importance=_MEDIUM,
        width=_SHORT,
    )


def _converter_version(key: str, name: str | None) -> str | None:
    if name is None:
        return None
    if name in SIMPLE_HEADER_CONVERTER:
        return VERSION
    try:
        return plugins.converter(key, name).version
    except ConfigError:
        return None


def _versions(version: str | None) -> _Recommended:
    return _Recommended(() if version in (None, "undefined") else (str(version),))


def _chains(keys: _Keys) -> None:
    for name, group, order, kind in (
        ("transforms", TRANSFORMS, 12, "transformation"),
        ("predicates", PREDICATES, 13, "predicate"),
    ):
        keys.add(
            name,
            ConfigType.LIST,
            "",
            f"Aliases of the {name}, in order",
            group=group,
            display=group,
            width=_LONG,
            order=order,
            validator=_aliases(kind),
        )
    keys.add(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        "What to do when a value that a config provider gave has expired",
        group=COMMON,
        display="Reload Action",
        width=_WIDE,
        order=14,
        validator=OneOf.strings("none", "restart"),
    )


def _errors(keys: _Keys) -> None:
    for name, type, default, display, width, validator, doc in (
        (
            "errors.retry.timeout",
            ConfigType.LONG,
            0,
            "Retry Timeout for Errors",
            _WIDE,
            None,
            "How long, in milliseconds, a failed operation is tried again; -1 for ever",
        ),
        (
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            60_000,
            "Maximum Delay Between Retries for Errors",
            _WIDE,
            None,
            "The longest delay between two tries, in milliseconds",
        ),
        (
            "errors.tolerance",
            ConfigType.STRING,
            "none",
            "Error Tolerance",
            _SHORT,
            OneOf.strings("none", "all"),
            "none: any error fails the task; all: problematic records are skipped",
        ),
        (
            "errors.log.enable",
            ConfigType.BOOLEAN,
            False,
            "Log Errors",
            _SHORT,
            None,
            "Whether each error is logged",
        ),
        (
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            False,
            "Log Error Details",
            _SHORT,
            None,
            "Whether the log shows the record",
        ),
    ):
        keys.add(
            name,
            type,
            default,
            doc,
            group=ERRORS,
            display=display,
            importance=_MEDIUM,
            width=width,
            validator=validator,
        )


def _exactly_once(keys: _Keys) -> None:
    keys.add(
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        "required: refuse a connector that cannot deliver exactly once",
        group=EXACTLY_ONCE,
        display="Exactly once support",
        importance=_MEDIUM,
        order=2,
        validator=OneOf.any_case("REQUIRED", "REQUESTED"),
    )
    keys.add(
        "transaction.boundary",
        ConfigType.STRING,
        "poll",
        "poll, interval or connector: when a transaction ends",
        group=EXACTLY_ONCE,
        display="Transaction Boundary",
        importance=_MEDIUM,
        validator=OneOf.any_case("INTERVAL", "POLL", "CONNECTOR"),
    )
    keys.add(
        "transaction.boundary.interval.ms",
        ConfigType.LONG,
        None,
        "How long a transaction lasts with transaction.boundary=interval",
        group=EXACTLY_ONCE,
        display="Transaction boundary interval",
        validator=Described(_not_negative, "[0,...]"),
    )


def _not_negative(name: str, value: Any) -> None:
    if value is not None:
        AllOf.of(at_least(0))(name, value)


def _dead_letters(keys: _Keys) -> None:
    prefix = "errors.deadletterqueue"
    for name, type, default, display, width, doc in (
        (
            f"{prefix}.topic.name",
            ConfigType.STRING,
            "",
            "Dead Letter Queue Topic Name",
            _WIDE,
            "The topic for records that caused an error; empty for none",
        ),
        (
            f"{prefix}.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "Dead Letter Queue Topic Replication Factor",
            _WIDE,
            "Replication factor of that topic when it is created",
        ),
        (
            f"{prefix}.context.headers.enable",
            ConfigType.BOOLEAN,
            False,
            "Enable Error Context Headers",
            _WIDE,
            "Whether headers tell of the error",
        ),
    ):
        keys.add(
            name, type, default, doc, group=ERRORS, display=display, importance=_MEDIUM, width=width
        )
