"""Reads and writes plugins.lock.json: a cluster's plugins and their keys, beside connect.yaml.

With it a plan can check configs, and recognize passwords, without asking the cluster. One key a
line, sorted, so that a plugin's upgrade is a small diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.json_documents import parse_json
from connect_specs.nodes import Map, Sequence
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.text_files import read_text

PLUGINS_LOCK = "plugins.lock.json"

_FORMAT = 1
_HINT = "create it again with `connect plugins lock`"


def has_lock(folder: Path) -> bool:
    """Whether the project in this folder has a lock file."""
    file = folder / PLUGINS_LOCK
    return file.exists() or file.is_symlink()


def load_lock(folder: Path) -> PluginSet | None:
    """Returns the lock file in a project's folder, None if there is none. Raises Invalid."""
    if not has_lock(folder):
        return None
    text = read_text(folder / PLUGINS_LOCK, PLUGINS_LOCK)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        where = Location(PLUGINS_LOCK, error.lineno, error.colno)
        raise _invalid("this is not JSON", where, error.msg) from error
    except (RecursionError, ValueError) as error:
        what = "this is not JSON that can be read"
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _invalid(what, Location(PLUGINS_LOCK, 1, 1), why) from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        what = f"this is not a lock file of format {_FORMAT}"
        raise _invalid(what, Location(PLUGINS_LOCK, 1, 1))
    plugins = document.get("plugins")
    if not isinstance(plugins, list):
        raise _invalid("the lock file has no list 'plugins'", Location(PLUGINS_LOCK, 1, 1))
    found: list[PluginDefinition] = []
    for number, plugin in enumerate(plugins):
        try:
            found.append(_plugin(plugin))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = "this entry of the lock file is malformed"
            raise _invalid(what, _place(text, number)) from error
    return PluginSet(tuple(found))


def _place(text: str, number: int) -> Location:
    """Returns where a plugin of a lock file begins, as far as the file can be read."""
    (document, *_) = parse_json(text, PLUGINS_LOCK).documents or (None,)
    plugins = document.get("plugins") if isinstance(document, Map) else None
    if isinstance(plugins, Sequence) and number < len(plugins.items):
        return plugins.items[number].where
    return Location(PLUGINS_LOCK, 1, 1)


def lock_text(plugins: PluginSet) -> str:
    """Returns the file's text: the same plugins always give the same text."""
    found = sorted(plugins.plugins, key=lambda each: (each.type, each.class_name))
    blocks = ",\n".join(map(_plugin_text, found))
    return f'{{\n  "format": {_FORMAT},\n  "plugins": [\n{blocks}\n  ]\n}}\n'


def _plugin_text(plugin: PluginDefinition) -> str:
    keys = ",\n".join(f"        {_key_text(plugin.keys[name])}" for name in sorted(plugin.keys))
    version = "" if plugin.version is None else f'      "version": {json.dumps(plugin.version)},\n'
    return (
        "    {\n"
        f'      "class": {json.dumps(plugin.class_name)},\n'
        f'      "type": {json.dumps(plugin.type)},\n'
        f"{version}"
        f'      "keys": [\n{keys}\n      ]\n'
        "    }"
    )


def _key_text(key: KeyDefinition) -> str:
    fields: dict[str, object] = {"name": key.name, "type": key.type}
    if key.required:
        fields["required"] = True
    if key.default is not None:
        fields["default"] = key.default
    fields["importance"] = key.importance
    if key.dependents:
        fields["dependents"] = list(key.dependents)
    return json.dumps(fields, ensure_ascii=False)


def _plugin(found: Any) -> PluginDefinition:
    keys = map(_key, found["keys"])
    return PluginDefinition(
        _text(found["class"]),
        _text(found["type"]),
        None if found.get("version") is None else _text(found["version"]),
        {key.name: key for key in keys},
    )


def _key(found: Any) -> KeyDefinition:
    default = found.get("default")
    return KeyDefinition(
        _text(found["name"]),
        _text(found["type"]),
        found.get("required") is True,
        None if default is None else _text(default),
        _text(found["importance"]),
        tuple(map(_text, found.get("dependents", ()))),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _invalid(what: str, where: Location, why: str = "") -> Invalid:
    return Invalid(Diagnostic("plugins-lock.unreadable", what, where, why, _HINT))
