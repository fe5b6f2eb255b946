"""Reads values of a schema from parsed JSON.

A value that is not of its schema's type is an error. Connect makes 0, false, null or an empty list
of most of them, which loses what the message says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from connect_runtime.api import DataError, Schema, Struct, Type
from connect_runtime.api.java_numbers import between_floats, to_float, to_floats
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.decimals import decimal_of
from connect_runtime.data.json_base64 import base64_data
from connect_runtime.data.json_text import INTEGERS, Options, decimal_scale

Decode: TypeAlias = Callable[[Any], Any]


class DigitsNeeded(Exception):
    """A float was found where every digit counts: parse with `parse_digits`."""


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_MS: Final = 86_400_000
_YEARS_MS: Final = range(-62_135_596_800_000, 253_402_300_800_000)  # 1 to 9999


class Missing:
    """What a message of no bytes parses to, where its schema wants a value."""


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
            return lambda value: [item(each) for each in _as(list, value, schema)]
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
        whole = float(value)
        if abs(whole) < _EXACT_FLOATS and whole.is_integer():
            value = int(whole)
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
        return Struct.unchecked(schema, {name: read(value.get(name)) for name, read in fields})

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
        days = _whole(value, "Date", "integer", Type.INT32)
        return (_EPOCH + _since_epoch(days * _DAY_MS)).date()

    return decode


def _time(schema: Schema, options: Options) -> Decode:
    def decode(value: Any) -> dt.time:
        milliseconds = _whole(value, "Time", "integer", Type.INT32)
        if not 0 <= milliseconds < _DAY_MS:
            raise DataError(
                "Time values must use number of milliseconds greater than 0 and less than 86400000"
            )
        return (_EPOCH + _since_epoch(milliseconds)).time()

    return decode


def _timestamp(schema: Schema, options: Options) -> Decode:
    return lambda value: _EPOCH + _since_epoch(_whole(value, "Timestamp", "integral", Type.INT64))


def _since_epoch(milliseconds: int) -> dt.timedelta:
    if milliseconds not in _YEARS_MS:
        raise DataError(f"{milliseconds} ms since 1970 is not in the years 1 to 9999")
    return dt.timedelta(milliseconds=milliseconds)


def _whole(value: Any, name: str, wanted: str, type_: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in INTEGERS[type_]:
        raise DataError(
            f"Invalid type for {name}, underlying representation should be {wanted} but was"
            f" {_kind(value)}"
        )
    return value


_LOGICAL: Final[Mapping[str, Callable[[Schema, Options], Decode]]] = {
    DECIMAL_NAME: _decimal,
    DATE_NAME: _date,
    TIME_NAME: _time,
    TIMESTAMP_NAME: _timestamp,
}
