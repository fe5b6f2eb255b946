"""What transformations of a record's key or value share: reading one half, writing it back.

A transformation `X` says what it does with a schema and a value; its classes `XKey` and `XValue`
say with which.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from connect_runtime.api import DataError, Schema, Struct
from connect_runtime.api.java_types import java_class
from connect_runtime.api.transforms import ConnectRecord, R
from connect_runtime.data.java_types import class_of
from connect_runtime.transforms.columns import SCHEMAS, Columns, ColumnTransformation, Part

Half: TypeAlias = tuple[Schema | None, Any]


class KeyOrValue(ColumnTransformation):
    """A transformation of keys or of values."""

    is_key: ClassVar[bool]

    @property
    def part(self) -> Part:
        """The column that is changed."""
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
        columns[SCHEMAS[self.part]] = [schema for schema, _ in halves]
        columns[self.part] = [value for _, value in halves]


class OneHalf(KeyOrValue):
    """A transformation that needs nothing of a record but its key or value."""

    def apply(self, record: R) -> R | None:
        """Changes the key or the value; a record that stays as it is is returned itself."""
        schema, value = self.half(record)
        new_schema, new_value = self.change(schema, value)
        if new_value is value and new_schema is schema:
            return record
        return self.with_half(record, new_schema, new_value)

    def apply_columns(self, columns: Columns) -> None:
        """Changes the keys or the values."""
        halves = zip(columns[SCHEMAS[self.part]], columns[self.part], strict=True)
        self.set_halves(columns, [self.change(schema, value) for schema, value in halves])

    @abstractmethod
    def change(self, schema: Schema | None, value: Any) -> Half:
        """Returns the new schema and value."""


class OfKey:
    """Makes a transformation one of keys."""

    is_key = True


class OfValue:
    """Makes a transformation one of values."""

    is_key = False


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
        found = class_of(value, schema)
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {found}")
    return value
