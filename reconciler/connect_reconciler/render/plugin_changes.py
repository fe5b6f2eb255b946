"""Differences of two sets of plugins, such as a lock and a cluster, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from deepdiff import DeepDiff

from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet

Sides: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class PluginChange:
    """The change of one plugin. `lines` begin with `+`, `-` or `~`, as a plan's do."""

    class_name: str
    type: str
    summary: str
    lines: tuple[str, ...] = ()


def plugin_changes(locked: PluginSet, present: PluginSet) -> tuple[PluginChange, ...]:
    """Returns the changes by class; none if both sets are equal."""
    first, second = _by_class(locked), _by_class(present)
    return tuple(
        change
        for key in sorted(first.keys() | second.keys())
        for change in _changes(first.get(key), second.get(key))
    )


def _by_class(plugins: PluginSet) -> dict[tuple[str, str], PluginDefinition]:
    return {(plugin.class_name, plugin.type): plugin for plugin in plugins.plugins}


def _changes(
    locked: PluginDefinition | None, present: PluginDefinition | None
) -> Iterator[PluginChange]:
    if locked is None and present is not None:
        yield PluginChange(present.class_name, present.type, f"is new, {_version(present)}")
    elif present is None and locked is not None:
        yield PluginChange(locked.class_name, locked.type, f"is gone, was {_version(locked)}")
    elif locked is not None and present is not None and locked != present:
        versions = dict.fromkeys((_version(locked), _version(present)))
        lines = tuple(_lines(locked, present))
        yield PluginChange(present.class_name, present.type, " → ".join(versions), lines)


def _lines(locked: PluginDefinition, present: PluginDefinition) -> Iterator[str]:
    for name in sorted(present.keys.keys() - locked.keys.keys()):
        yield f"+ {name}: {_key_text(present.keys[name])}"
    for name in sorted(locked.keys.keys() - present.keys.keys()):
        yield f"- {name}: was {_key_text(locked.keys[name])}"
    for name, fields in sorted(_changed(locked, present).items()):
        yield f"~ {name}: {', '.join(_word(*field) for field in sorted(fields.items()))}"


def _changed(locked: PluginDefinition, present: PluginDefinition) -> dict[str, dict[str, Sides]]:
    """Returns the two values of each changed field, by key and field."""
    names = locked.keys.keys() & present.keys.keys()
    changed: dict[str, dict[str, Sides]] = {}
    difference = DeepDiff(_fields(locked, names), _fields(present, names), view="tree")
    for change in chain.from_iterable(difference.values()):
        name, field = change.path(output_format="list")[:2]
        changed.setdefault(name, {})[field] = (change.t1, change.t2)
    return changed


def _fields(plugin: PluginDefinition, names: Collection[str]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "type": key.type,
            "required": key.required,
            "default": key.default,
            "importance": key.importance,
            "dependents": ", ".join(key.dependents),
        }
        for name, key in plugin.keys.items()
        if name in names
    }


def _word(field: str, values: Sides) -> str:
    if field == "required":
        return "required now" if values[1] else "no longer required"
    texts = map(_default, values) if field == "default" else (value or "none" for value in values)
    return f"{field} {' → '.join(texts)}"


def _key_text(key: KeyDefinition) -> str:
    if key.required:
        return f"{key.type}, required"
    return f"{key.type}, default {_default(key.default)}"


def _default(text: str | None) -> str:
    if text is None:
        return "none"
    return text if text.strip() else f'"{text}"'


def _version(plugin: PluginDefinition) -> str:
    return plugin.version or "no version"
