"""Finds the class of a plugin: by `FileStreamSource`, a Java name, or `package.module:Class`.

Built-ins have Apache's class names, so that configs move between the two runtimes unchanged. Third
parties register under the entry point groups `connect.connectors`, `connect.converters`,
`connect.header_converters`, `connect.transforms` and `connect.predicates`, or are named by module
and class, in modules that may be imported (`plugin_modules`). Error texts are Connect's.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, TypeAlias

from connect_runtime.api import (
    ConfigError,
    Connector,
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
from connect_runtime.plugins import built_in
from connect_runtime.plugins.loading import Loading
from connect_runtime.plugins.modules import (
    is_allowed,
    refuse_unlisted,
    split_name,
    unlisted_text,
)

Kind: TypeAlias = Literal[
    "sink", "source", "converter", "header_converter", "transformation", "predicate"
]


# What any code may throw when it is imported or asked
_THROWN: Final = (Exception, SystemExit)


class NoSuchClass(ConnectorError):
    """No installed connector has this name, in Connect's words."""


_CONNECTORS: Final[Mapping[Kind, type[Any]]] = {"sink": SinkConnector, "source": SourceConnector}
# what short names leave out
_SUFFIXES: Final[Mapping[Kind, str]] = {
    "sink": "Connector",
    "source": "Connector",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
    "transformation": "Transformation",
    "predicate": "Predicate",
}

_KindOf: TypeAlias = Callable[[object], Kind | None]

# Registered plugins, by entry point group
_lock: Final = threading.Lock()
_loading: Final[dict[str, Loading[Plugin]]] = {}


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Plugins of one kind other than connectors: the class that they extend, and the built-ins."""

    kind: Kind
    base: type[Any]
    entry_points: str
    built_in: Mapping[str, str]


_CONVERTERS: Final = _Group("converter", Converter, "connect.converters", built_in.CONVERTERS)
_HEADER_CONVERTERS: Final = _Group(
    "header_converter",
    HeaderConverter,
    "connect.header_converters",
    built_in.HEADER_CONVERTERS,
)
_TRANSFORMATIONS: Final = _Group(
    "transformation", Transformation, "connect.transforms", built_in.TRANSFORMATIONS
)
_PREDICATES: Final = _Group("predicate", Predicate, "connect.predicates", built_in.PREDICATES)
_GROUPS: Final = (_CONVERTERS, _HEADER_CONVERTERS, _TRANSFORMATIONS, _PREDICATES)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that a config may name. `class_name` is its name in REST: the Java name of a
    built-in, `package.module.Class` of any other."""

    cls: type[Any]
    class_name: str
    kind: Kind
    version: str

    @property
    def aliases(self) -> frozenset[str]:
        """Returns its short names: without package, and without each kind that it is."""
        if "$" in self.class_name:
            return frozenset()
        simple = self.class_name.rpartition(".")[2]
        others = (group.kind for group in _GROUPS if _is_a(self.cls, (group.base,)))
        short = (simple.removesuffix(_SUFFIXES[kind]) for kind in (self.kind, *others))
        return frozenset({simple, *filter(None, short)})

    def __str__(self) -> str:
        """Returns its form in Connect's error texts."""
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}',"
            f" version='{self.version}', encodedVersion={self.version}, type={self.kind},"
            f" typeName='{self.kind}', location='classpath'}}"
        )


def connectors() -> tuple[Plugin, ...]:
    """Returns all installed connectors: sinks, then sources, each sorted by name."""
    found = (*_built_in_connectors(), *_registered("connect.connectors", _connector_kind))
    return tuple(sorted(found, key=lambda p: (p.kind, p.class_name)))


def converters() -> tuple[Plugin, ...]:
    """Returns all installed converters, sorted by name."""
    return _all(_CONVERTERS)


def header_converters() -> tuple[Plugin, ...]:
    """Returns all installed header converters, sorted by name."""
    return _all(_HEADER_CONVERTERS)


def transformations() -> tuple[Plugin, ...]:
    """Returns all installed transformations, sorted by name."""
    return _all(_TRANSFORMATIONS)


def predicates() -> tuple[Plugin, ...]:
    """Returns all installed predicates, sorted by name."""
    return _all(_PREDICATES)


@cache
def connector(name: str) -> Plugin:
    """Returns the connector for `connector.class=name`. Raises `ConnectorError`."""
    found = _built_in(name, built_in.CONNECTORS, _connector_kind)
    found = found or _exact(name, _built_in_connectors())
    # a class that its name leads to needs no other plugin
    found = found or _named(name, Connector, _connector_kind) or _match(name, connectors())
    if not found:
        refuse_unlisted(name)
        raise NoSuchClass(
            "Failed to find any class that implements Connector and which name matches"
            f" {name}, available connectors are: {', '.join(map(str, connectors()))}"
        )
    if len(found) > 1:
        raise ConnectorError(
            f"More than one connector matches alias {name}. Please use full package and class name"
            f" instead. Classes found: {', '.join(map(str, found))}"
        )
    return found[0]


def converter(key: str, name: str) -> Plugin:
    """Returns the converter for `<key>=name`. Raises `ConfigError`."""
    return _one(_CONVERTERS, key, name)


def header_converter(key: str, name: str) -> Plugin:
    """Returns the header converter for `<key>=name`. Raises `ConfigError`."""
    return _one(_HEADER_CONVERTERS, key, name)


def transformation(key: str, name: str) -> Plugin:
    """Returns the transformation for `<key>=name`. Raises `ConfigError`."""
    return _one(_TRANSFORMATIONS, key, name)


def predicate(key: str, name: str) -> Plugin:
    """Returns the predicate for `<key>=name`. Raises `ConfigError`."""
    return _one(_PREDICATES, key, name)


def _all(group: _Group) -> tuple[Plugin, ...]:
    registered = _registered(group.entry_points, lambda cls: _kind_in(group, cls))
    return tuple(sorted((*_built_in_of(group), *registered), key=lambda p: p.class_name))


@cache
def _one(group: _Group, key: str, name: str) -> Plugin:
    def kind(cls: object) -> Kind | None:
        return _kind_in(group, cls)

    found = _built_in(name, group.built_in, kind) or _exact(name, _built_in_of(group))
    found = found or _named(name, group.base, kind) or _match(name, _all(group))
    if len(found) != 1:
        why = unlisted_text(name) or f"Class {name} could not be found."
        raise ConfigError.invalid(key, name, why)
    return found[0]


def class_name_of(plugin: object) -> str:
    """Returns the name of an object's class: the Java name of a built-in, its own of any other."""
    cls = type(plugin)
    path = f"{cls.__module__}:{cls.__qualname__}"
    names = ((java, ours) for group in _GROUPS for java, ours in group.built_in.items())
    return next((java for java, ours in names if ours == path), _path(cls))


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
    found: type[SourceTask] | type[SinkTask] = cls
    return found


def task_class_name(cls: type[SourceTask] | type[SinkTask]) -> str:
    """Returns the `task.class` to store for a task class, by which `task` finds it again. Raises
    `ConnectorError` if its module may not be imported."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    java = next((java for java, ours in built_in.TASKS.items() if ours == path), None)
    if java is None:
        refuse_unlisted(path)
    return java or _path(cls)


def load_built_in() -> None:
    """Imports every built-in class, so that forked processes need not. Runs no third-party code."""
    groups = (built_in.CONNECTORS, built_in.TASKS, *(g.built_in for g in _GROUPS))
    for paths in groups:
        for path in paths.values():
            _load(path)


def _built_in(name: str, paths: Mapping[str, str], kind: _KindOf) -> tuple[Plugin, ...]:
    """Finds a built-in by its full name, without looking at other installed plugins."""
    path = paths.get(name)
    return () if path is None else (_plugin(_load(path), name, kind, built_in.version_of(name)),)


@cache
def _built_in_connectors() -> tuple[Plugin, ...]:
    return _all_built_in(built_in.CONNECTORS, _connector_kind)


@cache
def _built_in_of(group: _Group) -> tuple[Plugin, ...]:
    return _all_built_in(group.built_in, lambda cls: _kind_in(group, cls))


def _all_built_in(paths: Mapping[str, str], kind: _KindOf) -> tuple[Plugin, ...]:
    return tuple(
        _plugin(_load(path), java, kind, built_in.version_of(java)) for java, path in paths.items()
    )


def _exact(name: str, plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    dotted = name.replace(":", ".")
    return tuple(p for p in plugins if dotted in (p.class_name, _path(p.cls)))


def _match(name: str, plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    return _exact(name, plugins) or tuple(p for p in plugins if name in p.aliases)


def _named(name: str, base: type[Any], kind: _KindOf) -> tuple[Plugin, ...]:
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
    if not _is_a(cls, (base,)):
        return ()
    try:
        instance = cls()
    except _THROWN as error:
        raise ConnectorError(f"{name} cannot be instantiated: {_short_text(error)}") from error
    try:
        version = str(instance.version())
    except _THROWN as error:
        raise ConnectorError(f"{name} does not say its version: {_short_text(error)}") from error
    return (_plugin(cls, _path(cls), kind, version),)


def _registered(group: str, kind: _KindOf) -> list[Plugin]:
    """Returns the plugins of an entry point group that have loaded."""

    def load(entry: EntryPoint) -> Plugin:
        cls = entry.load()
        return _plugin(cls, _path(cls), kind)

    with _lock:
        loading = _loading.get(group)
        if loading is None:
            loading = _loading[group] = Loading(entry_points(group=group), load)
    return loading.found()


def _plugin(
    cls: type[Any], class_name: str, kind_of: _KindOf, version: str | None = None
) -> Plugin:
    """Returns the class as a plugin; without `version`, of the one that the class itself tells."""
    kind = kind_of(cls)
    if kind is None:
        raise ConnectorError(f"{class_name} is no plugin of the kind that is wanted")
    return Plugin(
        cls=cls, class_name=class_name, kind=kind, version=version or str(cls().version())
    )


def _connector_kind(cls: object) -> Kind | None:
    return next((kind for kind, base in _CONNECTORS.items() if _is_a(cls, (base,))), None)


def _kind_in(group: _Group, cls: object) -> Kind | None:
    return group.kind if _is_a(cls, (group.base,)) else None


def _is_a(found: object, bases: tuple[type[Any], ...]) -> bool:
    return isinstance(found, type) and issubclass(found, bases)


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
