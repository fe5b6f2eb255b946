"""Defines and checks the keys of the transformations and predicates that a config lists by alias.

The options of each are embedded under its alias: `transforms.<alias>.<option>`, in a group of its
own, in Connect's order. `predicate` and `negate` hide options of those names (KIP-585).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Described,
    Importance,
    Validator,
    Width,
)
from connect_runtime.java.scalars import java_list
from connect_runtime.plugins import registry
from connect_runtime.plugins.definitions import NoDefinition, definition_of
from connect_runtime.plugins.registry import PluginKind
from connect_runtime.validation.connector_keys import Recommended, versions
from connect_runtime.validation.infos import Findings
from connect_runtime.validation.plugin_choice import Choice, choose

Config = Mapping[str, str | None]

_VERSION: Final = "plugin.version"
_CONNECTS: Final = "org.apache.kafka.connect.transforms."
_IMPORTANCES: Final = tuple(Importance)
# Connect's options of any transformation
_CONDITIONS: Final = (
    ConfigDef()
    .define(
        "predicate",
        ConfigType.STRING,
        None,
        doc="Alias of the predicate that decides which records are transformed",
    )
    .define(
        "negate",
        ConfigType.BOOLEAN,
        False,
        doc="Whether to transform the records for which the predicate does not hold",
    )
)


@dataclass(frozen=True, slots=True)
class _PluginChain:
    """The transformations of a config, or its predicates; `key` lists their aliases."""

    key: str
    kind: PluginKind
    title: str


_CHAINS: Final = (
    _PluginChain("transforms", "transformation", "Transformation"),
    _PluginChain("predicates", "predicate", "Predicate"),
)


@dataclass(frozen=True, slots=True)
class Member:
    """One transformation or predicate of a config. `choice` is None if the config names no class
    for it."""

    chain: _PluginChain
    alias: str
    choice: Choice | None

    @property
    def prefix(self) -> str:
        """Returns the prefix of its keys."""
        return f"{self.chain.key}.{self.alias}."


def members(config: Config) -> tuple[Member, ...]:
    """Returns the transformations, then the predicates, that a config lists."""
    return tuple(
        Member(chain, alias, _choice(config, chain.kind, f"{chain.key}.{alias}."))
        for chain in _CHAINS
        for alias in _aliases(chain.key, config)
    )


def member_definitions(members: tuple[Member, ...]) -> ConfigDef:
    """Returns the keys of each, with the options of its class if that can be used."""
    definitions = ConfigDef()
    for member in members:
        plugin = None if member.choice is None else member.choice.plugin
        _add_class(definitions, member, None if plugin is None else plugin.version)
        usable = None if member.choice is None else member.choice.usable
        if usable is None:
            continue
        with suppress(NoDefinition):  # an error of its key, by `check_members`
            options = _options(member, definition_of(usable))
            definitions.embed(_embedded(member, options, order=2))
    return definitions


def generic_definitions(members: tuple[Member, ...]) -> ConfigDef:
    """Returns the keys that each has on any cluster: the options of Connect's own classes, and of
    all others only those that every class has."""
    definitions = ConfigDef()
    for member in members:
        _add_class(definitions, member, None)
        usable = None if member.choice is None else member.choice.usable
        own = ConfigDef()
        if usable is not None and usable.class_name.startswith(_CONNECTS):
            own = definition_of(usable)
        definitions.embed(_embedded(member, _options(member, own), order=2))
    return definitions


def check_members(config: Config, members: tuple[Member, ...], findings: Findings) -> None:
    """Checks the classes, their versions, and negated predicates."""
    for member in members:
        key, choice = f"{member.prefix}type", member.choice or Choice()
        negated = _negation_error(member, config)
        if member.choice is not None:
            findings.values[key].value = choice.class_name
        if choice.class_name is None and choice.error:
            findings.error(key, choice.error)
        if negated:
            findings.error(key, negated)
        elif choice.class_name is not None and (choice.error or choice.version_error):
            findings.error(key, choice.error or choice.version_error)
        if choice.version_error:
            findings.error(f"{member.prefix}{_VERSION}", choice.version_error)
        if choice.usable is not None:
            try:
                definition_of(choice.usable)
            except NoDefinition as error:
                findings.error(key, _undefined(key, member, error))


def _undefined(key: str, member: Member, error: NoDefinition) -> str:
    kind = member.chain.title
    reason = f"Error getting config definition from {kind}: {error}"
    name = None if member.choice is None else member.choice.class_name
    return str(ConfigError.invalid(key, f"class {name}", reason))


def check_negations(config: Config, members: tuple[Member, ...], findings: Findings) -> None:
    """Checks negated predicates only."""
    for member in members:
        negated = _negation_error(member, config)
        if negated:
            findings.error(f"{member.prefix}type", negated)


def _choice(config: Config, kind: PluginKind, prefix: str) -> Choice | None:
    key = f"{prefix}type"
    name = config.get(key)
    return None if name is None else choose(kind, key, name, config.get(f"{prefix}{_VERSION}"))


def _aliases(key: str, config: Config) -> list[str]:
    """Returns the aliases in a list, each once: duplicates are a separate error."""
    return list(dict.fromkeys(java_list(config.get(key) or "")))


def _negation_error(member: Member, config: Config) -> str:
    negate, predicate = f"{member.prefix}negate", f"{member.prefix}predicate"
    if member.chain.kind != "transformation" or negate not in config or predicate in config:
        return ""
    return (
        f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate "
        "to be negated."
    )


def _add_class(definitions: ConfigDef, member: Member, version: str | None) -> None:
    title, alias, kind = member.chain.title, member.alias, member.chain.kind
    classes = tuple(plugin.class_name for plugin in registry.plugins(kind))
    installed = None if version == "undefined" else version
    rows: tuple[tuple[str, ConfigType, Any, str, Recommended], ...] = (
        ("type", ConfigType.CLASS, NO_DEFAULT, "Class", Recommended(classes)),
        (_VERSION, ConfigType.STRING, installed, "Version", versions(version)),
    )
    for order, (key, type, default, name, recommender) in enumerate(rows):
        definitions.define(
            f"{member.prefix}{key}",
            type,
            default,
            importance=Importance.HIGH,
            doc=f"{name} of the {kind} '{alias}'",
            group=_group(member),
            order=order,
            width=Width.LONG,
            display_name=f"{title} {key.removeprefix('plugin.')} for {alias}",
            recommender=recommender,
        )


def _group(member: Member) -> str:
    return f"{member.chain.key.capitalize()}: {member.alias}"


def _options(member: Member, own: ConfigDef) -> list[ConfigKey]:
    """Returns its options in Connect's order: required ones first, then by importance and name."""
    shared = _CONDITIONS if member.chain.kind == "transformation" else ConfigDef()
    hidden = {*shared.keys, "type", _VERSION}
    options = ConfigDef().embed(shared).embed(key for key in own if key.name not in hidden)
    groups = options.groups

    def place(key: ConfigKey) -> tuple[Any, ...]:
        group = -1 if key.group is None else groups.index(key.group)
        return group, key.order, not key.required, _IMPORTANCES.index(key.importance), key.name

    return sorted(options, key=place)


def _embedded(member: Member, options: list[ConfigKey], order: int) -> Iterator[ConfigKey]:
    prefix = member.prefix
    for number, key in enumerate(options, order):
        yield replace(
            key,
            name=f"{prefix}{key.name}",
            validator=key.validator and _unprefixed(prefix, key.validator),
            group=_group(member) + (f": {key.group}" if key.group else ""),
            order=number,
            dependents=tuple(f"{prefix}{name}" for name in key.dependents),
            recommender=key.recommender and _OwnRecommender(prefix, key),
        )


def _unprefixed(prefix: str, validator: Validator) -> Validator:
    """Returns the validator called with the option's own name, which its texts have in Connect."""
    return Described(
        lambda name, value: validator(name.removeprefix(prefix), value), str(validator)
    )


@dataclass(frozen=True, slots=True)
class _OwnRecommender:
    """Recommends values for an option, given the options beside it."""

    prefix: str
    key: ConfigKey

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        assert self.key.recommender is not None
        return list(self.key.recommender.valid_values(self.key.name, self._own(parsed)))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        assert self.key.recommender is not None
        return self.key.recommender.visible(self.key.name, self._own(parsed))

    def _own(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        prefix = self.prefix
        return {k.removeprefix(prefix): v for k, v in parsed.items() if k.startswith(prefix)}
