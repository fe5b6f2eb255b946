"""Prints many values as Java does: as `java_text`, but maps and structs of one shape together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any

from connect_runtime.api.java_text import java_double, java_text
from connect_runtime.api.map_column import MapColumn
from connect_runtime.api.schema import Struct


def java_texts(values: Sequence[Any]) -> Sequence[str]:
    """Returns `java_text` of each value."""
    if isinstance(values, MapColumn):
        return _texts_of_fields(values.fields)
    types = set(map(type, values))
    if len(types) == 1:
        (kind,) = types
        if kind is str:
            return values
        if kind is dict and values[0]:
            return _texts_of_maps(values)
        if kind is Struct:
            return _texts_of_structs(values)
        if kind is int:
            return list(map(str, values))
        if kind is float:
            return [repr(v) if 1e-3 <= v < 1e7 else java_double(v) for v in values]
        if kind is bool:
            return ["true" if value else "false" for value in values]
        if kind is NoneType:
            return ["null"] * len(values)
    return list(map(java_text, values))


def _texts_of_maps(maps: Sequence[dict[Any, Any]]) -> Sequence[str]:
    names = tuple(maps[0])
    if list(map(tuple, maps)).count(names) < len(maps):
        return list(map(java_text, maps))
    columns = zip(*map(dict.values, maps), strict=True)
    return _texts_of_fields(dict(zip(names, columns, strict=True)))


def _texts_of_fields(fields: Mapping[Any, Sequence[Any]]) -> Sequence[str]:
    shown = ", ".join(f"{_literal(java_text(name))}=%s" for name in fields)
    rows = zip(*map(java_texts, fields.values()), strict=True)
    return list(map(f"{{{shown}}}".__mod__, rows))


def _texts_of_structs(structs: Sequence[Struct]) -> Sequence[str]:
    schema = structs[0].schema
    names = tuple(field.name for field in schema.fields)
    if len(names) < 2 or any(struct.schema is not schema for struct in structs):
        return list(map(str, structs))
    try:
        columns = list(
            zip(*map(itemgetter(*names), [struct.values for struct in structs]), strict=True)
        )
    except KeyError:  # a field was never written
        return list(map(str, structs))
    if any(NoneType in set(map(type, column)) for column in columns):
        return list(map(str, structs))  # they are left out
    shown = ",".join(f"{_literal(name)}=%s" for name in names)
    rows = zip(*map(java_texts, columns), strict=True)
    return list(map(f"Struct{{{shown}}}".__mod__, rows))


def _literal(text: str) -> str:
    return text.replace("%", "%%")
