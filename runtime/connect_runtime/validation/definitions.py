"""Defines the config keys of every source or sink connector, with Connect's order and groups.

Definitions only; `rules` has the rules across keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Described,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    OneOf,
    ValidList,
    ValidRegex,
    at_least,
)
from connect_runtime.validation.keys import (
    COMMON,
    ERRORS,
    EXACTLY_ONCE,
    HIGH,
    LONG,
    MEDIUM,
    OFFSETS_TOPIC,
    SHORT,
    TOPIC_CREATION,
    WIDE,
    Keys,
    WorkerDefaults,
    unique_aliases,
    versions,
)
from connect_runtime.validation.plugin_keys import add_chains, add_converters

Config = Mapping[str, str | None]


def source_definitions(version: str, defaults: WorkerDefaults, config: Config) -> ConfigDef:
    """Returns the keys of every source connector; `version` is the plugin's. Some defaults depend
    on the connector's config."""
    keys = _common(version, defaults, config)
    keys.add(
        "topic.creation.groups",
        ConfigType.LIST,
        "",
        "Groups of settings for topics that are created by source connectors",
        group=TOPIC_CREATION,
        display="Topic Creation Groups",
        width=LONG,
        validator=unique_aliases("topic creation"),
    )
    _exactly_once(keys)
    keys.add(
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        "A topic of its own for this connector's source offsets",
        group=OFFSETS_TOPIC,
        display="Offsets topic",
        width=LONG,
        order=1,
        validator=NonEmptyString(),
    )
    return keys.definitions


def sink_definitions(version: str, defaults: WorkerDefaults, config: Config) -> ConfigDef:
    """Returns the keys of every sink connector, as `source_definitions` those of sources."""
    keys = _common(version, defaults, config)
    for name, type, display, doc, validator in (
        (
            "topics",
            ConfigType.LIST,
            "Topics",
            "Topics to consume, separated by commas",
            ValidList(),
        ),
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
            importance=HIGH,
            width=LONG,
            order=4,
            validator=validator,
        )
    _dead_letters(keys)
    return keys.definitions


def common_definitions(version: str) -> ConfigDef:
    """Returns the keys of every connector, with no defaults from a worker."""
    return _common(version, WorkerDefaults(), {}).definitions


def _common(version: str, defaults: WorkerDefaults, config: Config) -> Keys:
    keys = Keys()
    keys.add(
        "name",
        ConfigType.STRING,
        NO_DEFAULT,
        "Globally unique name to use for this connector.",
        group=COMMON,
        display="Connector name",
        importance=HIGH,
        width=WIDE,
        validator=NonEmptyStringWithoutControlChars(),
    )
    keys.add(
        "connector.class",
        ConfigType.STRING,
        NO_DEFAULT,
        "Name, simple name or alias of the connector's class",
        group=COMMON,
        display="Connector class",
        importance=HIGH,
        width=LONG,
    )
    keys.add(
        "connector.plugin.version",
        ConfigType.STRING,
        None if version == "undefined" else version,
        "Version of the connector",
        group=COMMON,
        display="Connector version",
        importance=MEDIUM,
        width=WIDE,
        recommender=versions(version),
    )
    keys.add(
        "tasks.max",
        ConfigType.INT,
        1,
        "Maximum number of tasks to use for this connector.",
        group=COMMON,
        display="Tasks max",
        importance=HIGH,
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
    add_converters(keys, defaults, config)
    add_chains(keys)
    _errors(keys)
    return keys


def _errors(keys: Keys) -> None:
    for name, type, default, display, width, validator, doc in (
        (
            "errors.retry.timeout",
            ConfigType.LONG,
            0,
            "Retry Timeout for Errors",
            WIDE,
            None,
            "How long, in milliseconds, a failed operation is tried again; -1 for ever",
        ),
        (
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            60_000,
            "Maximum Delay Between Retries for Errors",
            WIDE,
            None,
            "The longest delay between two tries, in milliseconds",
        ),
        (
            "errors.tolerance",
            ConfigType.STRING,
            "none",
            "Error Tolerance",
            SHORT,
            OneOf.strings("none", "all"),
            "none: any error fails the task; all: problematic records are skipped",
        ),
        (
            "errors.log.enable",
            ConfigType.BOOLEAN,
            False,
            "Log Errors",
            SHORT,
            None,
            "Whether each error is logged",
        ),
        (
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            False,
            "Log Error Details",
            SHORT,
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
            importance=MEDIUM,
            width=width,
            validator=validator,
        )


def _exactly_once(keys: Keys) -> None:
    keys.add(
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        "required: refuse a connector that cannot deliver exactly once",
        group=EXACTLY_ONCE,
        display="Exactly once support",
        importance=MEDIUM,
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
        importance=MEDIUM,
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
        at_least(0)(name, value)


def _dead_letters(keys: Keys) -> None:
    prefix = "errors.deadletterqueue"
    for name, type, default, display, width, doc in (
        (
            f"{prefix}.topic.name",
            ConfigType.STRING,
            "",
            "Dead Letter Queue Topic Name",
            WIDE,
            "The topic for records that caused an error; empty for none",
        ),
        (
            f"{prefix}.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "Dead Letter Queue Topic Replication Factor",
            WIDE,
            "Replication factor of that topic when it is created",
        ),
        (
            f"{prefix}.context.headers.enable",
            ConfigType.BOOLEAN,
            False,
            "Enable Error Context Headers",
            WIDE,
            "Whether headers tell of the error",
        ),
    ):
        keys.add(
            name, type, default, doc, group=ERRORS, display=display, importance=MEDIUM, width=width
        )
