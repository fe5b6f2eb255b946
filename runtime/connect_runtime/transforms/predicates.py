"""The predicates that come with Connect: TopicNameMatches, HasHeaderKey and RecordIsTombstone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from connect_runtime.api import (
    AllOf,
    ConfigDef,
    ConfigType,
    Headers,
    Importance,
    NonEmptyString,
    ValidRegex,
    java_regex,
)
from connect_runtime.api.transforms import ConnectRecord
from connect_runtime.transforms.columns import ColumnPredicate, Columns

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


class HasHeaderKey(ColumnPredicate):
    """True of records with at least one header of the name."""

    def config(self) -> ConfigDef:
        """The options."""
        return _NAME

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        self._name: str = _NAME.parse(options)["name"]

    def test(self, record: ConnectRecord) -> bool:
        """Looks for the header."""
        return self._is_in(record.headers)

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Looks for the header."""
        return list(map(self._is_in, columns["headers"]))

    def _is_in(self, headers: Headers) -> bool:
        return any(header.key == self._name for header in headers)


class RecordIsTombstone(ColumnPredicate):
    """True of records whose value is null."""

    def config(self) -> ConfigDef:
        """Has no options."""
        return _NOTHING

    def configure(self, options: Mapping[str, str]) -> None:
        """Has no options."""

    def test(self, record: ConnectRecord) -> bool:
        """Looks at the value."""
        return record.value is None

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Looks at the values."""
        return [value is None for value in columns["values"]]


class TopicNameMatches(ColumnPredicate):
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
        return self._matches(record.topic)

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Matches the topics."""
        return list(map(self._matches, columns["topics"]))

    def _matches(self, topic: str) -> bool:
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = self._pattern.fullmatch(topic) is not None
        return found
