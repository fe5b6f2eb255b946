"""What definitions of keys say about a config: wrong types, missing keys, unknown ones. Pure.

No more than can be told without the plugin's code; values that hold a reference are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from connect_reconciler.plan.checks.dynamic_keys import dynamic_prefixes
from connect_reconciler.plan.reserved import LEDGER_KEY
from connect_runtime.api.configdef import ConfigType, parse_value
from connect_runtime.api.errors import ConfigError
from connect_runtime.config_providers.references import holds_reference
from connect_specs.fields import slip_of
from connect_specs.plugin_definitions import (
    CONNECTORS,
    Definitions,
    KeyDefinition,
    elements,
    parts_of,
)

CLASS_KEY: Final = "connector.class"

Keys = Mapping[str, KeyDefinition]

_CHECKED: Final = (
    ConfigType.BOOLEAN,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
)
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_CHAINS: Final = {"transforms": "transformation", "predicates": "predicate"}
# Required by Connect's own converters, and set by the worker, never by a config
_SET_BY_WORKER: Final = "converter.type"
_OF_A_PART: Final = ("type", "predicate", "negate", "plugin.version")


@dataclass(frozen=True, slots=True)
class Finding:
    """What there is to say of a key."""

    key: str
    what: str
    hint: str = ""


def keys_of(config: Mapping[str, str], definitions: Definitions) -> Keys | None:
    """All keys that the config's plugins define, as the config writes them.

    None where its class is not known.
    """
    connector = definitions.find(config.get(CLASS_KEY, ""), CONNECTORS)
    if connector is None:
        return None
    return {**connector.keys, **keys_of_parts(config, definitions)}


def keys_of_parts(config: Mapping[str, str], definitions: Definitions) -> dict[str, KeyDefinition]:
    """The keys of converters, transformations and predicates that the config names."""
    found: dict[str, KeyDefinition] = {}
    for part in parts_of(config):
        plugin = definitions.find(part.name, part.types)
        for key in () if plugin is None else plugin.keys.values():
            name, required = f"{part.prefix}{key.name}", key.required and key.name != _SET_BY_WORKER
            found[name] = replace(key, name=name, required=required)
    return found


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
    dynamic = dynamic_prefixes(config.get(CLASS_KEY, ""), config)
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
    near = slip_of(key.removeprefix(prefix), beside)
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
