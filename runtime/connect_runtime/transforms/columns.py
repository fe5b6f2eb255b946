"""Records as columns, which a chain of transformations changes without making each record.

A transformation or predicate that can work on columns does to all records what it does to each. If
any of them is an error, the columns are given up and the records are transformed one by one, from
what they were: so columns and values are replaced, never changed, unless they were made here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, Literal, TypeAlias

from connect_runtime.api import ConfigDef, Predicate, Transformation, Validator
from connect_runtime.data.field_columns import MapColumn, StructColumn
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
