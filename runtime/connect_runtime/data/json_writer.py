"""Writes JSON text as Jackson does for Connect: compact, Java's numbers, NaN as a string.

`plain_json` is for values without a schema and uses orjson wherever the two agree. `encoder`
returns a function for one schema, so that its shape is evaluated once, not for each record.
`encoder_of_many` writes structs field by field: orjson writes all values of a field at once, and
constants of all records are joined once. Values that Java writes differently are written one by
one.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import DataError, Schema, Struct, Type
from connect_runtime.api.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.logical_types import (
    MILLIS_PER_DAY,
    data_of,
    decimal_text,
    to_millis,
    unscaled,
)
from connect_runtime.data.value_columns import Part, StructColumn, rows
from connect_runtime.java.jackson import (
    json_bytes,
    json_double,
    json_scalar,
    json_string,
    with_pairs,
)
from connect_runtime.java.scalars import java_class, java_float

Encode: TypeAlias = Callable[[Any], str]

# texts in which orjson and Jackson may differ: large and small fractions, null for NaN, \u001f,
# UUIDs. A match only means that the value must be checked.
_MAY_DIFFER: Final = re.compile(rb"[0-9]\.[0-9]|[0-9]e|null|\\u00|-[0-9a-f]{4}-")
# Connect has no dates without a schema
_NO_DATES: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
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
    """Returns True if Java prints anything in the value differently."""
    if isinstance(value, float):
        return value != 0 and not 1e-3 <= abs(value) < 1e7
    if isinstance(value, str):
        return any(c < " " for c in value)
    if isinstance(value, Mapping):
        return any(_differs(k) or _differs(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return any(map(_differs, value))
    # orjson would write dataclasses, dates and the like; Connect does not
    return value is not None and not isinstance(value, int)


def _plain(value: Any) -> str:
    text = json_scalar(value)
    if text is not None:
        return text
    if isinstance(value, Struct):
        raise DataError("Mismatching schema.")  # as Connect says if there is none
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return "{" + ",".join(f"{json_string(k)}:{_plain(v)}" for k, v in value.items()) + "}"
        return "[" + ",".join(f"[{_plain(k)},{_plain(v)}]" for k, v in value.items()) + "]"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_plain, value)) + "]"
    raise DataError(
        f"Java class class {java_class(value)} does not have corresponding schema type."
    )


class Options:
    """The converter's options for writing and reading values. `floats_as_written`: a float that is
    read has all digits that were written; otherwise decimals need a parser that keeps them."""

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
    default = None
    if schema.default is not None and options.replace_null:
        default = present(schema.default)

    def encode(value: Any) -> str:
        if value is not None:
            return present(value)
        if default is not None:
            return default
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


def _element(schema: Schema | None, options: Options) -> Encode:
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
    item = _element(schema.items, options)

    def encode(value: Any) -> str:
        if not isinstance(value, list | tuple):
            raise _wrong(value, schema)
        return "[" + ",".join(map(item, value)) + "]"

    return encode


def _map(schema: Schema, options: Options) -> Encode:
    keys = schema.keys
    if keys is None:
        raise DataError("The schema of a map needs one of its keys")
    key, item = encoder(keys, options), _element(schema.values, options)

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
        values = value.values
        return "{" + ",".join(start + write(values.get(n)) for n, start, write in fields) + "}"

    return encode


def _float(value: float) -> str:
    text = java_float(value)
    return text if math.isfinite(value) else f'"{text}"'


def _decimal(schema: Schema, options: Options) -> Encode:
    scale = decimal_scale(schema)

    def encode(value: Any) -> str:
        if options.decimal_numeric:
            return decimal_text(value, scale)
        return json_bytes(data_of(unscaled(value, scale)))

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
    Type.FLOAT64: ((int, float), lambda value: json_double(float(value))),
    Type.BYTES: ((bytes, bytearray, memoryview), json_bytes),
    Type.STRING: ((str,), json_string),
}


EncodeMany: TypeAlias = Callable[[Sequence[Any]], list[bytes]]
_Columns: TypeAlias = list[Part[bytes]]
_ColumnsOf: TypeAlias = Callable[[Sequence[Any]], _Columns]


def encoder_of_many(
    schema: Schema, options: Options, head: bytes = b"", tail: bytes = b""
) -> EncodeMany:
    """Returns a function that writes many values of `schema`, each between two texts. It raises
    the errors of `encoder`."""
    columns_of = _columns_of(schema, options)
    return lambda values: rows([head, *columns_of(values), tail], len(values), b"")


def _columns_of(schema: Schema, options: Options) -> _ColumnsOf:
    """Returns a function from values to the columns that their texts are joined of."""
    encode = encoder(schema, options)
    together = None if schema.name in _LOGICAL else _TOGETHER.get(schema.type)
    if schema.type is Type.STRUCT:
        together = _structs(schema, options)

    def columns_of(values: Sequence[Any]) -> _Columns:
        columns = None if together is None or not values else together(schema, values)
        return [[encode(value).encode() for value in values]] if columns is None else columns

    return columns_of


def _structs(
    schema: Schema, options: Options
) -> Callable[[Schema, Sequence[Any]], _Columns | None]:
    fields: list[tuple[str, bytes, _ColumnsOf]] = []
    for field in schema.fields:
        start = (b"," if fields else b"{") + json_string(field.name).encode() + b":"
        fields.append((field.name, start, _columns_of(field.schema, options)))

    def together(schema: Schema, values: Sequence[Any]) -> _Columns | None:
        structs = StructColumn.of(values)
        if structs is None or structs.schema != schema:
            return None
        columns: _Columns = []
        for name, start, columns_of in fields:
            columns += [start, *columns_of(structs.fields[name])]
        return [*columns, b"}"]

    return together


def _strings(schema: Schema, values: Sequence[Any]) -> _Columns | None:
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


def _numbers(schema: Schema, values: Sequence[Any]) -> _Columns | None:
    type_, limits = (bool, None) if schema.type is Type.BOOLEAN else (int, INTEGERS[schema.type])
    if set(map(type, values)) != {type_}:
        return None
    if limits is not None and not (min(values) in limits and max(values) in limits):
        return None
    return [_split(values)]


def _doubles(schema: Schema, values: Sequence[Any]) -> _Columns | None:
    if set(map(type, values)) != {float}:
        return None
    texts = _split(values)
    # Java writes other numbers differently; infinite ones and NaN are null here, and NaN has no
    # order
    alike = b"null" not in texts and min(values) >= 1e-3 and max(values) < 1e7
    return [texts] if alike else None


def _split(values: Sequence[Any]) -> list[bytes]:
    return orjson.dumps(values)[1:-1].split(b",")


_TOGETHER: Final[Mapping[Type, Callable[[Schema, Sequence[Any]], _Columns | None]]] = {
    Type.STRING: _strings,
    Type.BOOLEAN: _numbers,
    **dict.fromkeys(INTEGERS, _numbers),
    Type.FLOAT64: _doubles,
}


# Of elements, which may have no schema
_ELEMENTS: Final = {Type.ARRAY: ("items",), Type.MAP: ("keys", "values")}


def schema_json(schema: Schema, options: Options) -> str:
    """Returns a schema as Connect writes it: the fields in the order of Jackson, because some
    consumers compare the text."""
    return "{" + ",".join(_members(schema, options)) + "}"


def _members(schema: Schema, options: Options) -> list[str]:
    members = [f'"type":"{schema.type.value}"']
    for name in _ELEMENTS.get(schema.type, ()):
        element = getattr(schema, name)
        members.append(f'"{name}":{"null" if element is None else schema_json(element, options)}')
    if schema.type is Type.STRUCT:
        fields = (
            "{" + ",".join([*_members(f.schema, options), f'"field":{json_string(f.name)}']) + "}"
            for f in schema.fields
        )
        members.append(f'"fields":[{",".join(fields)}]')
    members.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        members.append(f'"name":{json_string(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{json_string(schema.doc)}')
    if schema.parameters is not None:
        members.append(f'"parameters":{json_string(dict(schema.parameters))}')
    if schema.default is not None:
        members.append(f'"default":{encoder(schema, options)(schema.default)}')
    return members
