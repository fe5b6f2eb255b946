"""Values for validation results, in Connect's shape (`PUT .../config/validate`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.api import ConfigDef, ConfigKey, ConfigType, ConfigValue
from connect_runtime.api.configdef import config_text
from connect_specs.java_map import in_hash_map_order


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
        found = len(self.value.errors) if self.value else 0
        return min(found, 1) if self.is_option else found


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
        known = [
            ConfigInfo(key, value_info(self.values[key.name], key.type))
            if key.name in self.values
            else ConfigInfo(key, None)
            for key in keys.values()
        ]
        return ConfigInfos(name, groups, (*unknown, *known))


def value_info(value: ConfigValue, type: ConfigType | None) -> ValueInfo:
    """Returns the value as text. Without a type, it is text already."""
    kind = type or ConfigType.STRING
    element = ConfigType.STRING if kind is ConfigType.LIST else kind
    recommended = (config_text(each, element) for each in value.recommended_values)
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
    """Returns the options of a part, such as a converter, under their names in a config.

    In the order of a Java HashMap, as in Connect.
    """
    found = []
    for key in in_hash_map_order(definitions.keys).values():
        info = value_info(values[key.name], key.type)
        found.append(
            ConfigInfo(
                replace(key, name=f"{prefix}{key.name}"), replace(info, name=f"{prefix}{key.name}")
            )
        )
    return tuple(found)
