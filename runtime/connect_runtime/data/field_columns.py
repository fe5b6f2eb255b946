"""Columns of maps or structs that all have the same fields: the values of each field, from which
rows are made only if needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Self, TypeVar, overload

from connect_runtime.api.schema import Schema, Struct

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
