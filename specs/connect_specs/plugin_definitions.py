"""Holds plugins' config definitions, and finds the plugins that a connector's config names.

The same shape from a cluster, from the lock file or from this installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Final, Protocol, TypeAlias

from connect_specs.client_properties import CLIENT_PROPERTIES

CLASS_KEY: Final = "connector.class"
SOURCE, SINK = "source", "sink"
CONNECTORS: Final = (SINK, SOURCE)
_CONNECT_KEYS: Final = frozenset(
    """
    name connector.class connector.plugin.version task.class tasks.max tasks.max.enforce
    config.action.reload key.converter key.converter.plugin.version value.converter
    value.converter.plugin.version header.converter header.converter.plugin.version transforms
    predicates topics topics.regex exactly.once.support transaction.boundary
    transaction.boundary.interval.ms offsets.storage.topic topic.creation.groups
    errors.retry.timeout errors.retry.delay.max.ms errors.tolerance errors.log.enable
    errors.log.include.messages errors.deadletterqueue.topic.name
    errors.deadletterqueue.topic.replication.factor errors.deadletterqueue.context.headers.enable
    java.jvm.options java.tasks.jvm
    """.split()
)
# Those of every transformation and predicate
PART_KEYS: Final = ("type", "predicate", "negate", "plugin.version")
_TOPIC_CREATION: Final = "topic.creation."
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
# Required by Connect's own converters, and set by the worker, never by a config
_SET_BY_WORKER: Final = "converter.type"

# Minimum similarity of a typo to the name that was meant
_CLOSE: Final = 0.75
# The ends that short names of classes leave out, by kind
SUFFIXES: Final[Mapping[str, str]] = {
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
        """Returns True if a config may name it like this: by its class, or one of its two short
        names."""
        if name.replace(":", ".") == self.class_name:
            return True
        simple = self.class_name.rpartition(".")[2]
        # Connect knows no short names of nested classes
        return "$" not in simple and name in (simple, simple.removesuffix(SUFFIXES[self.type]))


Keys: TypeAlias = Mapping[str, KeyDefinition]


class Definitions(Protocol):
    """A source of plugin definitions: a cluster, a lock file, this installation."""

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """Returns the plugin of one of these types with this name, full or short."""
        ...

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        """Returns the classes of all plugins of these types."""
        ...

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        """Returns the request that failed, if the plugin's keys could not be asked for.

        Empty if they are known, and if there is no such plugin.
        """
        ...


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Definitions in memory."""

    plugins: tuple[PluginDefinition, ...] = ()

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """Returns the plugin of this name; a full name takes precedence over short ones."""
        fitting = [p for p in self.plugins if p.type in types and p.has_name(name)]
        exact = [plugin for plugin in fitting if plugin.class_name == name]
        return next(iter(exact or fitting), None)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return frozenset(plugin.class_name for plugin in self.plugins if plugin.type in types)

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
    keys: dict[str, KeyDefinition] = {}
    for part in parts_of(config):
        plugin = definitions.find(part.name, part.types)
        for key in () if plugin is None else plugin.keys.values():
            name, required = f"{part.prefix}{key.name}", key.required and key.name != _SET_BY_WORKER
            keys[name] = replace(key, name=name, required=required)
    return keys


def passwords_in(config: Mapping[str, str], definitions: Definitions) -> frozenset[str]:
    """Returns the keys whose type is PASSWORD in the plugins that this config names."""
    connector = definitions.find(config.get(CLASS_KEY, ""), CONNECTORS)
    own = () if connector is None else connector.keys.values()
    return passwords((*own, *keys_of_parts(config, definitions).values()))


def passwords(keys: Iterable[KeyDefinition]) -> frozenset[str]:
    """Returns the names of the keys whose type is PASSWORD."""
    return frozenset(key.name for key in keys if key.type == "PASSWORD")


def untyped_keys(
    config: Mapping[str, str],
    definitions: Definitions,
    task_configs: Iterable[Mapping[str, str]] = (),
) -> dict[str, str]:
    """Returns the keys whose types could not be asked for, each with the request that failed: they
    may hold secrets.

    Connect's own keys have types that are known without any plugin. `task_configs` are further
    configs of the same connector.
    """
    unanswered = definitions.unanswered(config.get(CLASS_KEY, ""), CONNECTORS)
    # The longest prefix first: an alias may begin like another
    parts = sorted(parts_of(config), key=lambda part: -len(part.prefix))
    reasons = [(part.prefix, definitions.unanswered(part.name, part.types)) for part in parts]
    if not unanswered and not any(reason for _, reason in reasons):
        return {}
    untyped: dict[str, str] = {}
    for key in {key for keys in (config, *task_configs) for key in keys}:
        prefix, reason = next((r for r in reasons if key.startswith(r[0])), ("", unanswered))
        typed = key.removeprefix(prefix) in PART_KEYS if prefix else is_of_connect(key)
        if reason and not typed:
            untyped[key] = reason
    return dict(sorted(untyped.items()))


def is_of_connect(key: str) -> bool:
    """Returns True if Connect itself or a Kafka client defines the key, whatever the connector
    is."""
    if key in _CONNECT_KEYS or key.startswith(_TOPIC_CREATION):
        return True
    prefix = next((prefix for prefix in _CLIENTS if key.startswith(prefix)), None)
    return prefix is not None and key.removeprefix(prefix) in CLIENT_PROPERTIES


def nearest_class(name: str, class_names: Iterable[str], types: tuple[str, ...]) -> str | None:
    """Returns the class that a mistyped name may mean: short if the name is short, and the class
    has a short name, else in full."""
    dotted = name.replace(":", ".")
    typed = dotted.rpartition(".")[2]
    suffixes = {SUFFIXES[type_] for type_ in types}
    # `Connector` at the end of both would make any two names alike
    stem = _stem(typed, suffixes)
    near: list[tuple[float, float, str]] = []
    for class_name in sorted(class_names):
        simple = class_name.rpartition(".")[2]
        short = _stem(simple, suffixes)
        for form in (short, simple) if stem == typed else (short,):
            similarity = _similarity(stem, form)
            if similarity >= _CLOSE:
                nickname = form if stem == typed else simple
                hint = class_name if "." in dotted or "$" in simple else nickname
                near.append((similarity, _similarity(dotted, class_name), hint))
    return max(near)[2] if near else None


def _stem(simple: str, suffixes: Iterable[str]) -> str:
    stems = (simple.removesuffix(suffix) for suffix in suffixes if simple.endswith(suffix))
    return next(stems, simple) or simple


def _similarity(name: str, class_name: str) -> float:
    return SequenceMatcher(None, name.lower(), class_name.lower()).ratio()


def elements(value: str) -> tuple[str, ...]:
    """Returns the elements of a config value of type LIST."""
    return tuple(element.strip() for element in value.split(",") if element.strip())
