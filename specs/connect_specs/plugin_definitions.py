"""Holds plugins' config definitions, and finds the plugins that a connector's config names.

The same shape from a cluster, from the lock file or from this installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Final, Protocol, TypeAlias

CLASS_KEY: Final = "connector.class"
SOURCE, SINK = "source", "sink"
CONNECTORS: Final = (SINK, SOURCE)
# Required by Connect's own converters, and set by the worker, never by a config
_SET_BY_WORKER: Final = "converter.type"

# Minimum similarity of a typo to the name that was meant
_CLOSE: Final = 0.75
_SUFFIXES: Final[Mapping[str, str]] = {
    SINK: "Connector",
    SOURCE: "Connector",
    "transformation": "Transformation",
    "predicate": "Predicate",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
}
_CONVERTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "key.converter": ("converter",),
    "value.converter": ("converter",),
    "header.converter": ("header_converter",),
}
_CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "transforms": ("transformation",),
    "predicates": ("predicate",),
}


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """One config key: `type` is a ConfigDef type's name, `default` text as Connect writes it."""

    name: str
    type: str
    required: bool = False
    default: str | None = None
    importance: str = "MEDIUM"
    dependents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginDefinition:
    """A plugin and its keys, sorted by name. `version` None: it reports none."""

    class_name: str
    type: str
    version: str | None
    keys: Mapping[str, KeyDefinition] = field(default_factory=dict)

    def has_name(self, name: str) -> bool:
        """Whether a config may name it like this: by its class, or one of its two short names."""
        if name.replace(":", ".") == self.class_name:
            return True
        simple = self.class_name.rpartition(".")[2]
        # Connect knows no short names of nested classes
        return "$" not in simple and name in (simple, simple.removesuffix(_SUFFIXES[self.type]))


Keys: TypeAlias = Mapping[str, KeyDefinition]


class Definitions(Protocol):
    """A source of plugin definitions: a cluster, a lock file, this installation."""

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """Returns the plugin of one of these types with this name, full or short."""
        ...

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        """The classes of all plugins of these types."""
        ...

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        """The request that failed, where the plugin's keys could not be asked for.

        Empty if they are known, and if there is no such plugin.
        """
        ...


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Definitions in memory."""

    plugins: tuple[PluginDefinition, ...] = ()

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """A full name takes precedence over short ones."""
        fitting = [each for each in self.plugins if each.type in types and each.has_name(name)]
        exact = [each for each in fitting if each.class_name == name]
        return next(iter(exact or fitting), None)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return frozenset(each.class_name for each in self.plugins if each.type in types)

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class PluginPart:
    """A plugin that a connector's config names at `key`; its own keys begin with `prefix`."""

    key: str
    name: str
    types: tuple[str, ...]
    prefix: str


def parts_of(config: Mapping[str, str]) -> Iterator[PluginPart]:
    """Yields the converters, transformations and predicates that the config itself names."""
    for key, types in _CONVERTERS.items():
        if config.get(key):
            yield PluginPart(key, config[key], types, f"{key}.")
    for chain, types in _CHAINS.items():
        for alias in elements(config.get(chain, "")):
            prefix = f"{chain}.{alias}."
            name = config.get(f"{prefix}type")
            if name:
                yield PluginPart(f"{prefix}type", name, types, prefix)


def keys_of(config: Mapping[str, str], definitions: Definitions) -> Keys | None:
    """Returns all keys that the config's plugins define, as the config writes them.

    None if its connector class is unknown.
    """
    connector = definitions.find(config.get(CLASS_KEY, ""), CONNECTORS)
    if connector is None:
        return None
    return {**connector.keys, **keys_of_parts(config, definitions)}


def keys_of_parts(config: Mapping[str, str], definitions: Definitions) -> dict[str, KeyDefinition]:
    """Returns the keys of converters, transformations and predicates that the config names."""
    found: dict[str, KeyDefinition] = {}
    for part in parts_of(config):
        plugin = definitions.find(part.name, part.types)
        for key in () if plugin is None else plugin.keys.values():
            name, required = f"{part.prefix}{key.name}", key.required and key.name != _SET_BY_WORKER
            found[name] = replace(key, name=name, required=required)
    return found


def nearest_class(name: str, class_names: Iterable[str], types: tuple[str, ...]) -> str | None:
    """Returns the class that a mistyped name may mean: short if the name is short, and the class
    has a short name, else in full."""
    dotted = name.replace(":", ".")
    typed = dotted.rpartition(".")[2]
    suffixes = {_SUFFIXES[each] for each in types}
    # `Connector` at the end of both would make any two names alike
    stem = _stem(typed, suffixes)
    near: list[tuple[float, float, str]] = []
    for each in sorted(class_names):
        simple = each.rpartition(".")[2]
        short = _stem(simple, suffixes)
        for form in (short, simple) if stem == typed else (short,):
            likeness = _likeness(stem, form)
            if likeness >= _CLOSE:
                spoken = form if stem == typed else simple
                full = _likeness(dotted, each)
                near.append((likeness, full, each if "." in dotted or "$" in simple else spoken))
    return max(near)[2] if near else None


def _stem(simple: str, suffixes: Iterable[str]) -> str:
    fitting = (simple.removesuffix(each) for each in suffixes if simple.endswith(each))
    return next(fitting, simple) or simple


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def elements(value: str) -> tuple[str, ...]:
    """Returns the elements of a config value of type LIST."""
    return tuple(each.strip() for each in value.split(",") if each.strip())
