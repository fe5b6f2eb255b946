"""Builds definitions of Connect's own keys: groups, orders, recommended values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    Validator,
    Width,
)

COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"
TOPIC_CREATION: Final = "Topic Creation"
EXACTLY_ONCE: Final = "Exactly Once Support"
OFFSETS_TOPIC: Final = "offsets.topic"

SIDES: Final = {"key": "Key", "value": "Value", "header": "Header"}
LOW, MEDIUM, HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH
SHORT, WIDE, LONG = Width.SHORT, Width.MEDIUM, Width.LONG


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """Defaults of a connector's keys that the worker sets."""

    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str | None = None


@dataclass(frozen=True, slots=True)
class Recommended:
    """Recommends these values. With `beside`, only if that key has a value, and the key is
    invisible otherwise."""

    values: tuple[str, ...]
    beside: str = ""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.values if self.visible(name, parsed) else ()

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return not self.beside or parsed.get(self.beside) is not None


def versions(version: str | None, beside: str = "") -> Recommended:
    """Recommends the installed version of a plugin, if it tells one; `beside` as above."""
    return Recommended(() if version in (None, "undefined") else (str(version),), beside)


def unique_aliases(kind: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, value, "entry must be non null")
        if len(set(value)) != len(value):
            raise ConfigError.invalid(name, value, "Duplicate alias provided.")

    return Described(check, f"non-null string, unique {kind} aliases")


class Keys:
    """Defines keys in groups, concisely."""

    def __init__(self) -> None:
        self.definitions = ConfigDef()
        self._orders: dict[str, int] = {}

    def add(
        self,
        name: str,
        type: ConfigType,
        default: Any,
        doc: str,
        *,
        group: str,
        display: str,
        importance: Importance = LOW,
        width: Width = SHORT,
        order: int | None = None,
        validator: Validator | None = None,
        recommender: Recommended | None = None,
    ) -> None:
        """Defines a key. `order` None: the next one of the group."""
        found = self._orders.get(group, 0) + 1 if order is None else order
        self._orders[group] = max(found, self._orders.get(group, 0))
        self.definitions.define(
            name,
            type,
            default,
            validator=validator,
            importance=importance,
            doc=doc,
            group=group,
            order=found,
            width=width,
            display_name=display,
            recommender=recommender,
        )
