"""Records, schemas and values as JSON for `oracle/transforms/ApplyTransforms.java`, which answers
with what Kafka Connect's own classes do with them.

A schema is {type, optional, name, version, doc, parameters, default, items, keys, values, fields:
[[name, schema]]}; a value is {t: type, v: value}. Without a schema, numbers are int64 and float64.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from connect_runtime.api import Schema, SinkRecord, SourceRecord, Struct, Type
from connect_runtime.api.record_plugins import ConnectRecord
from connect_runtime.java.scalars import java_double, java_float, to_float

Json = dict[str, Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FRACTION = re.compile(r"-?\d+\.\d+(E-?\d+)?")
_DAY_MS = 86_400_000
_JAVAS_OWN = ("java.lang.NullPointerException", "java.lang.ClassCastException")


def record_json(record: ConnectRecord) -> Json:
    """A whole record."""
    found: Json = {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key_schema": schema_json(record.key_schema),
        "key": value_json(record.key, record.key_schema),
        "value_schema": schema_json(record.value_schema),
        "value": value_json(record.value, record.value_schema),
        "headers": [
            {"key": h.key, "schema": schema_json(h.schema), "value": value_json(h.value, h.schema)}
            for h in record.headers
        ],
    }
    if isinstance(record, SinkRecord):
        found["offset"] = record.offset
    else:
        assert isinstance(record, SourceRecord)
    return found


def schema_json(schema: Schema | None) -> Json | None:
    """A schema; what it does not have is left out."""
    if schema is None:
        return None
    found: Json = {"type": schema.type.name}
    if schema.optional:
        found["optional"] = True
    for part in ("name", "version", "doc"):
        if getattr(schema, part) is not None:
            found[part] = getattr(schema, part)
    if schema.parameters is not None:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        of_default = schema.default.schema if isinstance(schema.default, Struct) else schema
        found["default"] = value_json(schema.default, of_default)
    if schema.type is Type.ARRAY:
        found["items"] = schema_json(schema.items)
    if schema.type is Type.MAP:
        found["keys"] = schema_json(schema.keys)
        found["values"] = schema_json(schema.values)
    if schema.type is Type.STRUCT:
        found["fields"] = [[f.name, schema_json(f.schema)] for f in schema.fields]
    return found


def value_json(value: Any, schema: Schema | None) -> Json | None:
    """A value, with the type that the schema says if it can be of that type."""
    if value is None:
        return None
    match value:
        case bool():
            return {"t": "boolean", "v": value}
        case int():
            return {"t": _integer_type(value, schema), "v": str(value)}
        case float():
            single = schema is not None and schema.type is Type.FLOAT32
            text = java_float(value) if single else java_double(value)
            return {"t": "float32" if single else "float64", "v": text}
        case str():
            return {"t": "string", "v": value}
        case bytes():
            return {"t": "bytes", "v": base64.b64encode(value).decode()}
        case Decimal():
            return {"t": "decimal", "v": str(value)}
        case dt.date() | dt.time():
            return {"t": "date", "v": str(_millis(value))}
        case list() | tuple():
            items = None if schema is None else schema.items
            return {"t": "array", "v": [value_json(each, items) for each in value]}
        case Mapping():
            keys, values = (None, None) if schema is None else (schema.keys, schema.values)
            pairs = [[value_json(k, keys), value_json(v, values)] for k, v in value.items()]
            return {"t": "map", "v": pairs}
        case Struct():
            return _struct(value, schema)
    raise AssertionError(f"{type(value)} is no type of Connect")


def _struct(value: Struct, schema: Schema | None) -> Json:
    pairs = [
        [f.name, value_json(value.values[f.name], f.schema)]
        for f in value.schema.fields
        if value.values.get(f.name) is not None
    ]
    found: Json = {"t": "struct", "v": pairs}
    if schema != value.schema:
        found["schema"] = schema_json(value.schema)
    return found


def _integer_type(value: int, schema: Schema | None) -> str:
    """The type that the schema says; if it does not fit, the narrowest."""
    says = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
    first = 64 if schema is None else says.get(schema.type, 8)
    for bits in (first, 8, 16, 32, 64):
        if bits >= first and -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return f"int{bits}"
    return "bigint"


def _millis(value: dt.date | dt.time) -> int:
    if isinstance(value, dt.time):
        value = dt.datetime.combine(_EPOCH.date(), value, dt.UTC)
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    return (value - _EPOCH.date()).days * _DAY_MS


def comparable(found: Any) -> Any:
    """The same JSON without what is not compared: the order of maps, the width of numbers without a
    schema, which Python does not know, the digits that Java before 19 prints too many, whole
    records in error texts, and the texts of Java's own exceptions."""
    if isinstance(found, list):
        return [comparable(each) for each in found]
    if not isinstance(found, dict):
        return found
    found = {name: comparable(each) for name, each in found.items() if name != "cause"}
    for name, schema in (("key", "key_schema"), ("value", "value_schema"), ("value", "schema")):
        if name in found and schema in found and found[schema] is None:
            found[name] = _without_width(found[name])
    if found.get("t") == "string" and _FRACTION.fullmatch(found["v"]):
        found["v"] = java_float(to_float(float(found["v"])))
    if found.get("error") in _JAVAS_OWN:
        found.pop("message")
    if (found.get("message") or "").startswith("Timestamp missing on record"):
        # how maps and dates are printed
        found["message"] = "Timestamp missing on record"
    if found.get("t") == "struct":
        found.pop("schema", None)
    if found.get("t") == "map":
        found["v"] = sorted(found["v"], key=repr)
    if found.get("t") == "float32":
        found["v"] = java_float(float(found["v"]))
    if found.get("t") == "float64":
        found["v"] = java_double(float(found["v"]))
    return found


def _without_width(found: Any) -> Any:
    if isinstance(found, list):
        return [_without_width(each) for each in found]
    if isinstance(found, dict) and "t" in found:
        wide = {"int8", "int16", "int32", "int64", "float32", "float64"}
        kind = found["t"].rstrip("0123456789") if found["t"] in wide else found["t"]
        return {**found, "t": kind, "v": _without_width(found.get("v"))}
    return found
