"""Reads and writes plugins.lock.json: a cluster's plugins and their keys, beside connect.yaml.

With it a plan can check configs, and recognize passwords, without asking the cluster. One key a
line, sorted, so that a plugin's upgrade is a small diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.documents import Map, Sequence
from connect_specs.json_documents import parse_json
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.text_files import read_text

PLUGINS_LOCK = "plugins.lock.json"

_FORMAT = 1
_HINT = "create it again with `connect plugins lock`"


def has_lock(folder: Path) -> bool:
    """Returns True if the project in this folder has a lock file."""
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
        location = Location(PLUGINS_LOCK, error.lineno, error.colno)
        raise _invalid("this is not JSON", location, error.msg) from error
    except (RecursionError, ValueError) as error:
        message = "this is not JSON that can be read"
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _invalid(message, Location(PLUGINS_LOCK, 1, 1), reason) from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        message = f"this is not a lock file of format {_FORMAT}"
        raise _invalid(message, Location(PLUGINS_LOCK, 1, 1))
    plugins = document.get("plugins")
    if not isinstance(plugins, list):
        raise _invalid("the lock file has no list 'plugins'", Location(PLUGINS_LOCK, 1, 1))
    definitions: list[PluginDefinition] = []
    for number, plugin in enumerate(plugins):
        try:
            definitions.append(_plugin(plugin))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = "this entry of the lock file is malformed"
            raise _invalid(message, _location(text, number)) from error
    return PluginSet(tuple(definitions))


def _location(text: str, number: int) -> Location:
    """Returns the location of a plugin in a lock file, as far as the file can be read."""
    (document, *_) = parse_json(text, PLUGINS_LOCK).documents or (None,)
    plugins = document.get("plugins") if isinstance(document, Map) else None
    if isinstance(plugins, Sequence) and number < len(plugins.items):
        return plugins.items[number].location
    return Location(PLUGINS_LOCK, 1, 1)


def lock_text(plugins: PluginSet) -> str:
    """Returns the file's text: the same plugins always give the same text."""
    definitions = sorted(plugins.plugins, key=lambda plugin: (plugin.type, plugin.class_name))
    blocks = ",\n".join(map(_plugin_text, definitions))
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


def _plugin(entry: Any) -> PluginDefinition:
    keys = map(_key, entry["keys"])
    return PluginDefinition(
        _text(entry["class"]),
        _text(entry["type"]),
        None if entry.get("version") is None else _text(entry["version"]),
        {key.name: key for key in keys},
    )


def _key(entry: Any) -> KeyDefinition:
    default = entry.get("default")
    return KeyDefinition(
        _text(entry["name"]),
        _text(entry["type"]),
        entry.get("required") is True,
        None if default is None else _text(default),
        _text(entry["importance"]),
        tuple(map(_text, entry.get("dependents", ()))),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _invalid(message: str, location: Location, reason: str = "") -> Invalid:
    return Invalid(Diagnostic("plugins-lock.unreadable", message, location, reason, _HINT))
