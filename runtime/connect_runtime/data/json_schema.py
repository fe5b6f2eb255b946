"""Encodes schemas in JSON: the `schema` half of an envelope, and values read by a schema.

Field order is that of Jackson in Connect, because some consumers compare the text.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import DataError, Field, Schema, Struct, Type
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.json_text import Options, decimal_scale, encoder

Decode: TypeAlias = Callable[[Any], Any]

_TYPES: Final = {t.value: t for t in Type}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
INTEGERS: Final = {
    Type.INT8: range(-(1 << 7), 1 << 7),
    Type.INT16: range(-(1 << 15), 1 << 15),
    Type.INT32: range(-(1 << 31), 1 << 31),
    Type.INT64: range(-(1 << 63), 1 << 63),
}


def schema_json(schema: Schema, options: Options) -> str:
    """Returns a schema as Connect writes it."""
    return "{" + ",".join(_members(schema, options)) + "}"


def _members(schema: Schema, options: Options) -> list[str]:
    members = [f'"type":"{schema.type.value}"']
    for name in ("items", "keys", "values"):
        part = getattr(schema, name)
        if part is not None:
            members.append(f'"{name}":{schema_json(part, options)}')
    if schema.type is Type.STRUCT:
        fields = (
            "{" + ",".join([*_members(f.schema, options), f'"field":{_text(f.name)}']) + "}"
            for f in schema.fields
        )
        members.append(f'"fields":[{",".join(fields)}]')
    members.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        members.append(f'"name":{_text(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{_text(schema.doc)}')
    if schema.parameters is not None:
        members.append(f'"parameters":{_text(dict(schema.parameters))}')
    if schema.default is not None:
        members.append(f'"default":{encoder(schema, options)(schema.default)}')
    return members


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def schema_of(found: Any, options: Options) -> Schema | None:
    """Returns the schema that the parsed JSON describes; None for null. Raises `DataError`."""
    if found is None:
        return None
    if not isinstance(found, dict):
        raise DataError("Schema must be an object")
    name = found.get("type")
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if name not in _TYPES:
        raise DataError(f"Unknown schema type: {name}")
    type_ = _TYPES[name]
    schema = Schema(
        type=type_,
        optional=found.get("optional") is True,
        name=_given(found, "name", str),
        version=_given(found, "version", int),
        doc=_given(found, "doc", str),
        parameters=_given(found, "parameters", dict),
        items=_part(found, "items", options) if type_ is Type.ARRAY else None,
        keys=_part(found, "keys", options) if type_ is Type.MAP else None,
        values=_part(found, "values", options) if type_ is Type.MAP else None,
        fields=_fields(found, options) if type_ is Type.STRUCT else (),
    )
    if found.get("default") is None:
        return schema
    default = decoder(schema, options)(found["default"])
    # its default can be read only once the rest of the schema is known
    return replace(schema, default=default)


def _given(found: Mapping[str, Any], name: str, type_: type[Any]) -> Any:
    value = found.get(name)
    if value is not None and not isinstance(value, type_):
        raise DataError(f"Schema {name} is not valid: {value}")
    return value


def _part(found: Mapping[str, Any], name: str, options: Options) -> Schema:
    schema = schema_of(found.get(name), options)
    if schema is None:
        raise DataError(f"Schema of type {found['type']} must have '{name}'")
    return schema


def _fields(found: Mapping[str, Any], options: Options) -> tuple[Field, ...]:
    listed = found.get("fields")
    if not isinstance(listed, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for each in listed:
        name = each.get("field") if isinstance(each, dict) else None
        schema = schema_of(each, options)
        if not isinstance(name, str) or schema is None:
            raise DataError("Struct schema's field name not specified properly")
        fields.append(Field(name, schema))
    return tuple(fields)


def decoder(schema: Schema, options: Options) -> Decode:
    """Returns a function from parsed JSON to values of `schema`."""
    present = _present(schema, options)

    def decode(value: Any) -> Any:
        if value is not None:
            return present(value)
        if schema.default is not None and options.replace_null:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.name} field")

    return decode


def _present(schema: Schema, options: Options) -> Decode:
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return logical(schema)
    match schema.type:
        case Type.ARRAY:
            item = decoder(schema.items or schema, options)
            return lambda value: [item(each) for each in _as(list, value, schema)]
        case Type.MAP:
            return _map(schema, options)
        case Type.STRUCT:
            return _struct(schema, options)
        case Type.BYTES:
            return _base64
        case Type.FLOAT32 | Type.FLOAT64:
            return lambda value: _number(value, schema)
        case Type.BOOLEAN:
            return lambda value: _as(bool, value, schema)
        case Type.STRING:
            return lambda value: _as(str, value, schema)
        case _:
            return lambda value: _integer(value, schema)


def _as(type_: type[Any], value: Any, schema: Schema) -> Any:
    if not isinstance(value, type_):
        raise DataError(f"Invalid type for {schema.type.name}: {type(value)}")
    return value


def _integer(value: Any, schema: Schema) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in INTEGERS[schema.type]:
        raise DataError(f"Invalid value for {schema.type.name}: {value}")
    return value


def _number(value: Any, schema: Schema) -> float:
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"Invalid type for {schema.type.name}: {type(value)}")
    return float(value)


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error) as error:
        raise DataError("Invalid bytes field") from error


def _map(schema: Schema, options: Options) -> Decode:
    key = decoder(schema.keys or schema, options)
    item = decoder(schema.values or schema, options)

    def decode(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else _as(list, value, schema)
        try:
            return {key(k): item(v) for k, v in pairs}
        except ValueError as error:
            raise DataError(
                "Found invalid map entry: maps with keys that are no strings are arrays of pairs"
            ) from error

    return decode


def _struct(schema: Schema, options: Options) -> Decode:
    fields = [(f.name, decoder(f.schema, options)) for f in schema.fields]

    def decode(value: Any) -> Struct:
        found = _as(dict, value, schema)
        return Struct.unchecked(schema, {name: read(found.get(name)) for name, read in fields})

    return decode


def _decimal(schema: Schema) -> Decode:
    scale = decimal_scale(schema)

    def decode(value: Any) -> Decimal:
        if isinstance(value, str):
            return Decimal(int.from_bytes(_base64(value), "big", signed=True)).scaleb(-scale)
        # through text: the digits that were written, not the binary fraction next to them
        return Decimal(str(_number(value, schema))).quantize(Decimal(1).scaleb(-scale))

    return decode


def _date(schema: Schema) -> Decode:
    return lambda value: _EPOCH.date() + dt.timedelta(days=_integer(value, schema))


def _time(schema: Schema) -> Decode:
    return lambda value: (_EPOCH + dt.timedelta(milliseconds=_integer(value, schema))).time()


def _timestamp(schema: Schema) -> Decode:
    return lambda value: _EPOCH + dt.timedelta(milliseconds=_integer(value, schema))


_LOGICAL: Final[Mapping[str, Callable[[Schema], Decode]]] = {
    DECIMAL_NAME: _decimal,
    DATE_NAME: _date,
    TIME_NAME: _time,
    TIMESTAMP_NAME: _timestamp,
}
