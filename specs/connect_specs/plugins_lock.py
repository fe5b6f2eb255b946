"""Reads and writes plugins.lock.json: plugins and their keys, and where Java plugins come from.

With the keys a plan can check configs, and recognize passwords, without asking the cluster. The
origins have a checksum for each file, so that every machine installs the same plugins. One key and
one file a line, sorted, so that a plugin's upgrade is a small diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.documents import Map, Sequence
from connect_specs.json_documents import parse_json
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.text_files import read_text

PLUGINS_LOCK = "plugins.lock.json"

_FORMAT = 1
_LISTS: Final = ("installed", "plugins")
_HINT = "create it again with `connect plugins lock`"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class LockedArtifact:
    """A file that is part of a plugin: where it comes from, and its SHA-256.

    `origin` is a coordinate of Maven's (`group:artifact:version:classifier@tar.gz`), an address, or
    a path relative to the project's folder.
    """

    origin: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PluginOrigin:
    """An argument of `connect plugins install`, without a login, and the files that it stands
    for."""

    source: str
    artifacts: tuple[LockedArtifact, ...]


@dataclass(frozen=True, slots=True)
class LockedPlugin:
    """A Java plugin of the project: `name` is its folder. The first origin is the plugin itself,
    further ones add jars to it."""

    name: str
    origins: tuple[PluginOrigin, ...]

    @property
    def artifacts(self) -> tuple[LockedArtifact, ...]:
        return tuple(artifact for origin in self.origins for artifact in origin.artifacts)


def is_plugin_name(text: str) -> bool:
    """Returns True if a plugin may have this name: it is a folder's."""
    return _NAME.fullmatch(text) is not None


def load_lock(folder: Path) -> PluginSet | None:
    """Returns the keys of plugins in the lock file of a project's folder; None if none were
    locked. Raises Invalid."""
    plugins = _entries(folder, "plugins", _plugin)
    return None if plugins is None else PluginSet(plugins)


def load_locked_plugins(folder: Path) -> tuple[LockedPlugin, ...]:
    """Returns the Java plugins that the lock file names. Raises Invalid."""
    return _entries(folder, "installed", _locked_plugin) or ()


def _entries(
    folder: Path, field: str, entry_of: Callable[[Any], _Entry]
) -> tuple[_Entry, ...] | None:
    file = folder / PLUGINS_LOCK
    if not (file.exists() or file.is_symlink()):
        return None
    text = read_text(file, PLUGINS_LOCK)
    document = _document(text)
    nodes = document.get(field)
    if nodes is None and any(name in document for name in _LISTS):
        return None
    if not isinstance(nodes, list):
        raise _invalid(f"the lock file has no list {field!r}", Location(PLUGINS_LOCK, 1, 1))
    entries: list[_Entry] = []
    for number, entry in enumerate(nodes):
        try:
            entries.append(entry_of(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = "this entry of the lock file is malformed"
            raise _invalid(message, _location(text, field, number)) from error
    return tuple(entries)


def _document(text: str) -> dict[str, Any]:
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
    return document


def _location(text: str, field: str, number: int) -> Location:
    """Returns the location of an entry of a lock file, as far as the file can be read."""
    (document, *_) = parse_json(text, PLUGINS_LOCK).documents or (None,)
    entries = document.get(field) if isinstance(document, Map) else None
    if isinstance(entries, Sequence) and number < len(entries.items):
        return entries.items[number].location
    return Location(PLUGINS_LOCK, 1, 1)


def lock_text(plugins: PluginSet | None, installed: Iterable[LockedPlugin] = ()) -> str:
    """Returns the file's text: the same plugins always give the same text. `plugins` None: their
    keys are not locked."""
    lists = {"installed": [_locked_plugin_text(p) for p in sorted(installed, key=_name)]}
    if plugins is not None:
        definitions = sorted(plugins.plugins, key=lambda plugin: (plugin.type, plugin.class_name))
        lists["plugins"] = list(map(_plugin_text, definitions))
    fields = [f'  "format": {_FORMAT}']
    for field, entries in lists.items():
        if entries or field == "plugins":
            blocks = ",\n".join(entries)
            fields.append(f'  "{field}": [\n{blocks}\n  ]')
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _name(plugin: LockedPlugin) -> str:
    return plugin.name


def _locked_plugin_text(plugin: LockedPlugin) -> str:
    origins = ",\n".join(map(_origin_text, plugin.origins))
    return (
        "    {\n"
        f'      "name": {json.dumps(plugin.name)},\n'
        f'      "from": [\n{origins}\n      ]\n'
        "    }"
    )


def _origin_text(origin: PluginOrigin) -> str:
    artifacts = ",\n".join(
        "          " + json.dumps({"artifact": a.origin, "sha256": a.sha256}, ensure_ascii=False)
        for a in origin.artifacts
    )
    source = json.dumps(origin.source, ensure_ascii=False)
    return f'        {{"source": {source}, "artifacts": [\n{artifacts}\n        ]}}'


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


def _locked_plugin(entry: Any) -> LockedPlugin:
    name, origins = _text(entry["name"]), tuple(map(_origin, entry["from"]))
    if not is_plugin_name(name) or not origins:
        raise ValueError(name)
    return LockedPlugin(name, origins)


def _origin(entry: Any) -> PluginOrigin:
    return PluginOrigin(_text(entry["source"]), tuple(map(_artifact, entry["artifacts"])))


def _artifact(entry: Any) -> LockedArtifact:
    sha256 = _text(entry["sha256"])
    if _SHA256.fullmatch(sha256) is None:
        raise ValueError(sha256)
    return LockedArtifact(_text(entry["artifact"]), sha256)


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
