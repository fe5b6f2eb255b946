"""The predicates that come with Connect: TopicNameMatches, HasHeaderKey and RecordIsTombstone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime.api import (
    AllOf,
    ConfigDef,
    ConfigType,
    Importance,
    NonEmptyString,
    ValidRegex,
    java_regex,
)
from connect_runtime.api.transforms import ConnectRecord, Predicate

_NAME: Final = ConfigDef().define(
    "name",
    ConfigType.STRING,
    validator=NonEmptyString(),
    importance=Importance.MEDIUM,
    doc="The header name.",
)
_NOTHING: Final = ConfigDef()
_PATTERN: Final = ConfigDef().define(
    "pattern",
    ConfigType.STRING,
    validator=AllOf.of(NonEmptyString(), ValidRegex()),
    importance=Importance.MEDIUM,
    doc="A Java regular expression for matching against the name of a record's topic.",
)


class HasHeaderKey(Predicate):
    """True of records with at least one header of the name."""

    def config(self) -> ConfigDef:
        """The options."""
        return _NAME

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        self._name: str = _NAME.parse(options)["name"]

    def test(self, record: ConnectRecord) -> bool:
        """Looks for the header."""
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """True of records whose value is null."""

    def config(self) -> ConfigDef:
        """Has no options."""
        return _NOTHING

    def configure(self, options: Mapping[str, str]) -> None:
        """Has no options."""

    def test(self, record: ConnectRecord) -> bool:
        """Looks at the value."""
        return record.value is None


class TopicNameMatches(Predicate):
    """True of records whose topic matches the expression from beginning to end."""

    def config(self) -> ConfigDef:
        """The options."""
        return _PATTERN

    def configure(self, options: Mapping[str, str]) -> None:
        """Compiles the expression."""
        self._pattern = java_regex.compile(_PATTERN.parse(options)["pattern"])
        self._known: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        """Matches the topic, once for each topic."""
        found = self._known.get(record.topic)
        if found is None:
            found = self._known[record.topic] = self._pattern.fullmatch(record.topic) is not None
        return found
