"""Validation results, in Connect's shape (`PUT .../config/validate`).

Values with references to config providers are shown as written, unlike in Apache's answer, and no
error quotes a provided value. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.api import ConfigDef, ConfigKey, ConfigType, ConfigValue
from connect_runtime.api.configdef import config_text
from connect_runtime.config_providers.references import PROVIDERS, aliases, references, undeclared
from connect_runtime.config_providers.registry import UnresolvedReference
from connect_specs.secrets import Redactor, is_reference

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A value as text, its recommended values, and its errors."""

    name: str
    value: str | None
    recommended: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A key and its value; a key without a definition is unknown to the connector. `is_option`: of
    a converter or a client, whose errors Connect counts as one."""

    key: ConfigKey | None
    value: ValueInfo | None
    is_option: bool = False

    @property
    def error_count(self) -> int:
        """Returns how many errors Connect counts."""
        count = len(self.value.errors) if self.value else 0
        return min(count, 1) if self.is_option else count


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """All keys of a config. `name` is `connector.class` as it was given."""

    name: str
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def error_count(self) -> int:
        """Returns how many errors Connect counts."""
        return sum(info.error_count for info in self.configs)

    @property
    def errors(self) -> tuple[str, ...]:
        """Returns all error texts, in the order of the keys."""
        return tuple(e for info in self.configs if info.value for e in info.value.errors)


@dataclass(slots=True)
class Findings:
    """Collects validation results by key; rules add to it."""

    values: dict[str, ConfigValue] = field(default_factory=dict)

    def take(self, values: Iterable[ConfigValue]) -> None:
        """Adds results; a later one replaces an earlier one of the same key."""
        for value in values:
            self.values[value.name] = value

    def error(self, key: str, text: str) -> None:
        """Adds an error to a key."""
        self.values.setdefault(key, ConfigValue(key)).errors.append(text)

    def infos(
        self, name: str, keys: Mapping[str, ConfigKey], groups: tuple[str, ...]
    ) -> ConfigInfos:
        """Returns keys without a definition first, then the others in the order of definition."""
        unknown = [
            ConfigInfo(None, value_info(value, None))
            for key, value in self.values.items()
            if key not in keys
        ]
        defined = [
            ConfigInfo(key, value_info(self.values[key.name], key.type))
            if key.name in self.values
            else ConfigInfo(key, None)
            for key in keys.values()
        ]
        return ConfigInfos(name, groups, (*unknown, *defined))


def value_info(value: ConfigValue, type: ConfigType | None) -> ValueInfo:
    """Returns the value as text. Without a type, it is text already."""
    kind = type or ConfigType.STRING
    element = ConfigType.STRING if kind is ConfigType.LIST else kind
    recommended = (config_text(entry, element) for entry in value.recommended_values)
    return ValueInfo(
        value.name,
        config_text(value.value, kind),
        tuple(text for text in recommended if text is not None),
        tuple(value.errors),
        value.visible,
    )


def prefixed(
    prefix: str, definitions: ConfigDef, values: Mapping[str, ConfigValue]
) -> tuple[ConfigInfo, ...]:
    """Returns the options of a plugin, such as a converter, under their names in a config."""
    infos = []
    for key in definitions:
        name, info = f"{prefix}{key.name}", value_info(values[key.name], key.type)
        infos.append(ConfigInfo(replace(key, name=name), replace(info, name=name)))
    return tuple(infos)


# references to config providers


def referring_keys(config: Config, worker: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys whose values refer to a provider that the worker's properties declare."""
    declared = aliases(worker)
    return frozenset(
        key
        for key, value in config.items()
        if value is not None
        and any(reference.provider in declared for reference in references(value))
    )


def as_written(
    infos: ConfigInfos,
    config: Config,
    referring: Collection[str],
    problems: Collection[UnresolvedReference],
    redactor: Redactor,
) -> ConfigInfos:
    """Turns the answer about a resolved config into one about `config`: values of `referring` keys
    as written, texts redacted, and `problems` as the only errors of their keys."""
    texts: dict[str, tuple[str, ...]] = {}
    for problem in problems:
        texts[problem.key] = (*texts.get(problem.key, ()), problem.text)
    configs: list[ConfigInfo] = []
    for info in infos.configs:
        value = info.value
        if value is None:
            configs.append(info)
            continue
        shown_value = replace(
            value,
            value=_as_written(info, config) if value.name in referring else value.value,
            recommended=tuple(map(redactor.redact, value.recommended)),
            errors=texts.pop(value.name, tuple(map(redactor.redact, value.errors))),
        )
        configs.append(replace(info, value=shown_value))
    unknown = [
        ConfigInfo(None, ValueInfo(key, config.get(key), errors=errors))
        for key, errors in texts.items()
    ]
    return replace(
        infos,
        name=config.get("connector.class") or infos.name,
        configs=(*unknown, *configs),
    )


def unchecked(infos: ConfigInfos, referring: Collection[str]) -> ConfigInfos:
    """Returns the answer without errors of `referring` keys, whose values are unknown here."""
    configs = (
        replace(info, value=replace(info.value, errors=()))
        if info.value is not None and info.value.name in referring
        else info
        for info in infos.configs
    )
    return replace(infos, configs=tuple(configs))


def _as_written(info: ConfigInfo, config: Config) -> str | None:
    assert info.value is not None, "asked for keys with a value"
    is_password = info.key is not None and info.key.type is ConfigType.PASSWORD
    return info.value.value if is_password else config.get(info.value.name)


def unresolved_references(config: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a sentence for each reference whose provider the worker's properties do not name,
    beginning with its key; values are never shown."""
    sentences = []
    for key, provider in sorted(undeclared(config, worker)):
        # in a longer text it may be part of a password that only resembles a reference
        name = f" {provider}" if is_reference(config[key]) else ""
        sentences.append(
            f"{key} refers to a config provider{name} that the worker's {PROVIDERS} does not name: "
            "its text is passed on as it is"
        )
    return tuple(sentences)
