"""SimpleHeaderConverter, the default: headers as text, whose types are inferred when read.

Does what Connect's `Values` does, also for InsertHeader and Cast. A text is split at `:`, `,`,
braces, brackets and quotes; a backslash before one of them keeps it in its token. A text that is
nothing else is a string. Dates and times are UTC; they are printed by their magnitude: less than a
day since 1970 as a time, whole days as a date.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from connect_runtime import KAFKA_VERSION
from connect_runtime.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    ConfigDef,
    DataError,
    HeaderConverter,
    Schema,
    Struct,
    Type,
    decimal,
)
from connect_runtime.api.schema import DATE_NAME, TIME_NAME, TIMESTAMP_NAME
from connect_runtime.data.logical_types import MILLIS_PER_DAY, from_millis, to_millis
from connect_runtime.java.scalars import (
    BLANKS,
    java_double,
    java_float,
    java_utf8,
    parse_decimal,
    to_float,
)


class SimpleHeaderConverter(HeaderConverter):
    """Writes any value as text, and reads texts as the types that they resemble."""

    def version(self) -> str:
        return KAFKA_VERSION

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str]) -> None:
        pass

    def from_connect(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        # half of a surrogate pair is a question mark, as in Java
        return None if value is None else literal_text(value, schema).encode("utf-8", "replace")

    def to_connect(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            return parse_literal(java_utf8(data))
        except Exception:  # such as lists within lists, deeper than the stack; as in Connect
            return BYTES, data

    @property
    def reads_anything(self) -> bool:
        return True


Typed: TypeAlias = tuple[Schema | None, Any]

_LITERALS: Final[Mapping[str, Typed]] = {
    "null": (None, None),
    "true": (BOOLEAN, True),
    "false": (BOOLEAN, False),
}
_DELIMITERS: Final = ':,{}[]"'
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INTEGERS: Final = ((7, INT8), (15, INT16), (31, INT32), (63, INT64))
_MOST_DIGITS_OF_INT64: Final = 19
_WIDENING: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)


def parse_literal(text: str) -> Typed:
    """Returns schema and value of a text. `null` has neither."""
    if not text:
        return STRING, text
    return _LiteralParser(text).parse(embedded=False)


class _NotALiteral(Exception):
    """Raised if the text is no list or map after all."""


class _LiteralParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # by the start of a token, its end: most texts are one token, and it is read often
        self._ends: dict[int, int] = {}

    def parse(self, *, embedded: bool) -> Typed:
        """Reads one value. `embedded`: an element of a list or map, which needs its quotes."""
        if embedded and self._consume('"'):
            return self._quoted()
        for literal, typed in _LITERALS.items():
            if self._consume_alone(literal, embedded=embedded):
                return typed
        start = self._at
        try:
            if self._consume("["):
                return self._list()
            if self._consume("{"):
                return self._map()
        except _NotALiteral:
            self._at = start
        token = self._next()
        if not token.strip(BLANKS):
            return STRING, token
        return self._scalar(token.strip(BLANKS), embedded=embedded)

    # tokens

    def _next(self) -> str:
        start = self._at
        end = self._ends.get(start)
        if end is None:
            end = self._ends[start] = self._end_of(start)
        self._at = end
        return self._text[start:end]

    def _end_of(self, start: int) -> int:
        escaped = False
        for i in range(start, len(self._text)):
            c = self._text[i]
            if c in _DELIMITERS and not escaped:
                return max(i, start + 1)
            escaped = c == "\\" and not escaped
        return len(self._text)

    @property
    def _more(self) -> bool:
        return self._at < len(self._text)

    def _consume(self, expected: str) -> bool:
        """Consumes the next token that is not blank, if it is `expected`."""
        token = ""
        while self._more and not token.strip(BLANKS):
            token = self._next()
        if token.strip(BLANKS) == expected:
            return True
        self._at -= len(token)
        return False

    def _consume_alone(self, literal: str, *, embedded: bool) -> bool:
        start = self._at
        if self._consume(literal) and (embedded or not self._more):
            return True
        self._at = start
        return False

    # lists and maps

    def _list(self) -> Typed:
        items: list[Typed] = []
        while self._more:
            if self._consume("]"):
                schema = _common(schema for schema, _ in items)
                values = [_fit(value, own, schema) for own, value in items]
                return Schema(Type.ARRAY, items=schema), values
            if self._consume(","):
                break
            items.append(self.parse(embedded=True))
            end = self._at
            if self._consume("]"):
                self._at = end
            elif not self._consume(","):
                break
        raise _NotALiteral

    def _map(self) -> Typed:
        entries: list[tuple[Typed, Typed]] = []
        while self._more:
            if self._consume("}"):
                return _map_of(entries)
            if self._consume(","):
                break
            key = self.parse(embedded=True)
            if key[1] is None or not self._consume(":"):
                break
            entries.append((key, self.parse(embedded=True)))
            self._consume(",")
        raise _NotALiteral

    # single values

    def _quoted(self) -> Typed:
        content = ""
        while self._more and not self._consume('"'):
            content += self._next()
        return _temporal(content) or (STRING, content)

    def _scalar(self, token: str, *, embedded: bool) -> Typed:
        digit = token[0].isdecimal()
        typed = self._temporal(token) if digit else None
        if typed is None and (digit or token[0] in "+-"):
            typed = _number(token)
        if typed is None and embedded:
            raise _NotALiteral
        return typed or (STRING, self._text)

    def _temporal(self, token: str) -> Typed | None:
        """Reads a date or time; the colons of a time make five tokens of it."""
        start = self._at
        if all(self._more and self._next() for _ in range(4)):
            typed = _temporal(token + self._text[start : self._at])
            if typed is not None:
                return typed
        self._at = start
        return _temporal(token)


def _temporal(text: str) -> Typed | None:
    text = text.replace("\\:", ":")
    kind = _KINDS.get(len(text))
    if kind is None:
        return None
    schema, pattern, of = kind
    match = pattern.match(text)
    try:
        return None if match is None else (schema, of(*map(int, match.groups())))
    except OverflowError:  # a year that Python's dates cannot hold
        return None


def _date(year: int, month: int, day: int) -> dt.date:
    # lenient, as in Java: 2024-13-01 is 2025-01-01
    years, month0 = divmod(month - 1, 12)
    try:
        return dt.date(year + years, month0 + 1, 1) + dt.timedelta(days=day - 1)
    except ValueError as error:
        raise OverflowError from error


def _since_midnight(hours: int, minutes: int, seconds: int, millis: int) -> dt.timedelta:
    return dt.timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=millis)


def _time(*numbers: int) -> dt.time:
    return (_EPOCH + _since_midnight(*numbers)).time()


def _timestamp(year: int, month: int, day: int, *time: int) -> dt.datetime:
    midnight = dt.datetime.combine(_date(year, month, day), dt.time(), dt.UTC)
    return midnight + _since_midnight(*time)


# Java parses a prefix of the text, but only of texts of exactly these lengths
_KINDS: Final[Mapping[int, tuple[Schema, re.Pattern[str], Callable[..., Any]]]] = {
    10: (DATE, re.compile(r"(\d+)-(\d+)-(\d+)"), _date),
    13: (TIME, re.compile(r"(\d+):(\d+):(\d+)\.(\d+)Z"), _time),
    24: (TIMESTAMP, re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)Z"), _timestamp),
}


def _number(token: str) -> Typed | None:
    try:
        number = parse_decimal(token)
    except ValueError:
        return None
    scale = -int(number.as_tuple().exponent)
    small = not number or number.adjusted() < _MOST_DIGITS_OF_INT64
    if small and number == number.to_integral_value():
        integer = int(number)
        for bits, schema in _INTEGERS:
            if -(1 << bits) <= integer < 1 << bits:
                return schema, integer
    if scale != 0:
        for code, schema in ((">f", FLOAT32), (">d", FLOAT64)):
            try:
                return schema, struct.unpack(code, struct.pack(code, _finite(number)))[0]
            except OverflowError:
                pass
    return decimal(scale), number


def _finite(number: Decimal) -> float:
    double = float(number)
    if math.isinf(double):
        raise OverflowError
    return double


def _map_of(entries: list[tuple[Typed, Typed]]) -> Typed:
    keys = _common(schema for (schema, _), _ in entries)
    values = _common(schema for _, (schema, _) in entries) if keys is not None else None
    fitted = {_fit(k, own, keys): _fit(v, its, values) for (own, k), (its, v) in entries}
    return Schema(Type.MAP, keys=keys, values=values), fitted


def _common(schemas: Iterable[Schema | None]) -> Schema | None:
    """Returns the schema that all values fit, the wider one of two numbers'; None if there is
    none. Nulls have none, and do not matter."""
    common: Schema | None = None
    for schema in schemas:
        if schema is None:
            continue
        if common is None or common.type is schema.type:
            common = schema
        elif common.type in _WIDENING and schema.type in _WIDENING:
            common = max(common, schema, key=lambda s: _WIDENING.index(s.type))
        else:
            return None
    return common


def _fit(value: Any, own: Schema | None, schema: Schema | None) -> Any:
    """Returns a value of a schema of its `own` as one of `schema`. Raises _NotALiteral for a null
    that needs to be one, and for a date or time that would have to be a number."""
    if schema is None:
        return _untyped(value, own)
    if value is None:
        raise _NotALiteral
    if schema.type in (Type.ARRAY, Type.MAP) and own != schema:
        return _untyped(value, own)
    moment_of = _MOMENTS.get(schema.name or "")
    if isinstance(value, dt.date | dt.time):
        if moment_of is None:
            raise _NotALiteral
        return value
    if moment_of is not None:
        return moment_of(value)
    return float(value) if schema.type in (Type.FLOAT32, Type.FLOAT64) else value


def _untyped(value: Any, own: Schema | None) -> Any:
    """Returns a value that loses its schema. Without one, a number of 32 bits is written as one of
    64, and has to be printed with the same digits."""
    if own is None:
        return value
    match value:
        # an element of a list with several schemas need not be of the one that the list has
        case float() if own.type is Type.FLOAT32 and to_float(value) == value:
            return float(java_float(value))
        case list():
            return [_untyped(item, own.items) for item in value]
        case dict():
            return {_untyped(k, own.keys): _untyped(v, own.values) for k, v in value.items()}
        case _:
            return value


def _date_of(days: int) -> dt.date:
    return _timestamp_of(days * MILLIS_PER_DAY).date()


def _time_of(millis: int) -> dt.time:
    if not 0 <= millis < MILLIS_PER_DAY:
        raise _NotALiteral
    return _time(0, 0, 0, millis)


def _timestamp_of(millis: int) -> dt.datetime:
    try:
        return from_millis(millis)
    except DataError as error:
        raise _NotALiteral from error


# numbers in one list with dates or times
_MOMENTS: Final[Mapping[str, Callable[[int], dt.date | dt.time]]] = {
    DATE_NAME: _date_of,
    TIME_NAME: _time_of,
    TIMESTAMP_NAME: _timestamp_of,
}


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
        return _number_text(value, schema)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, list | tuple):
        items = schema.items if schema is not None else None
        return "[" + ",".join(_text(v, items) for v in value) + "]"
    if isinstance(value, Mapping):
        return _map_text(value, schema)
    if isinstance(value, Struct):
        fields = value.schema.fields
        return "{" + ",".join(f'"{f.name}":{_text(value[f.name], f.schema)}' for f in fields) + "}"
    if isinstance(value, dt.date | dt.time):
        return _moment_text(value)
    raise DataError(f"Failed to serialize unexpected value type {type(value)}: {value}")


def _number_text(value: Any, schema: Schema | None) -> str:
    # a list has the schema of its last map: others may hold integers where that has fractions
    if not isinstance(value, float):
        return str(value)
    is_float = schema is not None and schema.type is Type.FLOAT32
    return java_float(value) if is_float else java_double(value)


def _map_text(value: Mapping[Any, Any], schema: Schema | None) -> str:
    keys, values = (None, None) if schema is None else (schema.keys, schema.values)
    return "{" + ",".join(f"{_text(k, keys)}:{_text(v, values)}" for k, v in value.items()) + "}"


def _moment_text(value: dt.date | dt.time) -> str:
    since = to_millis(value)
    moment = from_millis(since)
    time = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if since < MILLIS_PER_DAY:
        return time
    date = f"{moment.year:04d}-{moment:%m-%d}"
    return date if since % MILLIS_PER_DAY == 0 else f"{date}T{time}"
