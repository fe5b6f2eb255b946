"""Base classes and errors of transformations of a record's key or value.

A transformation `X` changes a schema and a value; its classes `XKey` and `XValue` choose the half
of the record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias, TypeVar

from connect_runtime.api import ConnectorError, DataError, Schema, Struct
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.api.schema import class_of
from connect_runtime.java.text import java_class
from connect_runtime.transforms.columns import SCHEMAS, Columns, ColumnTransformation, HalfName

K = TypeVar("K", bound="KeyOrValue")
Half: TypeAlias = tuple[Schema | None, Any]


class KeyOrValue(ColumnTransformation):
    """A transformation of keys or of values."""

    is_key: ClassVar[bool]

    @property
    def half_name(self) -> HalfName:
        """Returns the name of the column that is changed."""
        return "keys" if self.is_key else "values"

    def half(self, record: ConnectRecord) -> Half:
        """Returns schema and value of the half that is changed."""
        if self.is_key:
            return record.key_schema, record.key
        return record.value_schema, record.value

    def with_half(self, record: R, schema: Schema | None, value: Any, **more: Any) -> R:
        """Returns a record with this half, and `more` fields, replaced."""
        if self.is_key:
            return replace(record, key_schema=schema, key=value, **more)
        return replace(record, value_schema=schema, value=value, **more)

    def set_halves(self, columns: Columns, halves: Sequence[Half]) -> None:
        """Replaces this half of all records."""
        columns[SCHEMAS[self.half_name]] = [schema for schema, _ in halves]
        columns[self.half_name] = [value for _, value in halves]


class OneHalf(KeyOrValue):
    """A transformation that needs nothing of a record but its key or value."""

    def apply(self, record: R) -> R | None:
        """Changes the key or the value; a record that stays as it is is returned itself."""
        schema, value = self.half(record)
        changed_schema, changed = self.change(schema, value)
        if changed is value and changed_schema is schema:
            return record
        return self.with_half(record, changed_schema, changed)

    def apply_columns(self, columns: Columns) -> None:
        """Changes the keys or the values."""
        halves = zip(columns[SCHEMAS[self.half_name]], columns[self.half_name], strict=True)
        self.set_halves(columns, [self.change(schema, value) for schema, value in halves])

    @abstractmethod
    def change(self, schema: Schema | None, value: Any) -> Half:
        """Returns the changed schema and value."""


def key_and_value(transformation: type[K]) -> tuple[type[K], type[K]]:
    """Returns the classes of a transformation for keys and for values."""

    def of(half: str, is_key: bool) -> type[K]:
        members = {"is_key": is_key, "__module__": transformation.__module__}
        return type(f"{transformation.__name__}{half}", (transformation,), members)

    return of("Key", True), of("Value", False)


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Returns a value without schema, which has to be a map."""
    if not isinstance(value, Mapping):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}],"
            f" found: {java_class(value)}"
        )
    return value


def require_struct(value: Any, purpose: str, schema: Schema | None = None) -> Struct:
    """Returns a value of `schema`, which has to be a struct."""
    if not isinstance(value, Struct):
        actual = class_of(value, schema)
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {actual}")
    return value


# Java's own exceptions, which a dead letter queue shows; nothing else distinguishes them


class InvalidArgument(DataError):
    """Java's IllegalArgumentException."""

    java_class = "java.lang.IllegalArgumentException"


class WrongClass(DataError):
    """Java's ClassCastException."""

    java_class = "java.lang.ClassCastException"


class MissingField(DataError):
    """Java's NullPointerException, for a field that a schema lacks."""

    java_class = "java.lang.NullPointerException"


class NoSuchGroup(DataError):
    """Java's IndexOutOfBoundsException, for a group that a regular expression lacks."""

    java_class = "java.lang.IndexOutOfBoundsException"


class UnknownTimestampType(ConnectorError):
    """Connect's ConnectException, for a schema that is no timestamp."""
