"""Defines the keys that name converters, and those that list transformations and predicates."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.api import ConfigType, OneOf
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import CONVERTER_KINDS, PluginKind
from connect_runtime.validation.keys import (
    COMMON,
    LONG,
    PREDICATES,
    SIDES,
    TRANSFORMS,
    WIDE,
    Keys,
    Recommended,
    WorkerDefaults,
    unique_aliases,
    versions,
)
from connect_runtime.validation.plugin_choice import choose

Config = Mapping[str, str | None]


def add_converters(keys: Keys, defaults: WorkerDefaults, config: Config) -> None:
    """Adds the keys of the three converters. Those that `config` names have defaults for their
    versions: the installed ones."""
    classes = (defaults.key_converter, defaults.value_converter, defaults.header_converter)
    for (side, title), default in zip(SIDES.items(), classes, strict=True):
        name = f"{side}.converter"
        kind = CONVERTER_KINDS[name]
        keys.add(
            name,
            ConfigType.CLASS,
            default,
            f"Class that converts {side}s; the worker's if it is not set",
            group=COMMON,
            display=f"{title} converter class",
            recommender=Recommended(tuple(each.class_name for each in registry.plugins(kind))),
        )
        chosen = config.get(name)
        version = _version(name, kind, default if chosen is None else chosen)
        keys.add(
            f"{name}.plugin.version",
            ConfigType.STRING,
            version,
            f"Version of the {side} converter",
            group=COMMON,
            display=f"{title} converter version",
            recommender=versions(version, beside=name),
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


def _version(key: str, kind: PluginKind, name: str | None) -> str | None:
    plugin = None if name is None else choose(kind, key, name).plugin
    return None if plugin is None or plugin.version == "undefined" else plugin.version
