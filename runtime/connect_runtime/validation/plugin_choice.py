"""Finds the plugin that a config names, of the kind and in the version that it must have (KIP-891).

Error texts are Connect's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from connect_runtime.api import ConnectorError
from connect_runtime.java.scalars import java_trim
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import Plugin, PluginKind
from connect_runtime.plugins.versions import InvalidVersionRange, Version, required_versions

_INTERFACES: Final[Mapping[PluginKind, str]] = {
    "converter": "Converter",
    "header_converter": "HeaderConverter",
    "transformation": "Transformation",
    "predicate": "Predicate",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The class that a config names.

    `plugin` is None if there is none of the kind; `class_name` None if there is no such class at
    all. `error` is of the key that names the class, `version_error` of the one with its version.
    """

    plugin: Plugin | None = None
    class_name: str | None = None
    error: str = ""
    version_error: str = ""

    @property
    def usable(self) -> Plugin | None:
        """Returns the plugin, unless there is an error."""
        return None if self.error or self.version_error else self.plugin


def choose(kind: PluginKind, key: str, name: str, version: str | None = None) -> Choice:
    """Returns the plugin of `kind` for `<key>=<name>`, in a version that `version` allows."""
    name = java_trim(name)
    try:
        plugin = registry.plugin(kind, key, name)
    except ConnectorError as error:
        choice = _not_of_kind(kind, key, name)
        return choice or Choice(error=str(error), version_error=range_error(version))
    return Choice(plugin, plugin.class_name, *version_errors(plugin, version))


def version_errors(plugin: Plugin, version: str | None) -> tuple[str, str]:
    """Returns the errors of the key that names the class, and of the one with its version; both
    empty if the installed version is one that `version` allows."""
    invalid = range_error(version)
    if invalid:
        return "", invalid
    required = required_versions(version)
    if required is None or plugin.version in required:
        return "", ""
    text = (
        f"Plugin {plugin.class_name} not found that matches the version range {required},"
        f" available versions: [{', '.join(_versions(plugin))}]"
    )
    return text, text


def range_error(version: str | None) -> str:
    """Returns the error of a text that is no range of versions; empty if it is one."""
    try:
        required_versions(version)
    except InvalidVersionRange as error:
        return str(error)
    return ""


def _not_of_kind(kind: PluginKind, key: str, name: str) -> Choice | None:
    """Returns the error of a class that is of another kind, or that others extend."""
    variants = [p.class_name for p in registry.plugins(kind) if p.class_name.startswith(f"{name}$")]
    if variants:
        text = "This class is abstract and cannot be created. Did you mean "
        return Choice(class_name=name, error=f"{text}{', '.join(variants)}?")
    class_name = _of_any_kind(key, name)
    if class_name is None:
        return None
    text = f"Class class {class_name} does not implement the {_INTERFACES[kind]} interface"
    return Choice(class_name=class_name, error=text)


def _of_any_kind(key: str, name: str) -> str | None:
    finds: list[Callable[[str], Plugin]] = [registry.connector]
    finds += [partial(registry.plugin, kind, key) for kind in _INTERFACES]
    for find in finds:
        try:
            return find(name).class_name
        except ConnectorError:
            continue
    return None


def _versions(plugin: Plugin) -> list[str]:
    """Returns a class's version once for each kind of plugin that it is, as Connect lists them, and
    for each copy on plugin.path."""
    java = [copy.version for copy in registry.java_plugins(plugin.class_name)]
    if java:
        own = [] if plugin.version in java else [plugin.version]
        return sorted((*java, *own), key=Version)
    kinds = sum(
        any(p.class_name == plugin.class_name for p in registry.plugins(kind))
        for kind in _INTERFACES
    )
    return [plugin.version] * max(kinds, 1)
