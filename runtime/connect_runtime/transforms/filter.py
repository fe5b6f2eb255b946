"""The transformation Filter, and the predicates that choose records for it and for others
(KIP-585): TopicNameMatches, HasHeaderKey and RecordIsTombstone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import (
    AllOf,
    Headers,
    NonEmptyString,
    ValidRegex,
)
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.java import regex as java_regex
from connect_runtime.transforms.columns import (
    ColumnPredicate,
    Columns,
    ColumnTransformation,
    options,
)


class Filter(ColumnTransformation):
    """Drops every record that it gets. Meant to be used with a predicate."""

    def apply(self, record: R) -> R | None:
        """Drops the record."""
        return None

    def apply_columns(self, columns: Columns) -> None:
        """Drops all records."""
        columns.keep([False] * len(columns))


class HasHeaderKey(ColumnPredicate):
    """True of records with at least one header of the name."""

    OPTIONS = options("HasHeaderKey", {"name": NonEmptyString()})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the name."""
        self._name: str = options["name"]

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

    def test(self, record: ConnectRecord) -> bool:
        """Looks at the value."""
        return record.value is None

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Looks at the values."""
        return [value is None for value in columns["values"]]


class TopicNameMatches(ColumnPredicate):
    """True of records whose topic matches the expression from beginning to end."""

    OPTIONS = options("TopicNameMatches", {"pattern": AllOf.of(NonEmptyString(), ValidRegex())})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Compiles the expression."""
        self._pattern = java_regex.compile(options["pattern"])
        self._by_topic: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        """Matches the topic, once for each topic."""
        return self._matches(record.topic)

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Matches the topics."""
        return list(map(self._matches, columns["topics"]))

    def _matches(self, topic: str) -> bool:
        result = self._by_topic.get(topic)
        if result is None:
            result = self._by_topic[topic] = self._pattern.fullmatch(topic) is not None
        return result
