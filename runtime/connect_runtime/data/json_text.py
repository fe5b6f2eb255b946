"""Writes JSON text as Jackson does for Connect: compact, Java's numbers, NaN as a string.

`plain_json` is for values without a schema and uses orjson wherever the two agree; `encoder`
returns a function for one schema, so that its shape is evaluated once, not for each record.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import DataError, Schema, Struct, Type
from connect_runtime.api.java_text import java_double, java_float
from connect_runtime.api.java_types import java_class
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.decimals import data_of, decimal_text, unscaled
from connect_runtime.data.timestamps import MILLIS_PER_DAY, to_millis

Encode: TypeAlias = Callable[[Any], str]

# Where orjson and Jackson may differ: large and small fractions, null for NaN, \u001f for \u001F,
# UUIDs. A match only means that the value must be checked.
_MAY_DIFFER: Final = re.compile(rb"[0-9]\.[0-9]|[0-9]e|null|\\u00|-[0-9a-f]{4}-")
# Connect has no dates without a schema
_NO_DATES: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
# what was a backslash in the text is two, and may have these characters after it
_ESCAPED: Final = re.compile(r"\\\\|\\u00[0-9a-f]{2}")
# four bytes in UTF-8, a pair of surrogates in Java
_PAIR: Final = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_HALF_OR_PAIR: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
INTEGERS: Final = {
    Type.INT8: range(-(1 << 7), 1 << 7),
    Type.INT16: range(-(1 << 15), 1 << 15),
    Type.INT32: range(-(1 << 31), 1 << 31),
    Type.INT64: range(-(1 << 63), 1 << 63),
}


def plain_json(value: Any) -> bytes:
    """Encodes a value without schema. Raises `DataError` for types that Connect lacks."""
    try:
        text = orjson.dumps(value, option=_NO_DATES)
    except TypeError:
        return _plain(value).encode()
    if _MAY_DIFFER.search(text) is None or not _differs(value):
        return with_pairs(text)
    return _plain(value).encode()


def _differs(value: Any) -> bool:
    """Whether Java prints any part of the value differently."""
    if isinstance(value, float):
        return value != 0 and not 1e-3 <= abs(value) < 1e7
    if isinstance(value, str):
        return any(c < " " for c in value)
    if isinstance(value, Mapping):
        return any(_differs(k) or _differs(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return any(map(_differs, value))
    # dataclasses, dates and the like: orjson would write them, Connect does not
    return value is not None and not isinstance(value, int)


def _plain(value: Any) -> str:
    if isinstance(value, Struct):
        raise DataError("Mismatching schema.")  # as Connect says if there is none
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return "{" + ",".join(f"{json_string(k)}:{_plain(v)}" for k, v in value.items()) + "}"
        return "[" + ",".join(f"[{_plain(k)},{_plain(v)}]" for k, v in value.items()) + "]"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_plain, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(value)
    raise DataError(
        f"Java class class {java_class(value)} does not have corresponding schema type."
    )


class Options:
    """The converter's options for writing and reading values. `floats_as_written`: a float that is
    read has all digits that were written; else decimals ask for them."""

    __slots__ = ("decimal_numeric", "floats_as_written", "replace_null")

    def __init__(
        self,
        *,
        decimal_numeric: bool = False,
        replace_null: bool = True,
        floats_as_written: bool = False,
    ) -> None:
        self.decimal_numeric = decimal_numeric
        self.replace_null = replace_null
        self.floats_as_written = floats_as_written


def encoder(schema: Schema, options: Options) -> Encode:
    """Returns a function that writes values of `schema`."""
    present = _present(schema, options)
    replaced = None
    if schema.default is not None and options.replace_null:
        replaced = present(schema.default)

    def encode(value: Any) -> str:
        if value is not None:
            return present(value)
        if replaced is not None:
            return replaced
        if schema.optional:
            return "null"
        raise DataError(
            "Conversion error: null value for field that is required and has no default value"
        )

    return encode


def _present(schema: Schema, options: Options) -> Encode:
    """Returns a function that writes values of `schema` other than None."""
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return logical(schema, options)
    match schema.type:
        case Type.ARRAY:
            return _array(schema, options)
        case Type.MAP:
            return _map(schema, options)
        case Type.STRUCT:
            return _struct(schema, options)
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer(schema)
        case simple:
            types, write = _SIMPLE[simple]
            return _checked(schema, types, write)


def _part(schema: Schema | None, options: Options) -> Encode:
    """Returns a function that writes elements, which may have no schema: those of an empty list, or
    of a list of texts and numbers."""
    return _plain if schema is None else encoder(schema, options)


def _checked(schema: Schema, types: tuple[type, ...], write: Encode) -> Encode:
    def encode(value: Any) -> str:
        fits = isinstance(value, types) and (
            not isinstance(value, bool) or schema.type is Type.BOOLEAN
        )
        if not fits:
            raise _wrong(value, schema)
        return write(value)

    return encode


def _integer(schema: Schema) -> Encode:
    fitting = INTEGERS[schema.type]

    def encode(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(value, schema)
        if value not in fitting:
            raise DataError(f"{value} is out of the range of {schema.type.name}")
        return str(value)

    return encode


def _wrong(value: Any, schema: Schema) -> DataError:
    name = "bytes type" if schema.type is Type.BYTES else schema.type.name
    return DataError(f"Invalid type for {name}: class {java_class(value, bits=8)}")


def _array(schema: Schema, options: Options) -> Encode:
    item = _part(schema.items, options)

    def encode(value: Any) -> str:
        if not isinstance(value, list | tuple):
            raise _wrong(value, schema)
        return "[" + ",".join(map(item, value)) + "]"

    return encode


def _map(schema: Schema, options: Options) -> Encode:
    keys = schema.keys
    if keys is None:
        raise DataError("The schema of a map needs one of its keys")
    key, item = encoder(keys, options), _part(schema.values, options)

    def encode(value: Any) -> str:
        if not isinstance(value, Mapping):
            raise _wrong(value, schema)
        if keys.type is Type.STRING:
            return "{" + ",".join(f"{key(k)}:{item(v)}" for k, v in value.items()) + "}"
        return "[" + ",".join(f"[{key(k)},{item(v)}]" for k, v in value.items()) + "]"

    return encode


def _struct(schema: Schema, options: Options) -> Encode:
    fields = [
        (f.name, f"{json_string(f.name)}:", encoder(f.schema, options)) for f in schema.fields
    ]

    def encode(value: Any) -> str:
        if not isinstance(value, Struct):
            raise _wrong(value, schema)
        if value.schema is not schema and value.schema != schema:
            raise DataError("Mismatching schema.")
        given = value.values
        return "{" + ",".join(start + write(given.get(n)) for n, start, write in fields) + "}"

    return encode


def json_string(value: Any) -> str:
    """Encodes a string, or a map of strings."""
    try:
        text = with_pairs(orjson.dumps(value)).decode()
    except TypeError:
        # half of a surrogate pair, which orjson refuses
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = _HALF_OR_PAIR.sub(_escaped_units, text)
    if "\\u00" in text:
        # Jackson writes hexadecimal digits in upper case
        text = _ESCAPED.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)
    return text


def with_pairs(text: bytes) -> bytes:
    r"""Returns JSON as Jackson writes it in UTF-8: emoji and other characters that are two in Java
    are escaped, as in \uD83D\uDE00."""
    return text if text.isascii() else _PAIR.sub(_escaped_pair, text)


def _escaped_pair(found: re.Match[bytes]) -> bytes:
    units = found[0].decode().encode("utf-16-be").hex().upper().encode()
    return b"\\u%b\\u%b" % (units[:4], units[4:])


def _escaped_units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _bytes(value: Any) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _double(value: float) -> str:
    text = java_double(value)
    return text if math.isfinite(value) else f'"{text}"'


def _float(value: float) -> str:
    text = java_float(value)
    return text if math.isfinite(value) else f'"{text}"'


def _decimal(schema: Schema, options: Options) -> Encode:
    scale = decimal_scale(schema)

    def encode(value: Any) -> str:
        if options.decimal_numeric:
            return decimal_text(value, scale)
        return _bytes(data_of(unscaled(value, scale)))

    return encode


def decimal_scale(schema: Schema) -> int:
    """Returns the scale of a Decimal schema."""
    try:
        return int((schema.parameters or {})["scale"])
    except (KeyError, ValueError) as error:
        raise DataError("Invalid Decimal schema: scale parameter not found.") from error


def _date(schema: Schema, options: Options) -> Encode:
    def encode(value: Any) -> str:
        if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
            raise _not_a_date(value, "Date")
        return str(to_millis(value) // MILLIS_PER_DAY)

    return encode


def _time(schema: Schema, options: Options) -> Encode:
    def encode(value: Any) -> str:
        if not isinstance(value, dt.time):
            raise _not_a_date(value, "Time")
        return str(to_millis(value))

    return encode


def _timestamp(schema: Schema, options: Options) -> Encode:
    def encode(value: Any) -> str:
        if not isinstance(value, dt.datetime):
            raise _not_a_date(value, "Timestamp")
        return str(to_millis(value))

    return encode


def _not_a_date(value: Any, name: str) -> DataError:
    # in Java, all three are of one class
    return DataError(
        f"Invalid type for {name}, expected Date but was class {java_class(value, bits=8)}"
    )


_LOGICAL: Final[Mapping[str, Callable[[Schema, Options], Encode]]] = {
    DECIMAL_NAME: _decimal,
    DATE_NAME: _date,
    TIME_NAME: _time,
    TIMESTAMP_NAME: _timestamp,
}
_SIMPLE: Final[Mapping[Type, tuple[tuple[type, ...], Encode]]] = {
    Type.BOOLEAN: ((bool,), lambda value: "true" if value else "false"),
    Type.FLOAT32: ((int, float), lambda value: _float(float(value))),
    Type.FLOAT64: ((int, float), lambda value: _double(float(value))),
    Type.BYTES: ((bytes, bytearray, memoryview), _bytes),
    Type.STRING: ((str,), json_string),
}
