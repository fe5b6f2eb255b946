"""What differs between two sets of plugins, such as a lock and a cluster, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from deepdiff import DeepDiff

from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet

Sides: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class PluginChange:
    """What is new of one plugin. `lines` begin with `+`, `-` or `~`, as a plan's do."""

    class_name: str
    type: str
    what: str
    lines: tuple[str, ...] = ()


def plugin_changes(old: PluginSet, new: PluginSet) -> tuple[PluginChange, ...]:
    """The changes by class; none, if the two say the same."""
    before, after = _by_class(old), _by_class(new)
    return tuple(
        change
        for at in sorted(before.keys() | after.keys())
        for change in _changes(before.get(at), after.get(at))
    )


def _by_class(plugins: PluginSet) -> dict[tuple[str, str], PluginDefinition]:
    return {(each.class_name, each.type): each for each in plugins.plugins}


def _changes(old: PluginDefinition | None, new: PluginDefinition | None) -> Iterator[PluginChange]:
    if old is None and new is not None:
        yield PluginChange(new.class_name, new.type, f"is new, {_version(new)}")
    elif new is None and old is not None:
        yield PluginChange(old.class_name, old.type, f"is gone, was {_version(old)}")
    elif old is not None and new is not None and old != new:
        what = _version(old)
        if old.version != new.version:
            what = f"{what} → {_version(new)}"
        yield PluginChange(new.class_name, new.type, what, tuple(_lines(old, new)))


def _lines(old: PluginDefinition, new: PluginDefinition) -> Iterator[str]:
    for name in sorted(new.keys.keys() - old.keys.keys()):
        yield f"+ {name}: {_told(new.keys[name])}"
    for name in sorted(old.keys.keys() - new.keys.keys()):
        yield f"- {name}: was {_told(old.keys[name])}"
    for name, fields in sorted(_changed(old, new).items()):
        yield f"~ {name}: {', '.join(_word(*field) for field in sorted(fields.items()))}"


def _changed(old: PluginDefinition, new: PluginDefinition) -> dict[str, dict[str, Sides]]:
    """By key and field, what it was and what it is."""
    both = old.keys.keys() & new.keys.keys()
    found: dict[str, dict[str, Sides]] = {}
    difference = DeepDiff(_fields(old, both), _fields(new, both), view="tree")
    for change in (each for kind in difference.values() for each in kind):
        name, field = change.path(output_format="list")[:2]
        found.setdefault(name, {})[field] = (change.t1, change.t2)
    return found


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
    shown = map(_default, values) if field == "default" else (each or "none" for each in values)
    return f"{field} {' → '.join(shown)}"


def _told(key: KeyDefinition) -> str:
    if key.required:
        return f"{key.type}, required"
    return f"{key.type}, default {_default(key.default)}"


def _default(text: str | None) -> str:
    if text is None:
        return "none"
    return text if text.strip() else f'"{text}"'


def _version(plugin: PluginDefinition) -> str:
    return plugin.version or "no version"
