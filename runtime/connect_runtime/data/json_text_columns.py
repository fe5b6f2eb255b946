"""Writes many values of one schema as JSON, with the results of `encoder`.

Structs are written field by field: orjson writes all values of a field at once, and what is the
same in all records is joined once. Values that Java writes differently are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import Schema, Type
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.api.text_rows import Part, rows
from connect_runtime.data.json_text import INTEGERS, Options, encoder, json_string, with_pairs

EncodeMany: TypeAlias = Callable[[Sequence[Any]], list[bytes]]
_Parts: TypeAlias = list[Part[bytes]]
_PartsOf: TypeAlias = Callable[[Sequence[Any]], _Parts]

_LOGICAL: Final = frozenset({DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME})


def encoder_of_many(
    schema: Schema, options: Options, before: bytes = b"", after: bytes = b""
) -> EncodeMany:
    """Returns a function that writes many values of `schema`, each between two texts. It raises
    what `encoder` raises for one of them."""
    parts_of = _parts_of(schema, options)
    return lambda values: rows([before, *parts_of(values), after], len(values), b"")


def _parts_of(schema: Schema, options: Options) -> _PartsOf:
    """Returns a function that returns what the texts of values are made of."""
    encode = encoder(schema, options)
    together = None if schema.name in _LOGICAL else _TOGETHER.get(schema.type)
    if schema.type is Type.STRUCT:
        together = _structs(schema, options)

    def parts_of(values: Sequence[Any]) -> _Parts:
        found = None if together is None or not values else together(schema, values)
        return [[encode(value).encode() for value in values]] if found is None else found

    return parts_of


def _structs(schema: Schema, options: Options) -> Callable[[Schema, Sequence[Any]], _Parts | None]:
    fields: list[tuple[str, bytes, _PartsOf]] = []
    for field in schema.fields:
        start = (b"," if fields else b"{") + json_string(field.name).encode() + b":"
        fields.append((field.name, start, _parts_of(field.schema, options)))

    def together(schema: Schema, values: Sequence[Any]) -> _Parts | None:
        structs = StructColumn.of(values)
        if structs is None or structs.schema != schema:
            return None
        parts: _Parts = []
        for name, start, parts_of in fields:
            parts += [start, *parts_of(structs.fields[name])]
        return [*parts, b"}"]

    return together


def _strings(schema: Schema, values: Sequence[Any]) -> _Parts | None:
    if set(map(type, values)) != {str}:
        return None
    try:
        text = with_pairs(orjson.dumps(values))
    except TypeError:  # half a surrogate pair
        return None
    if b"\\" not in text:  # then there are quotes at the ends of texts only
        return [b'"', text[2:-2].split(b'","'), b'"']
    # Jackson writes hexadecimal digits in upper case
    if b"\\u00" in text:
        return None
    return [list(map(with_pairs, map(orjson.dumps, values)))]


def _numbers(schema: Schema, values: Sequence[Any]) -> _Parts | None:
    type_, limits = (bool, None) if schema.type is Type.BOOLEAN else (int, INTEGERS[schema.type])
    if set(map(type, values)) != {type_}:
        return None
    if limits is not None and not (min(values) in limits and max(values) in limits):
        return None
    return [_split(values)]


def _doubles(schema: Schema, values: Sequence[Any]) -> _Parts | None:
    if set(map(type, values)) != {float}:
        return None
    texts = _split(values)
    # Java writes others differently; what is not finite is null, and NaN has no place in an order
    alike = b"null" not in texts and min(values) >= 1e-3 and max(values) < 1e7
    return [texts] if alike else None


def _split(values: Sequence[Any]) -> list[bytes]:
    return orjson.dumps(values)[1:-1].split(b",")


_TOGETHER: Final[Mapping[Type, Callable[[Schema, Sequence[Any]], _Parts | None]]] = {
    Type.STRING: _strings,
    Type.BOOLEAN: _numbers,
    **dict.fromkeys(INTEGERS, _numbers),
    Type.FLOAT64: _doubles,
}
