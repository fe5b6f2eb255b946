"""Writes values as text that `literals` reads, as Connect's `Values.convertToString` does.

A string is written as it is; strings within lists, maps and structs are quoted. Dates and times
are UTC, and printed by their magnitude: less than a day since 1970 as a time, whole days as a date.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from connect_runtime.api import DataError, Schema, Struct, Type
from connect_runtime.api.java_text import java_double, java_float
from connect_runtime.data.timestamps import MILLIS_PER_DAY, from_millis, to_millis


def literal_text(value: Any, schema: Schema | None) -> str:
    """Returns the text. Raises DataError for a type that Connect lacks."""
    if isinstance(value, str):
        return value
    text = _text(value, schema)
    return text[1:-1] if isinstance(value, bytes | bytearray | memoryview) else text


def _text(value: Any, schema: Schema | None) -> str:
    """Returns the text of a value within another, or of one that is no string."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int | float):
        return _number(value, schema)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, list | tuple):
        items = schema.items if schema is not None else None
        return "[" + ",".join(_text(v, items) for v in value) + "]"
    if isinstance(value, Mapping):
        return _map(value, schema)
    if isinstance(value, Struct):
        fields = value.schema.fields
        return "{" + ",".join(f'"{f.name}":{_text(value[f.name], f.schema)}' for f in fields) + "}"
    if isinstance(value, dt.date | dt.time):
        return _moment(value)
    raise DataError(f"Failed to serialize unexpected value type {type(value)}: {value}")


def _number(value: Any, schema: Schema | None) -> str:
    # a list has the schema of its last map: others may hold integers where that has fractions
    if not isinstance(value, float):
        return str(value)
    is_float = schema is not None and schema.type is Type.FLOAT32
    return java_float(value) if is_float else java_double(value)


def _map(value: Mapping[Any, Any], schema: Schema | None) -> str:
    keys, values = (None, None) if schema is None else (schema.keys, schema.values)
    return "{" + ",".join(f"{_text(k, keys)}:{_text(v, values)}" for k, v in value.items()) + "}"


def _moment(value: dt.date | dt.time) -> str:
    since = to_millis(value)
    moment = from_millis(since)
    time = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if since < MILLIS_PER_DAY:
        return time
    date = f"{moment.year:04d}-{moment:%m-%d}"
    return date if since % MILLIS_PER_DAY == 0 else f"{date}T{time}"
