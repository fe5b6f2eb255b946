"""Parses JSON as Connect's parser does, and reads values of a schema from it.

The parser takes UTF-16 and UTF-32, a byte order mark, and numbers with leading zeros; no bytes are
null. Text after the first value is an error here; Connect ignores it. A value that is not of its
schema's type is an error, too; Connect makes 0, false, null or an empty list of most of them.
"""

from __future__ import annotations

import codecs
import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import DataError, Schema, Struct, Type
from connect_runtime.api.schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    SchemaBuilder,
    SchemaBuilderError,
)
from connect_runtime.data.json_writer import INTEGERS, Options, decimal_scale
from connect_runtime.data.logical_types import (
    MILLIS_PER_DAY,
    date_of,
    decimal_of,
    from_millis,
    time_of,
)
from connect_runtime.data.value_columns import StructColumn
from connect_runtime.java.jackson import base64_data
from connect_runtime.java.scalars import between_floats, to_float, to_floats

# matches strings, also one that does not end, in order to leave them out. Possessive: each byte is
# read once
_LEADING_ZEROS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+])0+(?=[0-9])')
_SPACE: Final = b" \t\r\n"
_MARKS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)


def parse(data: bytes) -> Any:
    """Parses JSON. Raises `DataError`."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as first:
        try:
            return orjson.loads(_standard(data))
        except ValueError:
            # without the error itself, which holds the document
            reason = first.msg
        text = "Converting byte[] to Kafka Connect data failed due to serialization error: "
        raise DataError(text) from DataError(reason)


def parse_digits(data: bytes) -> Any:
    """Parses JSON that `parse` has parsed, with fractions as Decimals and integers of any size."""
    return json.loads(_standard(data), parse_float=Decimal)


def _standard(data: bytes) -> bytes:
    """Returns the JSON that this stands for, in UTF-8. Raises ValueError for other bytes."""
    text = data.decode(json.detect_encoding(data)).encode()
    if data in _MARKS:
        raise ValueError("a byte order mark and nothing else")
    if not text.strip(_SPACE):
        return b"null"
    return _LEADING_ZEROS.sub(lambda match: match[0] if match[0].startswith(b'"') else b"", text)


Decode: TypeAlias = Callable[[Any], Any]


class DigitsNeeded(Exception):
    """Raised for a float where every digit counts: parse with `parse_digits`."""


class Missing:
    """The parsed value of a message without bytes whose schema needs a value."""


MISSING: Final = Missing()
_KINDS: Final = {
    bool: "BOOLEAN",
    str: "STRING",
    list: "ARRAY",
    dict: "OBJECT",
    Missing: "MISSING",
}
_EXACT_FLOATS: Final = 1 << 53  # from here on, floats do not have every whole number


def decoder(schema: Schema, options: Options) -> Decode:
    """Returns a function from parsed JSON to values of `schema`. It raises DataError, and
    DigitsNeeded for a decimal that was parsed as a float."""
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
        return logical(schema, options)
    match schema.type:
        case Type.ARRAY:
            item = decoder(schema.items or schema, options)
            return lambda value: [item(element) for element in _as(list, value, schema)]
        case Type.MAP:
            return _map(schema, options)
        case Type.STRUCT:
            return _struct(schema, options)
        case Type.BYTES:
            return _base64
        case Type.FLOAT32:
            return lambda value: _float(value, schema, options)
        case Type.FLOAT64:
            return lambda value: float(_number(value, schema))
        case Type.BOOLEAN:
            return lambda value: _as(bool, value, schema)
        case Type.STRING:
            return lambda value: _as(str, value, schema)
        case _:
            return lambda value: _integer(value, schema)


def _as(type_: type[Any], value: Any, schema: Schema) -> Any:
    if not isinstance(value, type_):
        raise _wrong(value, schema)
    return value


def _wrong(value: Any, schema: Schema) -> DataError:
    return DataError(f"Invalid type for {schema.type.name}: {_kind(value)}")


def _kind(value: Any) -> str:
    """Returns Jackson's name for the type of parsed JSON."""
    return "NULL" if value is None else _KINDS.get(type(value), "NUMBER")


def _integer(value: Any, schema: Schema) -> int:
    if isinstance(value, float | Decimal):
        number = float(value)
        if abs(number) < _EXACT_FLOATS and number.is_integer():
            value = int(number)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, schema)
    if value not in INTEGERS[schema.type]:
        raise DataError(f"{value} is out of the range of {schema.type.name}")
    return value


def _number(value: Any, schema: Schema) -> int | float | Decimal:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value, schema)
    return value


def _float(value: Any, schema: Schema, options: Options) -> float:
    number = _number(value, schema)
    if isinstance(number, float):
        return floats([number], options)[0]
    return to_float(number)


def floats(values: Sequence[float], options: Options) -> list[float]:
    """Returns the values as numbers of 32 bits. Raises DigitsNeeded."""
    rounded = to_floats(values)
    if not options.floats_as_written and between_floats(values, rounded):
        raise DigitsNeeded
    return rounded


def _base64(value: Any) -> bytes:
    try:
        return base64_data(value)
    except (TypeError, ValueError) as error:
        raise DataError("Invalid bytes field") from error


def _map(schema: Schema, options: Options) -> Decode:
    key = decoder(schema.keys or schema, options)
    item = decoder(schema.values or schema, options)

    def of_object(value: Any) -> Any:
        if not isinstance(value, dict):
            raise DataError(
                "Maps with string fields should be encoded as JSON objects, but found"
                f" {_kind(value)}"
            )
        return {key(k): item(v) for k, v in value.items()}

    def of_pairs(value: Any) -> Any:
        if not isinstance(value, list):
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, but found"
                f" {_kind(value)}"
            )
        return {key(k): item(v) for k, v in map(_pair, value)}

    return of_object if schema.keys is not None and schema.keys.type is Type.STRING else of_pairs


def _pair(entry: Any) -> tuple[Any, Any]:
    if not isinstance(entry, list):
        raise DataError(f"Found invalid map entry instead of array tuple: {_kind(entry)}")
    if len(entry) != 2:
        raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
    return entry[0], entry[1]


def _struct(schema: Schema, options: Options) -> Decode:
    fields = [(f.name, decoder(f.schema, options)) for f in schema.fields]

    def decode(value: Any) -> Struct:
        if not isinstance(value, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_kind(value)}")
        return Struct.unchecked(
            schema, {name: decode_field(value.get(name)) for name, decode_field in fields}
        )

    return decode


def _decimal(schema: Schema, options: Options) -> Decode:
    def decode(value: Any) -> Decimal:
        if isinstance(value, str):
            try:
                return decimal_of(base64_data(value), decimal_scale(schema))
            except (ValueError, DataError) as error:
                raise DataError("Invalid bytes for Decimal field") from error
        if isinstance(value, float):
            if options.floats_as_written:
                return Decimal(str(value))
            raise DigitsNeeded
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise DataError(
                "Invalid type for Decimal, underlying representation should be numeric or bytes but"
                f" was {_kind(value)}"
            )
        return Decimal(value)

    return decode


def _date(schema: Schema, options: Options) -> Decode:
    def decode(value: Any) -> dt.date:
        return date_of(_integral(value, "Date", "integer", Type.INT32) * MILLIS_PER_DAY)

    return decode


def _time(schema: Schema, options: Options) -> Decode:
    def decode(value: Any) -> dt.time:
        millis = _integral(value, "Time", "integer", Type.INT32)
        if not 0 <= millis < MILLIS_PER_DAY:
            raise DataError(
                "Time values must use number of milliseconds greater than 0 and less than 86400000"
            )
        return time_of(millis)

    return decode


def _timestamp(schema: Schema, options: Options) -> Decode:
    return lambda value: from_millis(_integral(value, "Timestamp", "integral", Type.INT64))


def _integral(value: Any, name: str, expected: str, type_: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in INTEGERS[type_]:
        raise DataError(
            f"Invalid type for {name}, underlying representation should be {expected} but was"
            f" {_kind(value)}"
        )
    return value


_LOGICAL: Final[Mapping[str, Callable[[Schema, Options], Decode]]] = {
    DECIMAL_NAME: _decimal,
    DATE_NAME: _date,
    TIME_NAME: _time,
    TIMESTAMP_NAME: _timestamp,
}


DecodeMany: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]

_SIMPLE: Final[dict[Type, type[Any]]] = {
    Type.BOOLEAN: bool,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.STRING: str,
    **dict.fromkeys(INTEGERS, int),
}


def decoder_of_many(schema: Schema, options: Options) -> DecodeMany:
    """Returns a function from many parsed values to values of `schema`. It raises the
    errors of `decoder`."""
    decode = decoder(schema, options)
    if schema.type is not Type.STRUCT or not schema.fields:
        return lambda values: list(map(decode, values))
    names = [field.name for field in schema.fields]
    columns = [_column(field.schema, options) for field in schema.fields]

    def decode_many(values: Sequence[Any]) -> Sequence[Any]:
        if set(map(type, values)) != {dict} or set(map(len, values)) != {len(names)}:
            return list(map(decode, values))
        try:
            fields = [list(map(itemgetter(name), values)) for name in names]
        except KeyError:
            return list(map(decode, values))
        decoded = [column(values) for column, values in zip(columns, fields, strict=True)]
        return StructColumn(schema, dict(zip(names, decoded, strict=True)))

    return decode_many


def _column(schema: Schema, options: Options) -> DecodeMany:
    """Returns a function that reads a field of many structs."""
    decode_many = decoder_of_many(schema, options)
    simple = None if schema.name in _LOGICAL else _SIMPLE.get(schema.type)
    if simple is None:
        return decode_many
    limits = INTEGERS.get(schema.type)
    types = {simple}
    if schema.optional and (schema.default is None or not options.replace_null):
        types.add(NoneType)

    def read(column: Sequence[Any]) -> Sequence[Any]:
        if not types.issuperset(map(type, column)):
            return decode_many(column)
        if schema.type is Type.FLOAT32:
            return decode_many(column) if None in column else floats(column, options)
        if limits is not None:
            present = [value for value in column if value is not None]
            if present and not (min(present) in limits and max(present) in limits):
                return decode_many(column)
        return column

    return read


# schemas

_TYPES: Final = {t.value: t for t in Type}


def schema_of(parsed: Any, options: Options) -> Schema | None:
    """Returns the schema that the parsed JSON describes; None for null. Raises `DataError`.

    Name, version, doc and parameters of other types are ignored, as in Connect.
    """
    if parsed is None:
        return None
    name = parsed.get("type") if isinstance(parsed, dict) else None
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if name not in _TYPES:
        raise DataError(f"Unknown schema type: {name}")
    builder = _schema_builder(_TYPES[name], parsed, options)
    if parsed.get("optional") is True:
        builder.optional()
    builder.name(_text_in(parsed, "name")).doc(_text_in(parsed, "doc"))
    version = parsed.get("version")
    if (
        isinstance(version, int)
        and not isinstance(version, bool)
        and version in INTEGERS[Type.INT32]
    ):
        builder.version(version)
    parameters = parsed.get("parameters")
    if isinstance(parameters, dict):
        if not all(isinstance(value, str) for value in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        builder.parameters(parameters)
    if "default" in parsed:
        # it can be read only with the schema, which is complete here
        builder.default(decoder(builder.build(), options)(parsed["default"]))
    return builder.build()


def _schema_builder(type_: Type, parsed: Mapping[str, Any], options: Options) -> SchemaBuilder:
    match type_:
        case Type.ARRAY:
            items = schema_of(parsed.get("items"), options)
            if items is None:
                raise DataError("Array schema did not specify the element type")
            return SchemaBuilder.array(items)
        case Type.MAP:
            for name, half in (("keys", "key"), ("values", "value")):
                if name not in parsed:
                    raise DataError(f"Map schema did not specify the {half} type")
            return SchemaBuilder.map(
                _half_of_map(parsed["keys"], "key", options),
                _half_of_map(parsed["values"], "value", options),
            )
        case Type.STRUCT:
            return _struct_builder(parsed, options)
        case _:
            return SchemaBuilder(type_)


def _half_of_map(parsed: Any, half: str, options: Options) -> Schema:
    schema = schema_of(parsed, options)
    if schema is None:
        raise SchemaBuilderError(f"{half}Schema cannot be null.")
    return schema


def _struct_builder(parsed: Mapping[str, Any], options: Options) -> SchemaBuilder:
    fields = parsed.get("fields")
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    builder = SchemaBuilder(Type.STRUCT)
    for field in fields:
        name = _text_in(field, "field") if isinstance(field, dict) else None
        if name is None:
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_of(field, options)
        assert schema is not None
        builder.field(name, schema)
    return builder


def _text_in(parsed: Mapping[str, Any], name: str) -> str | None:
    value = parsed.get(name)
    return value if isinstance(value, str) else None
