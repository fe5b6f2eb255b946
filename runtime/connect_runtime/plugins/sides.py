"""Decides whether a connector runs in Python or in a JVM, and which classes it cannot use there.

Its class decides, and its converters, transformations and predicates are of that side. Only the
file connectors have both: they run in Python unless the worker or the config needs Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.config_providers.references import aliases, holds_reference, references
from connect_runtime.engine.catalog import JavaCatalog, used_catalog
from connect_runtime.engine.scan import short_names
from connect_runtime.plugins import built_in, registry
from connect_runtime.plugins.modules import unlisted_module
from connect_runtime.plugins.registry import CONVERTER_KINDS, Plugin, PluginKind
from connect_runtime.plugins.versions import InvalidVersionRange, required_versions

Config: TypeAlias = Mapping[str, str | None]

FILE_CONNECTORS: Final = "java.file.connectors"
_CLASS: Final = "connector.class"
_VERSION: Final = "plugin.version"
_BUILT_IN: Final[Mapping[PluginKind, Iterable[str]]] = {
    "converter": built_in.CONVERTERS,
    "header_converter": built_in.HEADER_CONVERTERS,
    "transformation": built_in.TRANSFORMATIONS,
    "predicate": built_in.PREDICATES,
}


@dataclass(frozen=True, slots=True)
class JavaConnector:
    """A connector that runs in a JVM. `reason` says why, if its class is also one of ours."""

    plugin: Plugin
    reason: str = ""


def java_connector(config: Config) -> JavaConnector | None:
    """Returns the connector of a config that runs in a JVM; None for any other. Runs no third-party
    code."""
    catalog, name = used_catalog(), config.get(_CLASS)
    java = None if catalog is None or name is None else catalog.connector(name)
    if catalog is None or java is None:
        return None
    if java.class_name not in built_in.CONNECTORS:
        return JavaConnector(registry.java_plugin(java))
    reason = _reason(config, catalog, java.class_name)
    return JavaConnector(registry.java_plugin(java), reason) if reason else None


def jvm_reason(config: Config) -> str:
    """Returns why a connector that is on both sides runs in a JVM; empty for any other."""
    java = java_connector(config)
    return "" if java is None else java.reason


def is_java(config: Config) -> bool:
    """Returns whether the connector of a config runs in a JVM."""
    return java_connector(config) is not None


def connector(config: Config) -> Plugin:
    """Returns the connector of a config, on the side on which it runs. Raises ConnectorError."""
    java = java_connector(config)
    return registry.connector(config.get(_CLASS) or "") if java is None else java.plugin


def _reason(config: Config, catalog: JavaCatalog, class_name: str) -> str:
    """Returns why a connector that is on both sides runs in a JVM; empty: it does not."""
    if catalog.worker.get(FILE_CONNECTORS, "").strip().lower() == "true":
        return f"{FILE_CONNECTORS} is true"
    version = config.get(f"connector.{_VERSION}")
    if _is_of_java_alone(version, class_name, catalog.versions(class_name)):
        return f"connector.{_VERSION}={version} is a version of the Java class alone"
    names = (used for used in _classes(config, catalog) if _is_java_alone(used, catalog))
    return next((f"{used.key} is {used.name}, a Java class" for used in names), "")


def wrong_side(config: Config) -> Iterator[tuple[str, str]]:
    """Yields the keys of classes that cannot run where the connector runs, each with an error.
    Imports the Python classes that a config names."""
    catalog = used_catalog()
    if catalog is None:
        return
    in_jvm = is_java(config)
    place, side = ("a JVM", "Python") if in_jvm else ("Python", "Java")
    for used in _classes(config, catalog):
        python = _is_python(used)
        java = bool(catalog.matching(used.name, (used.kind,)))
        if (python and not java) if in_jvm else (java and not python):
            text = (
                f"it is a {side} class, and {config.get(_CLASS)} runs in {place},"
                f" {_counterpart(used, catalog, in_jvm=in_jvm)}"
            )
            if used.key not in config:
                text += ". The worker's file names it: this config needs one of its own"
            yield used.key, str(ConfigError.invalid(used.key, used.name, text))

    if in_jvm:
        yield from _python_references(config, catalog)


def _python_references(config: Config, catalog: JavaCatalog) -> Iterator[tuple[str, str]]:
    """Yields the keys that refer to config providers in Python, each with an error."""
    in_java = {provider.alias for provider in catalog.providers}
    in_python = {alias for alias in aliases(catalog.worker) if alias not in in_java}
    for key, value in config.items():
        for alias in in_python & {r.provider for r in references(value or "")}:
            text = (
                f"The value of {key} refers to the config provider {alias}, a Python class, and"
                f" {config.get(_CLASS)} runs in a JVM"
            )
            yield key, text


@dataclass(frozen=True, slots=True)
class _UsedClass:
    """A class that a connector's config names, or the worker's file for all connectors."""

    kind: PluginKind
    key: str
    name: str
    version: str | None


def _classes(config: Config, catalog: JavaCatalog) -> Iterator[_UsedClass]:
    texts = {key: value for key, value in config.items() if value is not None}
    inherited = {key: catalog.worker[key] for key in CONVERTER_KINDS if key in catalog.worker}
    for kind, key in registry.class_keys(texts):
        name = (texts.get(key) or inherited.get(key, "")).strip()
        if name and not holds_reference(name):
            version = texts.get(f"{key.removesuffix('.type')}.{_VERSION}")
            yield _UsedClass(kind, key, name, version)


def _is_java_alone(used: _UsedClass, catalog: JavaCatalog) -> bool:
    """Returns whether a Java class has this name, and none of ours, in a version that is wanted."""
    java = catalog.matching(used.name, (used.kind,))
    ours = _built_in(used)
    if ours is None or not java:
        return bool(java)
    return _is_of_java_alone(used.version, ours, [plugin.version for plugin in java])


def _is_of_java_alone(version: str | None, class_name: str, versions: Iterable[str]) -> bool:
    try:
        required = required_versions(version)
    except InvalidVersionRange:
        return False
    if required is None or built_in.version_of(class_name) in required:
        return False
    return any(version in required for version in versions)


def _built_in(used: _UsedClass) -> str | None:
    names = _BUILT_IN[used.kind]
    return next((name for name in names if used.name in short_names(name, used.kind)), None)


def _is_python(used: _UsedClass) -> bool:
    """Returns whether it is a class of a Python package, which the worker need not list."""
    try:
        registry.plugin(used.kind, used.key, used.name)
    except ConnectorError:
        return unlisted_module(used.name) is not None
    return True


def _counterpart(used: _UsedClass, catalog: JavaCatalog, *, in_jvm: bool) -> str:
    """Returns the end of a sentence about the class of this simple name on the other side."""
    simple = used.name.rpartition(":")[2].rpartition(".")[2]
    candidates = catalog.plugins if in_jvm else registry.plugins(used.kind)
    names = (p.class_name for p in candidates if p.kind == used.kind and p.class_name != used.name)
    match = next((name for name in names if simple in short_names(name, used.kind)), None)
    return "where it has no counterpart" if match is None else f"where {match} is its counterpart"
