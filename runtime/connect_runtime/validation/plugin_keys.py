"""Defines the keys that name plugins: converters, transformations and predicates."""

from __future__ import annotations

from collections.abc import Sequence

from connect_runtime import plugins
from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigError,
    ConfigType,
    OneOf,
)
from connect_runtime.connectors.built_in import VERSION
from connect_runtime.validation.keys import (
    COMMON,
    HIGH,
    LONG,
    MEDIUM,
    PREDICATES,
    SHORT,
    SIDES,
    SIMPLE_HEADER_CONVERTER,
    TRANSFORMS,
    WIDE,
    Keys,
    Recommended,
    WorkerDefaults,
    unique_aliases,
)


def add_converters(keys: Keys, defaults: WorkerDefaults) -> None:
    classes = (defaults.key_converter, defaults.value_converter, defaults.header_converter)
    for (side, title), default in zip(SIDES.items(), classes, strict=True):
        keys.add(
            f"{side}.converter",
            ConfigType.CLASS,
            default,
            f"Class that converts {side}s; the worker's if it is not set",
            group=COMMON,
            display=f"{title} converter class",
            recommender=Recommended(),
        )
        version = _converter_version(f"{side}.converter", default)
        keys.add(
            f"{side}.converter.plugin.version",
            ConfigType.STRING,
            version,
            f"Version of the {side} converter",
            group=COMMON,
            display=f"{title} converter version",
            recommender=versions(version),
        )


def add_chains(keys: Keys) -> None:
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
            width=LONG,
            order=order,
            validator=unique_aliases(kind),
        )
    keys.add(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        "What to do when a value that a config provider gave has expired",
        group=COMMON,
        display="Reload Action",
        width=WIDE,
        order=14,
        validator=OneOf.strings("none", "restart"),
    )


def alias_definitions(transforms: Sequence[str], predicates: Sequence[str]) -> ConfigDef:
    """Returns the keys of each transformation and predicate, by alias."""
    keys = Keys()
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
                importance=HIGH,
                width=LONG,
            )
            if kind == "transforms":
                _conditions(keys, alias, group)
    return keys.definitions


def _conditions(keys: Keys, alias: str, group: str) -> None:
    prefix = f"transforms.{alias}."
    keys.add(
        f"{prefix}predicate",
        ConfigType.STRING,
        "",
        "Alias of the predicate that decides which records are transformed",
        group=group,
        display="Predicate",
        importance=MEDIUM,
        width=LONG,
    )
    keys.add(
        f"{prefix}negate",
        ConfigType.BOOLEAN,
        False,
        "Whether to transform the records for which the predicate does not hold",
        group=group,
        display="Negate",
        importance=MEDIUM,
        width=SHORT,
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


def versions(version: str | None) -> Recommended:
    return Recommended(() if version in (None, "undefined") else (str(version),))
