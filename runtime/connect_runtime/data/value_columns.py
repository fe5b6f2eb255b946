"""Columns of values: of maps and structs field by field, from which rows are made only if needed,
and of texts. Writes many values as texts at once, and joins maps and structs of one shape by
column.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from types import NoneType
from typing import Any, AnyStr, Self, TypeAlias, TypeVar, overload

import orjson

from connect_runtime.api.schema import Schema, Struct, Type
from connect_runtime.java.scalars import java_double, java_text, java_utf8

T = TypeVar("T")


class FieldColumns(Sequence[T]):
    """A column by field: `fields` has the values of each field, at least one. Neither these nor the
    rows are to be changed while the column is used elsewhere."""

    __slots__ = ("_rows", "fields")

    def __init__(self, fields: Mapping[str, Sequence[Any]]) -> None:
        self.fields = fields
        self._rows: list[T] | None = None

    @abstractmethod
    def _make(self, maps: Iterator[dict[str, Any]]) -> list[T]: ...

    @abstractmethod
    def _with(self, fields: Mapping[str, Sequence[Any]]) -> Self: ...

    def _all(self) -> list[T]:
        if self._rows is None:
            names = tuple(self.fields)
            values = zip(*self.fields.values(), strict=True)
            self._rows = self._make(dict(zip(names, row, strict=True)) for row in values)
        return self._rows

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice) and self._rows is None:
            return self._with({name: column[index] for name, column in self.fields.items()})
        return self._all()[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())


class MapColumn(FieldColumns[dict[str, Any]]):
    """Maps without schema."""

    __slots__ = ()

    def _make(self, maps: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(maps)

    def _with(self, fields: Mapping[str, Sequence[Any]]) -> MapColumn:
        return MapColumn(fields)


class StructColumn(FieldColumns[Struct]):
    """Structs of `schema`. `fields` has all of its fields, with None for no value: none in required
    fields without a default."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema, fields: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(fields)
        self.schema = schema

    @classmethod
    def of(cls, structs: Sequence[Any]) -> StructColumn | None:
        """Returns these values as a column; None if they are not structs of one schema, have no
        fields, or lack a required one."""
        if isinstance(structs, StructColumn):
            return structs
        if set(map(type, structs)) != {Struct}:
            return None
        schema = structs[0].schema
        if not schema.fields or any(struct.schema is not schema for struct in structs):
            return None
        fields = _fields_of([struct.values for struct in structs], schema)
        lacking = any(
            not field.schema.optional
            and field.schema.default is None
            and None in fields[field.name]
            for field in schema.fields
        )
        return None if lacking else cls(schema, fields)

    def _make(self, maps: Iterator[dict[str, Any]]) -> list[Struct]:
        return list(map(Struct.unchecked, repeat(self.schema), maps))

    def _with(self, fields: Mapping[str, Sequence[Any]]) -> StructColumn:
        return StructColumn(self.schema, fields)


def _fields_of(maps: Sequence[dict[str, Any]], schema: Schema) -> Mapping[str, Sequence[Any]]:
    names = [field.name for field in schema.fields]
    try:
        return {name: list(map(itemgetter(name), maps)) for name in names}
    except KeyError:  # fields that were never set
        return {name: [row.get(name) for row in maps] for name in names}


Part: TypeAlias = AnyStr | Sequence[AnyStr]
"""A text that is the same in all rows, or one text for each row."""


def rows(columns: Sequence[Part[AnyStr]], size: int, empty: AnyStr) -> list[AnyStr]:
    """Returns `size` texts, each joined of its row in all `columns`. `empty` is the empty text."""
    merged: list[Part[AnyStr]] = []
    for column in columns:
        constant = _constant(column)
        last = merged[-1] if merged else None
        if constant is not None and isinstance(last, str | bytes):
            merged[-1] = last + constant
        else:
            merged.append(column if constant is None else constant)
    texts = [repeat(text, size) if isinstance(text, str | bytes) else text for text in merged]
    return list(map(empty.join, zip(*texts, strict=True)))


def _constant(column: Part[AnyStr]) -> AnyStr | None:
    """Returns the text that all rows have, if they do."""
    if isinstance(column, str | bytes):
        return column
    return column[0] if column and column.count(column[0]) == len(column) else None


class Utf8Column(Sequence[str]):
    """A column of texts as valid `utf8`, decoded when first needed."""

    __slots__ = ("_texts", "utf8")

    def __init__(self, utf8: Sequence[bytes], texts: Sequence[str] | None = None) -> None:
        self.utf8 = utf8
        self._texts = texts

    def _all(self) -> Sequence[str]:
        if self._texts is None:
            self._texts = list(map(bytes.decode, self.utf8))
        return self._texts

    def __len__(self) -> int:
        return len(self.utf8)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._all()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())


def java_utf8_column(column: Sequence[bytes | None]) -> Sequence[Any]:
    """Returns `java_utf8` of each, and None for null."""
    try:
        if all(map(bytes.isascii, column)):  # type: ignore[arg-type]
            return Utf8Column(column)  # type: ignore[arg-type]
        return Utf8Column(column, list(map(bytes.decode, column)))  # type: ignore[arg-type]
    except (TypeError, UnicodeDecodeError):
        return [None if data is None else java_utf8(data) for data in column]


def java_texts(values: Sequence[Any], schema: Schema | None = None) -> Sequence[str]:
    """Returns `java_text` of each value of `schema`."""
    columns = _parts(values, schema)
    if len(columns) == 1 and not isinstance(columns[0], str):
        return columns[0]
    return rows(columns, len(values), "")


def _parts(values: Sequence[Any], schema: Schema | None) -> list[Part[str]]:
    """Returns the columns that the texts of these values are joined of."""
    if isinstance(values, MapColumn):
        return _parts_of_maps(values.fields, schema)
    if isinstance(values, StructColumn):
        return _parts_of_structs(values)
    if isinstance(values, Utf8Column):
        return [values]
    types = set(map(type, values))
    if len(types) == 1:
        (kind,) = types
        if kind is str:
            return [values]
        if kind is bytes:
            return [java_utf8_column(values)]
        if (
            kind is dict
            and values[0]
            and list(map(tuple, values)).count(tuple(values[0])) == len(values)
        ):
            columns = zip(*map(dict.values, values), strict=True)
            return _parts_of_maps(dict(zip(values[0], columns, strict=True)), schema)
        if kind is Struct and (structs := StructColumn.of(values)):
            return _parts_of_structs(structs)
        if kind is float and (schema is None or schema.type is not Type.FLOAT32):
            return [_doubles(values)]
        if kind is int or kind is bool:
            return [_whole(values)]
        if kind is NoneType:
            return ["null"]
    return [[java_text(value, schema) for value in values]]


def _parts_of_maps(fields: Mapping[Any, Sequence[Any]], schema: Schema | None) -> list[Part[str]]:
    keys, items = (None, None) if schema is None else (schema.keys, schema.values)
    columns: list[Part[str]] = []
    for name, column in fields.items():
        columns += [f"{', ' if columns else '{'}{java_text(name, keys)}=", *_parts(column, items)]
    return [*columns, "}"]


def _parts_of_structs(structs: StructColumn) -> list[Part[str]]:
    columns: list[Part[str]] = []
    for field in structs.schema.fields:
        column = structs.fields[field.name]
        types = set(map(type, column))
        start = f"{',' if columns else ''}{field.name}="
        if NoneType not in types:
            columns += [start, *_parts(column, field.schema)]
        elif columns:
            present = [value for value in column if value is not None]
            texts = iter(java_texts(present, field.schema))
            columns.append(["" if value is None else start + next(texts) for value in column])
        elif types != {NoneType}:  # the first field depends on the struct
            return [list(map(str, structs))]
    return ["Struct{", *columns, "}"]


def _doubles(values: Sequence[float]) -> Sequence[str]:
    texts = _numbers(values)
    # infinite numbers are null in JSON, and so is NaN, which has no place in an order
    if "null" not in texts and min(values) >= 1e-3 and max(values) < 1e7:
        return texts
    return [
        text if 1e-3 <= value < 1e7 else java_double(value)
        for text, value in zip(texts, values, strict=True)
    ]


def _whole(values: Sequence[int]) -> Sequence[str]:
    try:
        return _numbers(values)
    except TypeError:  # beyond 64 bits
        return list(map(java_text, values))


def _numbers(values: Sequence[float]) -> list[str]:
    """Returns numbers or booleans as JSON has them, much quicker than one by one."""
    return orjson.dumps(values).decode()[1:-1].split(",")
