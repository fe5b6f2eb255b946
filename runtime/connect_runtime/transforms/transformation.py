"""Base classes of transformations and predicates, and the columns of records that they change.

A transformation or predicate that can work on columns does to all records what it does to each. If
any of them is an error, the columns are given up and the records are transformed one by one, from
what they were: so columns and values are replaced, never changed, unless they were made here.

A transformation `X` of a key or value changes a schema and a value; its classes `XKey` and
`XValue` choose the half of the record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from connect_runtime.api import (
    ConfigDef,
    ConnectorError,
    DataError,
    Predicate,
    Schema,
    Struct,
    Transformation,
    Validator,
)
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.api.schema import class_of
from connect_runtime.data.value_columns import MapColumn, StructColumn
from connect_runtime.java.scalars import java_class
from connect_runtime.option_tables import option_table

Name: TypeAlias = Literal[
    "topics",
    "partitions",
    "offsets",
    "timestamps",
    "headers",
    "keys",
    "key_schemas",
    "values",
    "value_schemas",
]
HalfName: TypeAlias = Literal["keys", "values"]
Lazy: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]

_TABLE: Final = Path(__file__).with_name("options.txt")

SCHEMAS: Final[Mapping[HalfName, Name]] = {"keys": "key_schemas", "values": "value_schemas"}


class Columns:
    """Columns of equal length; those that are never read are never made. Of a source, `offsets` is
    missing. `rows` are the positions of the records among those of the batch."""

    def __init__(self, size: int, columns: Mapping[Name, Lazy]) -> None:
        self.rows: Sequence[int] = range(size)
        self._columns = dict(columns)
        self._changed: set[Name] = set()
        # columns of maps that were made here
        self._own: set[Name] = set()

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: Name) -> bool:
        return name in self._columns

    def __getitem__(self, name: Name) -> Sequence[Any]:
        column = self._columns[name]
        if callable(column):
            column = self._columns[name] = column()
        return column

    def __setitem__(self, name: Name, column: Lazy) -> None:
        self._columns[name] = column
        self._changed.add(name)
        self._own.discard(name)

    def lazy(self, name: Name) -> Callable[[], Sequence[Any]]:
        """Returns a function that returns the column."""
        return lambda: self[name]

    def given_maps(self, half: HalfName) -> Sequence[dict[str, Any] | None] | None:
        """Returns keys or values if all are maps without schema, or null; else None. They are not
        to be changed."""
        column = self[half]
        if half in self._own or isinstance(column, MapColumn):
            return column
        if isinstance(column, StructColumn):
            return None
        plain = set(map(type, column)) <= {dict, NoneType} and not any(self[SCHEMAS[half]])
        return column if plain else None

    def maps(self, half: HalfName) -> Sequence[dict[str, Any] | None] | None:
        """Returns what `given_maps` does, as maps that may be changed."""
        column = self.given_maps(half)
        if column is None or half in self._own:
            return column
        self.set_maps(half, [None if value is None else value.copy() for value in column])
        return self[half]

    def set_maps(self, half: HalfName, maps: Sequence[dict[str, Any] | None]) -> None:
        """Replaces keys or values by maps without schema that are used nowhere else."""
        self[half] = maps
        self._own.add(half)

    def fields(self, half: HalfName) -> Mapping[str, Sequence[Any]] | None:
        """Returns keys or values field by field if all are maps without schema and have the same
        fields, at least one; else None. They are not to be changed."""
        column = self.given_maps(half)
        if isinstance(column, MapColumn):
            return column.fields
        if not column or None in column or not column[0]:
            return None
        names = tuple(column[0])
        if list(map(tuple, column)).count(names) < len(column):  # type: ignore[arg-type]
            return None
        values = zip(*map(dict.values, column), strict=True)  # type: ignore[arg-type]
        return dict(zip(names, values, strict=True))

    def set_fields(self, half: HalfName, fields: Mapping[str, Sequence[Any]]) -> None:
        """Replaces keys or values by maps without schema that have these fields."""
        self[half] = MapColumn(fields) if fields else [{} for _ in self.rows]

    def structs(self, half: HalfName, *, with_default: bool) -> StructColumn | None:
        """Returns keys or values field by field if all are structs of one schema without null in a
        required field; else None. As a copied struct has, they have defaults instead of nulls if
        `with_default`."""
        structs, schemas = StructColumn.of(self[half]), self[SCHEMAS[half]]
        if structs is None or schemas.count(structs.schema) < len(schemas):
            return None
        fields = dict(structs.fields)
        for field in structs.schema.fields:
            default, column = field.schema.default, fields[field.name]
            if default is None or None not in column:
                continue
            if with_default:
                fields[field.name] = [default if value is None else value for value in column]
            elif not field.schema.optional:
                return None
        return StructColumn(structs.schema, fields)

    def set_structs(self, half: HalfName, structs: StructColumn) -> None:
        """Replaces keys or values by structs."""
        self[SCHEMAS[half]] = [structs.schema] * len(structs)
        self[half] = structs

    def keep(self, chosen: Sequence[bool]) -> None:
        """Drops the records that are not chosen."""
        for name, column in self._columns.items():
            self._columns[name] = _compressed(column, chosen)
        self.rows = list(compress(self.rows, chosen))

    def subset(self, chosen: Sequence[bool]) -> Columns:
        """Returns columns of the chosen records."""
        subset = Columns(0, {n: _compressed(c, chosen) for n, c in self._columns.items()})
        subset.rows = list(compress(self.rows, chosen))
        return subset

    def put_back(self, chosen: Sequence[bool], subset: Columns) -> None:
        """Replaces the chosen records by those of `subset`, none of which was dropped."""
        for name in subset._changed:
            changed = iter(subset[name])
            pairs = zip(chosen, self[name], strict=True)
            self[name] = [next(changed) if is_chosen else value for is_chosen, value in pairs]


def _compressed(column: Lazy, chosen: Sequence[bool]) -> Lazy:
    if callable(column):
        return lambda: list(compress(column(), chosen))
    return list(compress(column, chosen))


def options(section: str, validators: Mapping[str, Validator] | None = None) -> ConfigDef:
    """Returns the options in a section of options.txt, with `validators` by option."""
    return option_table(_TABLE, section, validators)


class WithOptions:
    """A plugin with a table of options."""

    OPTIONS: ClassVar[ConfigDef] = ConfigDef()

    def config(self) -> ConfigDef:
        """Returns the table."""
        return self.OPTIONS

    def configure(self, options: Mapping[str, str]) -> None:
        """Parses the options and sets them. Raises `ConfigError`."""
        self.set_options(self.OPTIONS.parse(options))

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the options, all of which have values. Raises `ConfigError`."""


class ColumnTransformation(WithOptions, Transformation):
    """A transformation that can work on columns."""

    @abstractmethod
    def apply_columns(self, columns: Columns) -> None:
        """Changes all records. Raises what `apply` would raise for one of them."""


class ColumnPredicate(WithOptions, Predicate):
    """A predicate that can work on columns."""

    @abstractmethod
    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Returns one result of the predicate for each record."""


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
