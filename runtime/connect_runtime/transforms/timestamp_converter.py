"""TimestampConverter converts times between texts, numbers, and Connect's Date, Time, Timestamp."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from connect_runtime.api import (
    DATE,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    ConfigError,
    DataError,
    OneOf,
    Schema,
    Struct,
    Type,
)
from connect_runtime.api.schema import (
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    class_of,
    copy_basics,
    validate_value,
)
from connect_runtime.data.logical_types import date_of, from_millis, time_of, to_millis
from connect_runtime.java.date_format import InvalidDateFormat, SimpleDateFormat
from connect_runtime.transforms.fields import (
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    SchemaCache,
    read_field,
    struct_fields,
)
from connect_runtime.transforms.transformation import (
    Half,
    MissingField,
    OneHalf,
    UnknownTimestampType,
    key_and_value,
    options,
    require_map,
    require_struct,
)

_PURPOSE: Final = "converting timestamp formats"
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
        self._schemas = SchemaCache(self._target_schema)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Converts the time; null stays null."""
        if schema is None:
            return None, self._without_schema(value)
        if not self._field:
            return self._retyped(schema), self._converted(value, schema)
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        target = self._schemas(schema)
        return target, None if struct is None else self._struct(struct, target)

    def _without_schema(self, value: Any) -> Any:
        if value is None or not self._field:
            return self._converted(value, None)
        changed = dict(require_map(value, _PURPOSE))
        changed[self._field] = self._converted(changed.get(self._field), None)
        return changed

    def _struct(self, struct: Struct, target: Schema) -> Struct:
        values = {}
        for field in struct.schema.fields:
            value = read_field(struct, field.name, with_default=self._with_default)
            if field.name == self._field:
                value = self._converted(value, field.schema)
            if value is None:
                validate_value(target.field(field.name) or field.schema, None, field=field.name)
            values[field.name] = value
        return Struct.unchecked(target, values)

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
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format"'
                " is null"
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
        # an exception where Connect's error takes a value
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
