"""Defines plugins between a connector's records and Kafka's bytes: converters, transformations, and
the predicates that choose records for these.

Sources transform before converting to bytes, sinks after converting from bytes. Converters of keys
and values work on a column at a time: they are configured once per task and then return a function
over columns, so options are evaluated before the first record. Header converters convert one header
at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from connect_runtime.api.configdef import ConfigDef
from connect_runtime.api.records import SinkRecord, SourceRecord
from connect_runtime.api.schema import Schema

ConnectRecord: TypeAlias = SourceRecord | SinkRecord
R = TypeVar("R", SourceRecord, SinkRecord)

RawHeaders: TypeAlias = list[tuple[str, bytes | None]]
"""The headers of one record as Kafka keeps them."""


@dataclass(frozen=True, slots=True)
class Column:
    """Values with one schema for all of them, or with one for each in `schemas`."""

    values: Sequence[Any]
    schema: Schema | None = None
    schemas: Sequence[Schema | None] | None = None

    def each_schema(self) -> Sequence[Schema | None]:
        """Returns the schema of each value."""
        return [self.schema] * len(self.values) if self.schemas is None else self.schemas


Write: TypeAlias = Callable[
    [str, Sequence[RawHeaders] | None, Schema | None, Sequence[Any]], list[bytes | None]
]
"""From the topic, the headers of each record, the schema of all values, and the values, to bytes.
What it appends to a record's headers is written with the record."""

Read: TypeAlias = Callable[[str, Sequence[RawHeaders] | None, Sequence[bytes | None]], Column]
"""From the topic, the headers of each record, and the bytes, to values."""


class _Plugin(ABC):
    """A plugin with options."""

    def version(self) -> str:
        """Returns the version for listings."""
        return "undefined"

    @abstractmethod
    def config(self) -> ConfigDef:
        """Returns the options, without prefix."""


class Converter(_Plugin):
    """Converts keys or values. Raises `DataError` if a value or bytes cannot be converted, and
    `RetriableError` if it may be possible later."""

    @abstractmethod
    def configure(self, options: Mapping[str, str], *, is_key: bool) -> None:
        """Receives the options, without prefix. Called once, before the others."""

    @abstractmethod
    def writer(self) -> Write:
        """Returns a function from values of one schema to bytes."""

    @abstractmethod
    def reader(self) -> Read:
        """Returns a function from bytes to values."""

    @property
    def ignores_context(self) -> bool:
        """Returns True if topic and headers do not matter. Then both functions may get records of
        several topics at once, with the topic of any of them, and None for the headers."""
        return False

    @property
    def reads_anything(self) -> bool:
        """Returns True if reading cannot fail. Then a column that is never used is never converted.
        Only for converters that ignore their context."""
        return False


class HeaderConverter(_Plugin):
    """Converts headers. Errors are those of a `Converter`; a class may be both."""

    @abstractmethod
    def configure(self, options: Mapping[str, str]) -> None:
        """Receives the options, without prefix; `converter.type` is `header`. Called once, before
        the others."""

    @abstractmethod
    def from_connect(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Returns the bytes of the header `key` of a record of `topic`."""

    @abstractmethod
    def to_connect(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Returns schema and value of the header `key` of a record of `topic`."""

    @property
    def reads_anything(self) -> bool:
        """Returns True if reading cannot fail. Then headers that are never used are never
        converted."""
        return False

    def close(self) -> None:
        """Releases what `configure` acquired; called once."""


class _RecordPlugin(_Plugin):
    """A plugin that gets records."""

    @abstractmethod
    def configure(self, options: Mapping[str, str]) -> None:
        """Receives the options, without prefix; called once, before records. Raises ConfigError."""

    def close(self) -> None:
        """Releases what `configure` acquired; called once, also after a failure."""


class Transformation(_RecordPlugin):
    """Changes records one by one. Belongs to one task."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Returns the transformed record, or None to drop it. Never changes `record` itself, nor a
        value in it: they may still be needed. Raises DataError."""


class Predicate(_RecordPlugin):
    """Decides for which records a transformation is applied (KIP-585)."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Returns True if the predicate holds for the record."""
