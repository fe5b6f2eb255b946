"""Finds the class of a plugin: by `FileStreamSource`, a Java name, or `package.module:Class`.

Built-ins have Apache's class names, so that configs move between the two runtimes unchanged. Third
parties register under the entry point groups `connect.connectors`, `connect.converters`,
`connect.header_converters`, `connect.transforms` and `connect.predicates`, or are named by module
and class, in modules that may be imported (`plugins.modules`). Error texts are Connect's.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, Final, Literal, TypeAlias, cast

from connect_runtime.api import (
    ConfigError,
    ConnectorError,
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    Transformation,
)
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.scan import JavaPlugin
from connect_runtime.java.scalars import java_list
from connect_runtime.plugins import built_in
from connect_runtime.plugins.modules import (
    is_allowed,
    loaded,
    refuse_unlisted,
    split_name,
    unlisted_text,
)
from connect_runtime.plugins.versions import Version
from connect_specs.plugin_definitions import SUFFIXES

PluginKind: TypeAlias = Literal[
    "sink", "source", "converter", "header_converter", "transformation", "predicate"
]

# Errors of third-party code when it is imported or called
_THROWN: Final = (Exception, SystemExit)


class NoSuchClass(ConnectorError):
    """No installed connector has this name, in Connect's words."""


# The keys of a connector's config that name classes
CONVERTER_KINDS: Final[Mapping[str, PluginKind]] = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}
_CHAINS: Final[Mapping[str, PluginKind]] = {
    "transforms": "transformation",
    "predicates": "predicate",
}


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Plugins that a key of a config may name: the class that they extend, by kind, the entry point
    group that they register under, and the built-ins."""

    bases: Mapping[PluginKind, type[Any]]
    entry_points: str
    built_in: Mapping[str, str]

    def kind_of(self, cls: object) -> PluginKind | None:
        return next((kind for kind, base in self.bases.items() if _is_a(cls, (base,))), None)

    def installed(self) -> tuple[Plugin, ...]:
        """Returns the built-ins, and those of packages that have loaded, sorted."""
        plugins = (*_built_ins(self), *loaded(self.entry_points, self._load))
        return tuple(sorted(plugins, key=lambda plugin: (plugin.kind, plugin.class_name)))

    def find(self, name: str) -> tuple[Plugin, ...]:
        """Returns the plugins that a config's class name means. Raises `ConnectorError`."""
        path = self.built_in.get(name)
        if path is not None:
            return (_built_in(self, name, path),)
        # a class that its name leads to needs no other plugin
        matches = _exact(name, _built_ins(self)) or _importable(self, name)
        if matches:
            return matches
        installed = self.installed()
        return _exact(name, installed) or tuple(p for p in installed if name in p.aliases)

    def _load(self, entry: EntryPoint) -> Plugin:
        cls = entry.load()
        return _plugin(self, cls, _path(cls))


_CONNECTORS: Final = _Group(
    {"sink": SinkConnector, "source": SourceConnector}, "connect.connectors", built_in.CONNECTORS
)
_GROUPS: Final[Mapping[PluginKind, _Group]] = {
    "converter": _Group({"converter": Converter}, "connect.converters", built_in.CONVERTERS),
    "header_converter": _Group(
        {"header_converter": HeaderConverter},
        "connect.header_converters",
        built_in.HEADER_CONVERTERS,
    ),
    "transformation": _Group(
        {"transformation": Transformation}, "connect.transforms", built_in.TRANSFORMATIONS
    ),
    "predicate": _Group({"predicate": Predicate}, "connect.predicates", built_in.PREDICATES),
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that a config may name. `class_name` is its name in REST: the Java name of a
    built-in and of a Java class, `package.module.Class` of any other. `java`: it runs in a JVM, and
    `cls` stands for nothing; `location` is then its folder or jar, as a URL."""

    cls: type[Any]
    class_name: str
    kind: PluginKind
    version: str
    java: bool = False
    location: str = "classpath"

    @property
    def aliases(self) -> frozenset[str]:
        """Returns its short names: without package, and without each kind that it is."""
        if "$" in self.class_name:
            return frozenset()
        simple = self.class_name.rpartition(".")[2]
        kinds = (self.kind, *(kind for kind, group in _GROUPS.items() if group.kind_of(self.cls)))
        short = (simple.removesuffix(SUFFIXES[kind]) for kind in kinds)
        return frozenset({simple, *filter(None, short)})

    def __str__(self) -> str:
        """Returns its form in Connect's error texts."""
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}',"
            f" version='{self.version}', encodedVersion={self.version}, type={self.kind},"
            f" typeName='{self.kind}', location='{self.location}'}}"
        )


def connectors() -> tuple[Plugin, ...]:
    """Returns all installed connectors, Java's too: sinks, then sources, each sorted by name."""
    return tuple(plugin for kind in ("sink", "source") for plugin in _with_java(_CONNECTORS, kind))


def plugins(kind: PluginKind) -> tuple[Plugin, ...]:
    """Returns the plugins of a kind other than connectors that are Python's, sorted by name."""
    return _GROUPS[kind].installed()


def listed(kind: PluginKind) -> tuple[Plugin, ...]:
    """Returns all plugins of a kind other than connectors, Java's too, sorted by name."""
    return _with_java(_GROUPS[kind], kind)


def _with_java(group: _Group, kind: PluginKind) -> tuple[Plugin, ...]:
    """Returns the plugins of a kind, each version of a class once: ours if it is one of ours."""
    catalog = used_catalog()
    java = [] if catalog is None else map(java_plugin, catalog.plugins)
    entries: dict[tuple[str, str], Plugin] = {}
    for plugin in (*group.installed(), *java):
        if plugin.kind == kind:
            entries.setdefault((plugin.class_name, plugin.version), plugin)
    return tuple(_in_order(entries.values()))


def _in_order(plugins: Iterable[Plugin]) -> list[Plugin]:
    return sorted(plugins, key=lambda plugin: (plugin.class_name, Version(plugin.version)))


def java_plugin(plugin: JavaPlugin) -> Plugin:
    """Returns a Java class as a plugin."""
    kind = cast(PluginKind, plugin.kind)
    return Plugin(
        object, plugin.class_name, kind, plugin.version, java=True, location=plugin.location
    )


def java_plugins(name: str) -> tuple[Plugin, ...]:
    """Returns the versions of the Java class that a name means, the oldest first."""
    catalog = used_catalog()
    return () if catalog is None else tuple(map(java_plugin, catalog.matching(name)))


@cache
def connector(name: str) -> Plugin:
    """Returns the connector for `connector.class=name`: of one that is on both sides, ours. Raises
    `ConnectorError`."""
    catalog = used_catalog()
    java = None if catalog is None else catalog.connector(name)
    if java is not None and java.class_name not in built_in.CONNECTORS:
        return java_plugin(java)
    matches = _CONNECTORS.find(name)
    if not matches:
        refuse_unlisted(name)
        raise NoSuchClass(
            "Failed to find any class that implements Connector and which name matches"
            f" {name}, available connectors are: {', '.join(map(str, _in_order(connectors())))}"
        )
    if len(matches) > 1:
        raise ConnectorError(
            f"More than one connector matches alias {name}. Please use full package and class name"
            f" instead. Classes found: {', '.join(map(str, matches))}"
        )
    return matches[0]


@cache
def plugin(kind: PluginKind, key: str, name: str) -> Plugin:
    """Returns the plugin of a kind other than connectors for `<key>=name`. Raises `ConfigError`."""
    matches = _GROUPS[kind].find(name)
    if len(matches) != 1:
        problem = unlisted_text(name) or f"Class {name} could not be found."
        raise ConfigError.invalid(key, name, problem)
    return matches[0]


def java_member(kind: PluginKind, key: str, name: str) -> Plugin:
    """Returns the newest version of the Java class of such a kind for `<key>=name`. Raises
    `ConfigError`."""
    matches = [plugin for plugin in java_plugins(name) if plugin.kind == kind]
    if not matches:
        raise ConfigError.invalid(key, name, f"Class {name} could not be found.")
    return matches[-1]


def class_keys(config: Mapping[str, str]) -> Iterator[tuple[PluginKind, str]]:
    """Yields the keys that name the classes of a config's converters, transformations and
    predicates, each with the kind. A key need not be in the config."""
    for key, kind in CONVERTER_KINDS.items():
        yield kind, key
    for chain, kind in _CHAINS.items():
        for alias in java_list(config.get(chain) or ""):
            yield kind, f"{chain}.{alias}.type"


def class_name_of(plugin: object) -> str:
    """Returns the name of an object's class: the Java name of a built-in, its own of any other."""
    cls = type(plugin)
    path = f"{cls.__module__}:{cls.__qualname__}"
    names = ((java, own) for group in _GROUPS.values() for java, own in group.built_in.items())
    return next((java for java, own in names if own == path), _path(cls))


@cache
def task(name: str) -> type[SourceTask] | type[SinkTask]:
    """Returns the class for a task config's `task.class`. Raises `ConnectorError`."""
    path = built_in.TASKS.get(name, name)
    refuse_unlisted(path)
    if not is_allowed(split_name(path)[0]):
        raise ConnectorError(f"Class {name} could not be found")
    try:
        cls = _load(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConnectorError(f"Class {name} could not be found: {error}") from error
    if not _is_a(cls, (SourceTask, SinkTask)):
        raise ConnectorError(f"{name} is neither a SourceTask nor a SinkTask")
    task_class: type[SourceTask] | type[SinkTask] = cls
    return task_class


def task_class_name(cls: type[SourceTask] | type[SinkTask]) -> str:
    """Returns the `task.class` to store for a task class, by which `task` finds it again. Raises
    `ConnectorError` if its module may not be imported."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    java = next((java for java, own in built_in.TASKS.items() if own == path), None)
    if java is None:
        refuse_unlisted(path)
    return java or _path(cls)


def load_built_in() -> None:
    """Imports every built-in class, so that forked processes need not. Runs no third-party code."""
    for paths in (
        built_in.CONNECTORS,
        built_in.TASKS,
        *(group.built_in for group in _GROUPS.values()),
    ):
        for path in paths.values():
            _load(path)


@cache
def _built_ins(group: _Group) -> tuple[Plugin, ...]:
    return tuple(_built_in(group, java, path) for java, path in group.built_in.items())


def _built_in(group: _Group, java: str, path: str) -> Plugin:
    return _plugin(group, _load(path), java, built_in.version_of(java))


def _exact(name: str, plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    dotted = name.replace(":", ".")
    return tuple(p for p in plugins if dotted in (p.class_name, _path(p.cls)))


def _importable(group: _Group, name: str) -> tuple[Plugin, ...]:
    """Returns the class of a Python name in a module that may be imported; nothing if there is
    none."""
    module = split_name(name)[0]
    if not is_allowed(module):
        return ()
    try:
        cls = _load(name)
    except (AttributeError, ValueError):
        return ()
    except ModuleNotFoundError as error:
        # report a module that exists but fails to import another
        if error.name and module.startswith(error.name):
            return ()
        raise ConnectorError(f"{name} cannot be imported: {error}") from error
    except ImportError as error:
        raise ConnectorError(f"{name} cannot be imported: {error}") from error
    except _THROWN as error:
        raise ConnectorError(f"{name} cannot be imported: {_short_text(error)}") from error
    if group.kind_of(cls) is None:
        return ()
    try:
        instance = cls()
    except _THROWN as error:
        raise ConnectorError(f"{name} cannot be instantiated: {_short_text(error)}") from error
    try:
        version = str(instance.version())
    except _THROWN as error:
        raise ConnectorError(f"{name} does not say its version: {_short_text(error)}") from error
    return (_plugin(group, cls, _path(cls), version),)


def _plugin(group: _Group, cls: type[Any], class_name: str, version: str | None = None) -> Plugin:
    """Returns the class as a plugin; without `version`, of the class's own."""
    kind = group.kind_of(cls)
    if kind is None:
        raise ConnectorError(f"{class_name} is no plugin of the kind that is wanted")
    return Plugin(cls, class_name, kind, version or str(cls().version()))


def _is_a(cls: object, bases: tuple[type[Any], ...]) -> bool:
    return isinstance(cls, type) and issubclass(cls, bases)


def _load(path: str) -> Any:
    """Returns the class at `package.module:Class` or `package.module.Class`."""
    module, name = split_name(path)
    if not module:
        raise ValueError(f"{path} names no module")
    return getattr(importlib.import_module(module), name)


def _short_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
