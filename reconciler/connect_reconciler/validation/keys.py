"""Checks a config's keys and values without the plugin's code. Pure.

By definitions: wrong types, missing and unknown keys. And slips, which no definition forbids, such
as a predicate that is not listed, which fails every task, or an option that a transformation does
not have. Values that hold a reference are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from connect_reconciler.backend.plugins import KeyProblem
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_runtime.api.configdef import ConfigType, parse_value
from connect_runtime.api.errors import ConfigError
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.settings.connector_clients import (
    ALLOWLIST_KEY,
    POLICY_KEY,
    PREFIXES,
    forbidden_overrides,
)
from connect_specs.client_properties import CLIENT_PROPERTIES, near_client_property
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.fields import typo_of
from connect_specs.names import GROUP_KEY, is_topic_name
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    PART_KEYS,
    Definitions,
    Keys,
    elements,
    parts_of,
)

_CHECKED: Final = ("BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_CHAINS: Final = {"transforms": "transformation", "predicates": "predicate"}
# Connect's own define all of their options; others may read more
_COMPLETE: Final = "org.apache.kafka.connect.transforms."
# Connectors pass families of keys on to a driver or a client without defining them. To add a
# connector's, add a line: a pattern of its class, and the prefixes of those keys.
_PASSED_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "io.debezium.*": (
        "column.mask.",
        "column.truncate.",
        "create.slot.",
        "custom.metric.",
        "database.",
        "driver.",
        "hibernate.",
        "internal.",
        "mongodb.",
        "notification.",
        "offset.",
        "openlineage.",
        "schema.history.internal.",
        "signal.",
        "slot.seek.",
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
# the keys of the parts that an option names, such as `converters: isbn`
_KINDS_OF_PARTS: Final = ("type", "class")
_TOPICS_OF_SINKS: Final = ("topics", "errors.deadletterqueue.topic.name")
_OPEN_REFERENCE: Final = re.compile(r"\$\{[\w-]+:[^{}]*\Z")
_CLIENTS: Final = ("admin", "consumer", "producer")
_OVERRIDE: Final = "override"
_COMING: Final = {POLICY_KEY: "Allowlist"}
_ICEBERG_GROUP: Final = "iceberg.connect.group-id"
_SHOWN_MOST: Final = 8


def wrong_values(config: Mapping[str, str], keys: Keys) -> Iterator[KeyProblem]:
    """Yields values of the wrong type and keys that are missing, in Connect's words."""
    for key in keys.values():
        value = config.get(key.name)
        if value is None:
            if key.required:
                yield KeyProblem(key.name, str(ConfigError.missing(key.name)))
        elif key.type in _CHECKED and not holds_reference(value):
            try:
                parse_value(key.name, value, ConfigType(key.type))
            except ConfigError as error:
                yield KeyProblem(key.name, str(error))


def unknown_keys(config: Mapping[str, str], keys: Keys) -> Iterator[KeyProblem]:
    """Yields keys that nothing reads, as far as definitions show, with likely corrections."""
    dynamic = _dynamic_prefixes(config.get(CLASS_KEY, ""), config)
    for key in config:
        if key in keys or key in (CLASS_KEY, "name", LEDGER_KEY) or key.startswith(dynamic):
            continue
        owner = next((o for o in (*_CONVERTERS, *_CHAINS) if key.startswith(f"{o}.")), "")
        if owner in _CONVERTERS:
            yield from _of_converter(key, owner, config, keys)
        elif owner:
            yield from _of_chain(key, owner, config, keys)
        else:
            text = f"{config.get(CLASS_KEY, 'the connector')} defines no key {key}"
            hint = _near(key, keys) or "remove it, unless the connector passes it on"
            yield KeyProblem(key, text, hint)


def slips(config: Mapping[str, str], *, is_sink: bool) -> Iterator[KeyProblem]:
    """Yields the slips of a config, by key."""
    yield from _group_of_iceberg(config)
    for key, value in config.items():
        yield from _override(key)
        if _OPEN_REFERENCE.search(value):
            yield KeyProblem(key, f"the reference in {key} is not closed", "end it with '}'")
        elif is_sink and key in _TOPICS_OF_SINKS and not holds_reference(value):
            yield from _topics(key, value)


def _group_of_iceberg(config: Mapping[str, str]) -> Iterator[KeyProblem]:
    """Yields a group that Iceberg's sink does not know, among whose members it elects the task that
    commits."""
    group = config.get(GROUP_KEY)
    if not group or not fnmatchcase(config.get(CLASS_KEY, ""), "*.iceberg.connect.*"):
        return
    if config.get(_ICEBERG_GROUP) != group:
        text = "Iceberg's sink looks for its tasks in another group, and adds nothing to its tables"
        yield KeyProblem(GROUP_KEY, text, f"write {_ICEBERG_GROUP}: {group}")


def sensitive_slips(globs: Iterable[str], config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields entries of `sensitive` that are no key, with the nearest key."""
    for glob in globs:
        near = typo_of(glob, config) if glob not in config else None
        if near and not re.search(r"[*?\[]", glob):
            yield glob, near


def undefined_predicates(config: Mapping[str, str]) -> Iterator[KeyProblem]:
    """Yields predicates of transformations that `predicates` does not list."""
    predicates = config.get("predicates", "")
    for alias in elements(config.get("transforms", "")):
        key = f"transforms.{alias}.predicate"
        name = config.get(key, "").strip()
        aliases = elements(predicates)
        if not name or name in aliases or any(map(holds_reference, (name, predicates))):
            continue
        near = next(iter(get_close_matches(name, aliases, 1)), None)
        text = f"{key} names a predicate {name}, and 'predicates' does not list it"
        hint = f"did you mean {near}?" if near else f"add {name} to 'predicates', with its type"
        yield KeyProblem(key, text, hint)


def mistyped_options(config: Mapping[str, str], plugins: Definitions) -> Iterator[KeyProblem]:
    """Yields mistyped options of Connect's own transformations and predicates."""
    for use in parts_of(config):
        plugin = plugins.find(use.name, use.types) if use.types[0] in _CHAINS.values() else None
        if plugin is None or not plugin.class_name.startswith(_COMPLETE):
            continue
        options = (*plugin.keys, *PART_KEYS)
        for key in config:
            option = key.removeprefix(use.prefix)
            near = None if option == key or option in options else typo_of(option, options)
            if near:
                text = f"{use.name} has no option {option}"
                yield KeyProblem(key, text, f"did you mean {use.prefix}{near}?")


def _dynamic_prefixes(class_name: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """Returns prefixes of keys that a config of this class may have without definition."""
    starts = [*PREFIXES, "topic.creation.default."]
    for group in elements(config.get("topic.creation.groups", "")):
        starts.append(f"topic.creation.{group}.")
    for pattern, prefixes in _PASSED_ON.items():
        if fnmatchcase(class_name, pattern):
            starts.extend(prefixes)
    starts.extend(_aliases(config))
    return tuple(starts)


def _aliases(config: Mapping[str, str]) -> Iterator[str]:
    """Yields prefixes of keys for which the connector sets names itself: `converters: isbn` with
    `isbn.type` allows all of `isbn.*`."""
    for key, value in config.items():
        for alias in () if key in _CHAINS else elements(value):
            is_named = any(f"{alias}.{kind}" in config for kind in _KINDS_OF_PARTS)
            if is_named and _ALIAS.fullmatch(alias) and alias not in _CHAINS:
                yield f"{alias}."


def _of_converter(
    key: str, owner: str, config: Mapping[str, str], keys: Keys
) -> Iterator[KeyProblem]:
    """Yields slips only: a converter may take more than it defines, such as a client's keys."""
    hint = _near(key, keys, f"{owner}.")
    if owner not in config:
        text = f"{key} has no effect: the worker's converter is used, with the worker's settings"
        yield KeyProblem(key, text, f"set {owner} here as well")
    elif hint and not key.endswith("plugin.version"):
        yield KeyProblem(key, f"{config[owner]} defines no key {key}", hint)


def _of_chain(key: str, owner: str, config: Mapping[str, str], keys: Keys) -> Iterator[KeyProblem]:
    alias, _, option = key.removeprefix(f"{owner}.").partition(".")
    if holds_reference(config.get(owner, "")):
        return
    aliases = elements(config.get(owner, ""))
    if alias not in aliases:
        near = next(iter(get_close_matches(alias, aliases, 1)), None)
        text = f"{key} has no effect: '{owner}' names no {_CHAINS[owner]} {alias}"
        yield KeyProblem(
            key, text, f"did you mean {near}?" if near else f"add {alias} to '{owner}'"
        )
        return
    hint = _near(key, keys, f"{owner}.{alias}.")
    if hint and option not in PART_KEYS:
        yield KeyProblem(
            key, f"{config.get(f'{owner}.{alias}.type')} defines no key {option}", hint
        )


def _near(key: str, keys: Keys, prefix: str = "") -> str:
    names = [name.removeprefix(prefix) for name in keys if name.startswith(prefix)]
    near = typo_of(key.removeprefix(prefix), names)
    return f"did you mean {prefix}{near}?" if near else ""


def _override(key: str) -> Iterator[KeyProblem]:
    client, _, tail = key.partition(".")
    word, _, name = tail.partition(".")
    if client not in _CLIENTS or not name:
        return
    text = f"Kafka's clients have no property {name}"
    if word != _OVERRIDE:
        if typo_of(word, (_OVERRIDE,)):
            meant = f"{client}.{_OVERRIDE}.{name}"
            yield KeyProblem(key, f"{key} overrides nothing", f"did you mean {meant}?")
    elif name not in CLIENT_PROPERTIES:
        near = near_client_property(name)
        if near:
            yield KeyProblem(key, text, f"did you mean {client}.{_OVERRIDE}.{near}?")


def _topics(key: str, value: str) -> Iterator[KeyProblem]:
    for topic in elements(value):
        if not is_topic_name(topic):
            text = f"{key} names {topic!r}, which is no name that Kafka allows for a topic"
            yield KeyProblem(key, text, "letters, digits, '.', '_' and '-', at most 249")


def refused_later(
    project: Project, connectors: Iterable[tuple[str, Mapping[str, str], bool]], code: str
) -> tuple[Diagnostic, ...]:
    """Returns one warning for all connectors whose client overrides workers of Kafka 5.0 will
    refuse: their default policy allows listed properties, and they list none (KIP-1188). Connectors
    are names, configs, and True for a sink. Nothing if connect.yaml names the workers' policy."""
    if POLICY_KEY in project.worker:
        return ()
    overrides: dict[str, list[str]] = {}
    for name, config, is_sink in connectors:
        for key, _ in forbidden_overrides(config, _COMING, "sink" if is_sink else "source"):
            overrides.setdefault(name, []).append(key)
    if not overrides:
        return ()
    first = sorted(overrides)[:_SHOWN_MOST]
    names = [f"{name} ({', '.join(sorted(overrides[name]))})" for name in first]
    count = len(overrides) - len(first)
    more = f" and {count} more connectors" if count else ""
    text = (
        "overrides of client properties that workers of Kafka 5.0 refuse unless they list them: "
        f"{'; '.join(names)}{more}"
    )
    properties = ",".join(sorted({_property(key) for keys in overrides.values() for key in keys}))
    place = "under cluster.worker" if project.uses_runtime else "on the workers"
    also = "" if project.uses_runtime else ", and write the policy under cluster.worker as well"
    hint = f"set {POLICY_KEY} {place}: Allowlist, with {ALLOWLIST_KEY}: {properties}; or All{also}"
    return (warning(code, text, project.file.name, hint=hint),)


def _property(key: str) -> str:
    return next(key.removeprefix(prefix) for prefix in PREFIXES if key.startswith(prefix))
