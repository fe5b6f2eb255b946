"""Records and schemas from YAML tables, in a short form.

A schema is a type (`int64`), with `?` if it is optional and `=text` for a default; a mapping of
fields is a struct, a list of one schema an array. `{type: struct, fields: {…}, name: …}` says more.
`date`, `time`, `timestamp` and `decimal(2)` are logical types, whose values are written as
milliseconds and texts. Without a schema, `{$timestamp: 0}`, `{$decimal: "1.5"}`, `{$bytes: x}`
and `{$struct: [schema, value]}` say what YAML cannot.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from connect_runtime.api import (
    DATE,
    TIME,
    TIMESTAMP,
    Header,
    Schema,
    SinkRecord,
    SourceRecord,
    Struct,
    Type,
    decimal,
)
from connect_runtime.api.record_plugins import ConnectRecord

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOGICAL = {"date": DATE, "time": TIME, "timestamp": TIMESTAMP}
_SHORT = re.compile(r"(?P<type>\w+)(\((?P<scale>-?\d+)\))?(?P<optional>\?)?(=(?P<default>.*))?")


def schema_of(given: Any) -> Schema | None:
    """The schema that an entry describes."""
    if given is None:
        return None
    if isinstance(given, str):
        return _short(given)
    if isinstance(given, list):
        return Schema.array(_required(given[0]))
    if "type" not in given:
        return Schema.struct({name: _required(each) for name, each in given.items()})
    more = {k: v for k, v in given.items() if k in ("name", "version", "doc", "parameters")}
    more["optional"] = given.get("optional", False)
    match given["type"]:
        case "struct":
            fields = {name: _required(each) for name, each in given["fields"].items()}
            found = Schema.struct(fields, **more)
        case "array":
            found = Schema.array(_required(given["items"]), **more)
        case "map":
            found = Schema.map(_required(given["keys"]), _required(given["values"]), **more)
        case short:
            found = replace(_short(short), **more)
    if "default" in given:
        found = replace(found, default=value_of(given["default"], found))
    return found


def _required(given: Any) -> Schema:
    found = schema_of(given)
    assert found is not None
    return found


def _short(text: str) -> Schema:
    found = _SHORT.fullmatch(text)
    assert found is not None, text
    if found["type"] == "decimal":
        schema = decimal(int(found["scale"]))
    elif found["type"] in _LOGICAL:
        schema = _LOGICAL[found["type"]]
    else:
        schema = Schema(Type[found["type"].upper()])
    schema = replace(schema, optional=bool(found["optional"]))
    if found["default"] is None:
        return schema
    text = found["default"]
    if schema.type is Type.BOOLEAN:
        return replace(schema, default=text == "true")
    is_text = schema.type in (Type.STRING, Type.BYTES)
    return replace(schema, default=value_of(text if is_text else float(text), schema))


def value_of(given: Any, schema: Schema | None) -> Any:
    """The value that an entry describes."""
    if given is None:
        return None
    if schema is None:
        return _without_schema(given)
    match schema.name:
        case "org.apache.kafka.connect.data.Decimal":
            return Decimal(str(given))
        case "org.apache.kafka.connect.data.Date" if not isinstance(given, str):
            return (_EPOCH + dt.timedelta(milliseconds=given)).date()
        case "org.apache.kafka.connect.data.Time":
            return (_EPOCH + dt.timedelta(milliseconds=given)).time()
        case "org.apache.kafka.connect.data.Timestamp":
            return _EPOCH + dt.timedelta(milliseconds=given)
    match schema.type:
        case Type.STRUCT if isinstance(given, dict):
            return _struct(schema, given)
        case Type.ARRAY if isinstance(given, list):
            return [value_of(each, schema.items) for each in given]
        case Type.MAP if isinstance(given, dict):
            return {value_of(k, schema.keys): value_of(v, schema.values) for k, v in given.items()}
        case Type.BYTES:
            return str(given).encode("latin-1")
        case Type.FLOAT32 | Type.FLOAT64:
            return float(given)
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 if isinstance(given, float):
            return int(given)
    return given


def _struct(schema: Schema, given: dict[str, Any]) -> Struct:
    found = Struct(schema)
    for name, each in given.items():
        found[name] = value_of(each, schema.field(name))
    return found


def _without_schema(given: Any) -> Any:
    if isinstance(given, list):
        return [_without_schema(each) for each in given]
    if not isinstance(given, dict):
        return given
    match given:
        case {"$timestamp": millis}:
            return _EPOCH + dt.timedelta(milliseconds=millis)
        case {"$date": millis}:
            return (_EPOCH + dt.timedelta(milliseconds=millis)).date()
        case {"$decimal": text}:
            return Decimal(text)
        case {"$bytes": text}:
            return text.encode("latin-1")
        case {"$float": text}:
            return float(text)
        case {"$struct": [schema, value]}:
            return value_of(value, schema_of(schema))
    return {key: _without_schema(each) for key, each in given.items()}


def record_of(given: dict[str, Any]) -> ConnectRecord:
    """The record that an entry describes: of a sink unless it says `kind: source`."""
    key_schema, schema = schema_of(given.get("key_schema")), schema_of(given.get("schema"))
    headers = []
    for each in given.get("headers", ()):
        header_schema = schema_of(each.get("schema"))
        headers.append(
            Header(each["key"], value_of(each.get("value"), header_schema), header_schema)
        )
    common: dict[str, Any] = {
        "topic": given.get("topic", "orders"),
        "value": value_of(given.get("value"), schema),
        "value_schema": schema,
        "key": value_of(given.get("key"), key_schema),
        "key_schema": key_schema,
        "timestamp": given.get("timestamp", 1_700_000_000_123),
        "headers": tuple(headers),
    }
    if given.get("kind") == "source":
        partition = given.get("partition")
        return SourceRecord({"p": "1"}, {"o": 1}, partition=partition, **common)
    return SinkRecord(partition=given.get("partition", 3), offset=given.get("offset", 42), **common)
