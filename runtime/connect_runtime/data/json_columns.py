"""Reads many parsed JSON values of one schema at once, with the results of `decoder`.

Structs are read field by field. Values of simple types are nearly always what the schema says, and
then they stay as they are. All others are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias

from connect_runtime.api import Schema, Type
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.json_text import INTEGERS, Options
from connect_runtime.data.json_values import decoder, floats

DecodeMany: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]

_LOGICAL: Final = frozenset({DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME})
_SIMPLE: Final[dict[Type, type[Any]]] = {
    Type.BOOLEAN: bool,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.STRING: str,
    **dict.fromkeys(INTEGERS, int),
}


def decoder_of_many(schema: Schema, options: Options) -> DecodeMany:
    """Returns a function from many parsed values to values of `schema`. It raises what `decoder`
    raises for one of them."""
    decode = decoder(schema, options)
    if schema.type is not Type.STRUCT or not schema.fields:
        return lambda values: list(map(decode, values))
    names = [field.name for field in schema.fields]
    columns = [_column(field.schema, options) for field in schema.fields]

    def decode_many(values: Sequence[Any]) -> Sequence[Any]:
        if set(map(type, values)) != {dict} or set(map(len, values)) != {len(names)}:
            return list(map(decode, values))
        try:
            given = [list(map(itemgetter(name), values)) for name in names]
        except KeyError:
            return list(map(decode, values))
        read = [column(values) for column, values in zip(columns, given, strict=True)]
        return StructColumn(schema, dict(zip(names, read, strict=True)))

    return decode_many


def _column(schema: Schema, options: Options) -> DecodeMany:
    """Returns a function that reads a field of many structs."""
    decode_many = decoder_of_many(schema, options)
    simple = None if schema.name in _LOGICAL else _SIMPLE.get(schema.type)
    if simple is None:
        return decode_many
    limits = INTEGERS.get(schema.type)
    kept = {simple}
    if schema.optional and (schema.default is None or not options.replace_null):
        kept.add(NoneType)

    def read(column: Sequence[Any]) -> Sequence[Any]:
        if not kept.issuperset(map(type, column)):
            return decode_many(column)
        if schema.type is Type.FLOAT32:
            return decode_many(column) if None in column else floats(column, options)
        if limits is not None:
            present = [value for value in column if value is not None]
            if present and not (min(present) in limits and max(present) in limits):
                return decode_many(column)
        return column

    return read
