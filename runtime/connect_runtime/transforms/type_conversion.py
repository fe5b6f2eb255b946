"""Transformations that change the types of fields, or of a key or value: Cast, and for times
TimestampConverter: between texts, numbers, and Connect's Date, Time and Timestamp.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from connect_runtime.api import (
    DATE,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    ConfigError,
    DataError,
    Described,
    OneOf,
    Schema,
    Struct,
    Type,
)
from connect_runtime.api.schema import DATE_NAME, TIME_NAME, TIMESTAMP_NAME, class_of, copy_basics
from connect_runtime.data.logical_types import (
    MILLIS_PER_DAY,
    date_of,
    from_millis,
    time_of,
    to_millis,
)
from connect_runtime.data.simple_header_converter import literal_text
from connect_runtime.java.date_format import InvalidDateFormat, SimpleDateFormat
from connect_runtime.java.scalars import (
    java_float,
    java_split,
    java_text,
    java_trim,
    parse_double,
    parse_integer,
    to_double,
    to_float,
    to_integer,
)
from connect_runtime.transforms.fields import (
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    SchemaCache,
    convert_fields,
    struct_fields,
)
from connect_runtime.transforms.transformation import (
    Half,
    MissingField,
    OneHalf,
    UnknownTimestampType,
    WrongClass,
    key_and_value,
    options,
    require_map,
    require_struct,
)

_PURPOSE: Final = "cast types"
_TYPES: Final = {type.name: type for type in Type}
_OUTPUTS: Final = (
    Type.INT8,
    Type.INT16,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
    Type.BOOLEAN,
    Type.STRING,
)
_INPUTS: Final = (*_OUTPUTS, Type.BYTES)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_LOGICAL_DATES: Final = (DATE_NAME, TIME_NAME, TIMESTAMP_NAME)
# Types of values without a schema
_INFERRED: Final[tuple[tuple[tuple[type[Any], ...], Type], ...]] = (
    ((bool,), Type.BOOLEAN),
    ((int,), Type.INT64),
    ((float,), Type.FLOAT64),
    ((str,), Type.STRING),
    ((bytes, bytearray, memoryview), Type.BYTES),
    ((list, tuple), Type.ARRAY),
    ((Mapping,), Type.MAP),
    ((Struct,), Type.STRUCT),
)


def parse_spec(mappings: list[str]) -> dict[str | None, Type]:
    """Returns types by field; None is the value itself. Raises `ConfigError`."""
    casts: dict[str | None, Type] = {}
    for mapping in mappings:
        words = java_split(mapping, ":")
        if len(words) > 2:
            raise ConfigError.invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        field = java_trim(words[0]) if len(words) == 2 else None
        casts[field] = _output_type(java_trim(words[-1]) if words else "")
    if None in casts and len(mappings) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify"
            " a single cast in their spec"
        )
    return casts


def _output_type(name: str) -> Type:
    type = _TYPES.get(name.upper())
    if type is None:
        # an exception where Connect's error takes a value
        raise ConfigError(
            "Invalid value java.lang.IllegalArgumentException: No enum constant"
            f" org.apache.kafka.connect.data.Schema.Type.{name.upper()} for configuration"
            f" Invalid type found in casting spec: {name}"
        )
    if type not in _OUTPUTS:
        raise ConfigError(
            f"Cast transformation does not support casting to {type.name};"
            f" supported types are {_names(_OUTPUTS)}"
        )
    return type


def _names(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(type.name for type in types)}]"


def _check_spec(name: str, value: list[str] | None) -> None:
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    parse_spec(value)


class Cast(OneHalf):
    """Changes types. Numbers are narrowed as Java does, without an error."""

    OPTIONS = options(
        "Cast",
        {
            "spec": Described(
                _check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            )
        },
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the casts."""
        casts = parse_spec(options["spec"])
        self._value_type = casts.pop(None, None)
        self._casts = {field: type for field, type in casts.items() if field is not None}
        self._converters = {name: partial(cast, type=type) for name, type in self._casts.items()}
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._target_schema)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Casts the value or its fields; null stays null."""
        if value is None:
            return schema, None
        if schema is None:
            return None, self._without_schema(value)
        target = self._schemas(schema)
        if self._value_type is not None:
            return target, cast(value, schema, self._value_type)
        struct = require_struct(value, _PURPOSE, schema)
        converters = self._converters
        return target, convert_fields(struct, target, converters, with_default=self._with_default)

    def _without_schema(self, value: Any) -> Any:
        if self._value_type is not None:
            return cast(value, None, self._value_type)
        fields = dict(require_map(value, _PURPOSE))
        for field, type in self._casts.items():
            fields[field] = cast(fields.get(field), None, type)
        return fields

    def _target_schema(self, schema: Schema) -> Schema:
        if self._value_type is not None:
            return _retyped(schema, copy_basics(schema, self._value_type).build())
        builder = copy_basics(schema, Type.STRUCT)
        for field in struct_fields(schema):
            type = self._casts.get(field.name)
            own = field.schema
            builder.field(field.name, own if type is None else _retyped(own, Schema(type)))
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            # Connect tries to cast the default of a struct, which it cannot
            cast(schema.default, schema, Type.STRUCT)
        return builder.build()


def _retyped(schema: Schema, target: Schema) -> Schema:
    default = cast(schema.default, schema, target.type)
    return replace(target, optional=schema.optional, default=default)


def cast(value: Any, schema: Schema | None, type: Type) -> Any:
    """Returns a value of `schema` as one of `type`. Raises `DataError`."""
    if value is None:
        return None
    source = _inferred(value) if schema is None else schema.type
    if source not in _INPUTS:
        raise DataError(
            f"Cast transformation does not support casting from {source.name};"
            f" supported types are {_names(_INPUTS)}"
        )
    if schema is not None:
        if schema.name in _LOGICAL_DATES and type is not Type.STRING:
            if not isinstance(value, dt.date | dt.time):
                actual = class_of(value, schema)
                raise WrongClass(f"class {actual} cannot be cast to class java.util.Date")
            millis = to_millis(value)
            value = millis // MILLIS_PER_DAY if schema.name == DATE_NAME else millis
        elif source is Type.FLOAT32 and isinstance(value, float):
            value = to_float(value)
    try:
        return _TO[type](value, schema)
    except ValueError as error:
        text = f"Value ({java_text(value)}) was out of range for requested data type"
        raise DataError(text) from error


def _inferred(value: Any) -> Type:
    for types, type in _INFERRED:
        if isinstance(value, types):
            return type
    raise DataError(
        f"Cast transformation was passed a value of type class {class_of(value, None)} which is not"
        " supported by Connect's data API"
    )


def _unexpected(value: Any, schema: Schema | None) -> DataError:
    actual = class_of(value, schema)
    return DataError(f"Unexpected type in Cast transformation: class {actual}")


def _integer(bits: int) -> Callable[[Any, Schema | None], int]:
    def to(value: Any, schema: Schema | None) -> int:
        if isinstance(value, str):
            return parse_integer(value, bits)
        if isinstance(value, int | float | Decimal):
            return to_integer(value, bits)
        raise _unexpected(value, schema)

    return to


def _fraction(convert: Callable[[Any], float]) -> Callable[[Any, Schema | None], float]:
    def to(value: Any, schema: Schema | None) -> float:
        if isinstance(value, str):
            return convert(parse_double(value))
        if isinstance(value, int | float | Decimal):
            return convert(value)
        raise _unexpected(value, schema)

    return to


def _boolean(value: Any, schema: Schema | None) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, int | float | Decimal):
        return to_integer(value, 64) != 0
    raise _unexpected(value, schema)


def _string(value: Any, schema: Schema | None) -> str:
    if isinstance(value, dt.date | dt.time):
        return literal_text(value, schema)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and schema is not None and schema.type is Type.FLOAT32:
        return java_float(value)
    return java_text(value)


def _float32(value: Any, schema: Schema | None) -> float:
    number = _fraction(to_float)(value, schema)
    # without a schema it is written as a double, and has to be printed with the same digits
    return float(java_float(number)) if schema is None else number


_TO: Final[Mapping[Type, Callable[[Any, Schema | None], Any]]] = {
    **{type: _integer(bits) for type, bits in _BITS.items()},
    Type.FLOAT32: _float32,
    Type.FLOAT64: _fraction(to_double),
    Type.BOOLEAN: _boolean,
    Type.STRING: _string,
}


CastKey, CastValue = key_and_value(Cast)


_TIMESTAMPS: Final = "converting timestamp formats"
# Units in a second
_UNITS: Final = {"nanoseconds": 10**9, "microseconds": 10**6, "milliseconds": 1000, "seconds": 1}
_TARGETS: Final = {
    "string": STRING,
    "unix": INT64,
    "Date": DATE,
    "Time": TIME,
    "Timestamp": TIMESTAMP,
}
_LOGICAL: Final = {TIMESTAMP_NAME: "Timestamp", DATE_NAME: "Date", TIME_NAME: "Time"}
# by kind of schema, the value that it needs
_EXPECTED: Final = {
    "string": "string timestamp to be a String",
    "unix": "Unix timestamp to be a Long",
    **{name: f"{name} to be a java.util.Date" for name in _LOGICAL.values()},
}


class TimestampConverter(OneHalf):
    """Converts a field, or the whole key or value. Texts are in UTC."""

    OPTIONS = options(
        "TimestampConverter",
        {"target.type": OneOf.strings(*_TARGETS), "unix.precision": OneOf.strings(*_UNITS)},
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets field, target and formats. Raises `ConfigError` for a pattern that is not
        supported."""
        self._field: str = options["field"]
        self._target: str = options["target.type"]
        self._units: int = _UNITS[options["unix.precision"]]
        self._with_default: bool = options[REPLACE_NULL]
        self._format = _date_format(options["format"], required=self._target == "string")
        self._write = self._writer()
        self._converters = {self._field: self._converted}
        self._schemas = SchemaCache(self._target_schema)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Converts the time; null stays null."""
        if schema is None:
            return None, self._without_schema(value)
        if not self._field:
            return self._retyped(schema), self._converted(value, schema)
        struct = None if value is None else require_struct(value, _TIMESTAMPS, schema)
        target = self._schemas(schema)
        return target, None if struct is None else self._struct(struct, target)

    def _without_schema(self, value: Any) -> Any:
        if value is None or not self._field:
            return self._converted(value, None)
        changed = dict(require_map(value, _TIMESTAMPS))
        changed[self._field] = self._converted(changed.get(self._field), None)
        return changed

    def _struct(self, struct: Struct, target: Schema) -> Struct:
        converters = self._converters
        return convert_fields(struct, target, converters, with_default=self._with_default)

    def _retyped(self, schema: Schema) -> Schema:
        target = _TARGETS[self._target]
        return target.as_optional() if schema.optional else target

    def _target_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        for field in struct_fields(schema):
            is_converted = field.name == self._field
            builder.field(field.name, self._retyped(field.schema) if is_converted else field.schema)
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(self._struct(schema.default, builder.build()))
        return builder.build()

    # values

    def _converted(self, value: Any, schema: Schema | None) -> Any:
        kind = None if schema is None else _kind(schema)
        return None if value is None else self._write(self._millis(value, kind, schema))

    def _millis(self, value: Any, kind: str | None, schema: Schema | None) -> int:
        if isinstance(value, str) and kind in (None, "string"):
            return self._parsed(value)
        if type(value) is int and kind in (None, "unix"):
            return self._from_unix(value)
        if isinstance(value, dt.date | dt.time) and kind not in ("string", "unix"):
            return to_millis(value)
        actual = f"class {class_of(value, schema)}"
        if kind is None:
            raise DataError(f"TimestampConverter does not support {actual} objects as timestamps")
        raise DataError(f"Expected {_EXPECTED[kind]}, but found {actual}")

    def _parsed(self, text: str) -> int:
        if self._format is None:
            raise MissingField(
                "TimestampConverter reads texts by the option format, which is missing"
            )
        try:
            return self._format.parse(text)
        except ValueError as error:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern"
                f" ({self._format.pattern})"
            ) from error

    def _from_unix(self, value: int) -> int:
        if self._units <= 1000:
            return _limited(value * (1000 // self._units))
        # towards zero
        smaller = self._units // 1000
        return value // smaller if value >= 0 else -(-value // smaller)

    def _to_unix(self, millis: int) -> int:
        if self._units >= 1000:
            return _limited(millis * (self._units // 1000))
        return millis // 1000 if millis >= 0 else -(-millis // 1000)

    def _writer(self) -> Callable[[int], Any]:
        if self._target == "string" and self._format is not None:
            return self._format.format
        return {
            "unix": self._to_unix,
            "Date": date_of,
            "Time": time_of,
            "Timestamp": from_millis,
        }[self._target]


def _limited(value: int) -> int:
    """Returns the value within 64 bits, as Java's `TimeUnit` does."""
    low, high = -(1 << 63), (1 << 63) - 1
    return min(max(value, low), high)


def _date_format(pattern: str, *, required: bool) -> SimpleDateFormat | None:
    if not pattern.strip():
        if required:
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string"
                " timestamps"
            )
        return None
    try:
        return SimpleDateFormat(pattern)
    except InvalidDateFormat as error:
        raise ConfigError(
            f"Invalid value java.lang.IllegalArgumentException: {error} for configuration"
            " TimestampConverter requires a SimpleDateFormat-compatible pattern for string"
            f" timestamps: {pattern}"
        ) from error


def _kind(schema: Schema) -> str:
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return logical
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    text = f"Schema {schema} does not correspond to a known timestamp type format"
    raise UnknownTimestampType(text)


TimestampConverterKey, TimestampConverterValue = key_and_value(TimestampConverter)
