"""Prints many values as Java does: as `java_text`, but maps and structs of one shape together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import orjson

from connect_runtime.api.field_columns import MapColumn, StructColumn
from connect_runtime.api.java_text import java_double, java_text
from connect_runtime.api.java_utf8 import Utf8Column, java_utf8_column
from connect_runtime.api.schema import Schema, Struct, Type
from connect_runtime.api.text_rows import Part, rows


def java_texts(values: Sequence[Any], schema: Schema | None = None) -> Sequence[str]:
    """Returns `java_text` of each value of `schema`."""
    parts = _parts(values, schema)
    if len(parts) == 1 and not isinstance(parts[0], str):
        return parts[0]
    return rows(parts, len(values), "")


def _parts(values: Sequence[Any], schema: Schema | None) -> list[Part[str]]:
    """Returns what the texts of these values are made of."""
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
        if kind is dict and values[0] and _alike(values):
            columns = zip(*map(dict.values, values), strict=True)
            return _parts_of_maps(dict(zip(values[0], columns, strict=True)), schema)
        if kind is Struct and (structs := StructColumn.of(values)):
            return _parts_of_structs(structs)
        if kind is float and not _is_float(schema):
            return [_doubles(values)]
        if kind is int or kind is bool:
            return [_whole(values)]
        if kind is NoneType:
            return ["null"]
    return [[java_text(value, schema) for value in values]]


def _alike(maps: Sequence[dict[Any, Any]]) -> bool:
    """Whether all have the same fields in the same order."""
    return list(map(tuple, maps)).count(tuple(maps[0])) == len(maps)


def _parts_of_maps(fields: Mapping[Any, Sequence[Any]], schema: Schema | None) -> list[Part[str]]:
    keys, items = (None, None) if schema is None else (schema.keys, schema.values)
    parts: list[Part[str]] = []
    for name, column in fields.items():
        parts += [f"{', ' if parts else '{'}{java_text(name, keys)}=", *_parts(column, items)]
    return [*parts, "}"]


def _parts_of_structs(structs: StructColumn) -> list[Part[str]]:
    parts: list[Part[str]] = []
    for field in structs.schema.fields:
        column = structs.fields[field.name]
        types = set(map(type, column))
        start = f"{',' if parts else ''}{field.name}="
        if NoneType not in types:
            parts += [start, *_parts(column, field.schema)]
        elif parts:
            present = [value for value in column if value is not None]
            texts = iter(java_texts(present, field.schema))
            parts.append(["" if value is None else start + next(texts) for value in column])
        elif types != {NoneType}:  # which field is the first one depends on the struct
            return [list(map(str, structs))]
    return ["Struct{", *parts, "}"]


def _is_float(schema: Schema | None) -> bool:
    return schema is not None and schema.type is Type.FLOAT32


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
    """Returns numbers or booleans as JSON has them, which is much quicker than one by one."""
    return orjson.dumps(values).decode()[1:-1].split(",")
