"""What can be said of a config's keys and values without the plugin's code? Pure.

Wrong types, missing keys and unknown ones, as definitions tell; and slips, which no definition
forbids and nobody can have meant, such as a predicate that no list names, which fails every task,
or an option that a transformation does not have. Values that hold a reference are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from connect_reconciler.model.config_values import LEDGER_KEY
from connect_runtime.api.configdef import ConfigType, parse_value
from connect_runtime.api.errors import ConfigError
from connect_runtime.config_providers.references import holds_reference
from connect_specs.client_properties import CLIENT_PROPERTIES, near_client_property
from connect_specs.fields import typo_of
from connect_specs.names import is_topic_name
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    Definitions,
    KeyDefinition,
    Keys,
    elements,
    parts_of,
)

_CHECKED: Final = (
    ConfigType.BOOLEAN,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
)
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_CHAINS: Final = {"transforms": "transformation", "predicates": "predicate"}
_OF_A_PART: Final = ("type", "predicate", "negate", "plugin.version")
# Connect's own tell all of their options; others may read more
_COMPLETE: Final = "org.apache.kafka.connect.transforms."
# Connectors pass whole families of keys on, to a driver or a client, and tell nobody. To add a
# connector's, add a line: a pattern of its class, and how those keys begin.
_EVERYWHERE: Final = ("producer.override.", "consumer.override.", "admin.override.")
_PASSED_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "io.debezium.*": (
        "custom.metric.",
        "database.",
        "driver.",
        "internal.",
        "mongodb.",
        "notification.",
        "offset.",
        "openlineage.",
        "schema.history.internal.",
        "signal.",
        "snapshot.",
        "topic.",
    ),
    "io.confluent.*": ("confluent.", "connection.", "hadoop.", "kafka.", "reporter.", "store."),
    "io.aiven.*": ("aws.", "connection.", "gcs."),
    "com.mongodb.*": ("topic.override.",),
    "*.iceberg.connect.*": (
        "iceberg.catalog.",
        "iceberg.hadoop.",
        "iceberg.kafka.",
        "iceberg.table.",
        "iceberg.tables.auto-create-props.",
        "iceberg.tables.write-props.",
    ),
    "org.apache.kafka.connect.mirror.*": (
        "admin.",
        "config.property.filter.",
        "consumer.",
        "group.filter.",
        "producer.",
        "replication.policy.",
        "source.",
        "target.",
        "topic.filter.",
    ),
}
_ALIAS: Final = re.compile(r"[\w-]+")
# What an option that names parts, such as `converters: isbn`, is followed by
_KINDS_OF_PARTS: Final = ("type", "class")
_TOPICS_OF_SINKS: Final = ("topics", "errors.deadletterqueue.topic.name")
_OPEN_REFERENCE: Final = re.compile(r"\$\{[\w-]+:[^{}]*\Z")
_CLIENTS: Final = ("admin", "consumer", "producer")
_OVERRIDE: Final = "override"


@dataclass(frozen=True, slots=True)
class Finding:
    """What there is to say of a key."""

    key: str
    what: str
    hint: str = ""


def wrong_values(config: Mapping[str, str], keys: Keys) -> Iterator[Finding]:
    """Values of the wrong type and keys that are missing, in Connect's words."""
    for key in keys.values():
        if key.name not in config:
            if key.required:
                yield Finding(key.name, _missing(key.name))
        elif not holds_reference(config[key.name]):
            error = _type_error(key, config[key.name])
            if error:
                yield Finding(key.name, error)
    for chain in _CHAINS:
        for alias in elements(config.get(chain, "")):
            name = f"{chain}.{alias}.type"
            if name not in config and name not in keys and not holds_reference(config[chain]):
                yield Finding(name, _missing(name))


def unknown_keys(config: Mapping[str, str], keys: Keys) -> Iterator[Finding]:
    """Keys that nothing reads, as far as definitions tell, each with what may be meant."""
    dynamic = _dynamic_prefixes(config.get(CLASS_KEY, ""), config)
    for key in config:
        if key in keys or key in (CLASS_KEY, "name", LEDGER_KEY) or key.startswith(dynamic):
            continue
        owner = next((each for each in (*_CONVERTERS, *_CHAINS) if key.startswith(f"{each}.")), "")
        if owner in _CONVERTERS:
            yield from _of_converter(key, owner, config, keys)
        elif owner:
            yield from _of_chain(key, owner, config, keys)
        else:
            what = f"{config.get(CLASS_KEY, 'the connector')} defines no key {key}"
            hint = _near(key, keys) or "remove it, unless the connector passes it on"
            yield Finding(key, what, hint)


def slips(config: Mapping[str, str], *, is_sink: bool) -> Iterator[Finding]:
    """All of a config, by key."""
    for key, value in config.items():
        yield from _override(key)
        if _OPEN_REFERENCE.search(value):
            yield Finding(key, f"the reference in {key} is not closed", "end it with '}'")
        elif is_sink and key in _TOPICS_OF_SINKS and not holds_reference(value):
            yield from _topics(key, value)


def sensitive_slips(globs: Iterable[str], config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Entries of `sensitive` that are no key, each with the key that it nearly is."""
    for glob in globs:
        near = typo_of(glob, config) if glob not in config else None
        if near and not re.search(r"[*?\[]", glob):
            yield glob, near


def undefined_predicates(config: Mapping[str, str]) -> Iterator[Finding]:
    """Predicates of transformations that `predicates` does not list."""
    listed = config.get("predicates", "")
    for alias in elements(config.get("transforms", "")):
        key = f"transforms.{alias}.predicate"
        name = config.get(key, "").strip()
        known = elements(listed)
        if not name or name in known or any(map(holds_reference, (name, listed))):
            continue
        near = next(iter(get_close_matches(name, known, 1)), None)
        what = f"{key} names a predicate {name}, and 'predicates' does not list it"
        hint = f"did you mean {near}?" if near else f"add {name} to 'predicates', with its type"
        yield Finding(key, what, hint)


def mistyped_options(config: Mapping[str, str], plugins: Definitions) -> Iterator[Finding]:
    """Options of Connect's own transformations and predicates that nearly have the name of one."""
    for part in parts_of(config):
        plugin = plugins.find(part.name, part.types) if part.types[0] in _CHAINS.values() else None
        if plugin is None or not plugin.class_name.startswith(_COMPLETE):
            continue
        options = (*plugin.keys, *_OF_A_PART)
        for key in config:
            option = key.removeprefix(part.prefix)
            near = None if option == key or option in options else typo_of(option, options)
            if near:
                what = f"{part.name} has no option {option}"
                yield Finding(key, what, f"did you mean {part.prefix}{near}?")


def _dynamic_prefixes(class_name: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """How keys may begin in a config of this class without being defined."""
    found = [*_EVERYWHERE, "topic.creation.default."]
    for group in elements(config.get("topic.creation.groups", "")):
        found.append(f"topic.creation.{group}.")
    for pattern, prefixes in _PASSED_ON.items():
        if fnmatchcase(class_name, pattern):
            found.extend(prefixes)
    found.extend(_aliases(config))
    return tuple(found)


def _aliases(config: Mapping[str, str]) -> Iterator[str]:
    """Yields how the keys of parts begin that a connector names itself: `converters: isbn` with
    `isbn.type` makes room for all of `isbn.*`."""
    for key, value in config.items():
        for alias in () if key in _CHAINS else elements(value):
            named = any(f"{alias}.{kind}" in config for kind in _KINDS_OF_PARTS)
            if named and _ALIAS.fullmatch(alias) and alias not in _CHAINS:
                yield f"{alias}."


def _of_converter(key: str, owner: str, config: Mapping[str, str], keys: Keys) -> Iterator[Finding]:
    """A converter takes more than it defines, such as a client's keys: only slips are told."""
    hint = _near(key, keys, f"{owner}.")
    if owner not in config:
        what = f"{key} has no effect: the worker's converter is used, with the worker's settings"
        yield Finding(key, what, f"set {owner} here as well")
    elif hint and not key.endswith("plugin.version"):
        yield Finding(key, f"{config[owner]} defines no key {key}", hint)


def _of_chain(key: str, owner: str, config: Mapping[str, str], keys: Keys) -> Iterator[Finding]:
    alias, _, rest = key.removeprefix(f"{owner}.").partition(".")
    if holds_reference(config.get(owner, "")):
        return
    aliases = elements(config.get(owner, ""))
    if alias not in aliases:
        near = next(iter(get_close_matches(alias, aliases, 1)), None)
        what = f"{key} has no effect: '{owner}' names no {_CHAINS[owner]} {alias}"
        yield Finding(key, what, f"did you mean {near}?" if near else f"add {alias} to '{owner}'")
        return
    hint = _near(key, keys, f"{owner}.{alias}.")
    if hint and rest not in _OF_A_PART:
        yield Finding(key, f"{config.get(f'{owner}.{alias}.type')} defines no key {rest}", hint)


def _near(key: str, keys: Keys, prefix: str = "") -> str:
    beside = [each.removeprefix(prefix) for each in keys if each.startswith(prefix)]
    near = typo_of(key.removeprefix(prefix), beside)
    return f"did you mean {prefix}{near}?" if near else ""


def _missing(key: str) -> str:
    return f'Missing required configuration "{key}" which has no default value.'


def _type_error(key: KeyDefinition, value: str) -> str:
    kind = next((each for each in _CHECKED if each.value == key.type), None)
    if kind is None:
        return ""
    try:
        parse_value(key.name, value, kind)
    except ConfigError as error:
        return str(error)
    return ""


def _override(key: str) -> Iterator[Finding]:
    client, _, rest = key.partition(".")
    word, _, name = rest.partition(".")
    if client not in _CLIENTS or not name:
        return
    what = f"Kafka's clients have no property {name}"
    if word != _OVERRIDE:
        if typo_of(word, (_OVERRIDE,)):
            meant = f"{client}.{_OVERRIDE}.{name}"
            yield Finding(key, f"{key} overrides nothing", f"did you mean {meant}?")
    elif name not in CLIENT_PROPERTIES:
        near = near_client_property(name)
        if near:
            yield Finding(key, what, f"did you mean {client}.{_OVERRIDE}.{near}?")


def _topics(key: str, value: str) -> Iterator[Finding]:
    for topic in elements(value):
        if not is_topic_name(topic):
            what = f"{key} names {topic!r}, which is no name that Kafka allows for a topic"
            yield Finding(key, what, "letters, digits, '.', '_' and '-', at most 249")
