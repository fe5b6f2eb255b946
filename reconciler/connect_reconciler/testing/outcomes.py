"""What became of one record, and how it is shown: as JSON, of values of Connect and bytes of Kafka.
Pure.

`Json` is None, bool, int, float, str, list or dict, as in `connect_specs.record_input`. Bytes that
are not UTF-8 are `base64:` and their base64. Decimals, dates and times are texts, so that nothing
is rounded. A JSON object or array in Kafka is shown as such, all else as text. Of values that are
nested very deeply, the inner ones are left out.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from connect_runtime.api import Header, RawHeaders, Schema, SinkRecord, SourceRecord, Struct
from connect_runtime.api.java_text import java_text
from connect_runtime.data.json_schema import schema_json
from connect_runtime.data.json_text import Options
from connect_specs.record_input import Json

BASE64: Final = "base64:"
_DEPTH_MAX: Final = 100
_DEEPER: Final = "…"
_OPTIONS: Final = Options(decimal_numeric=True)


@dataclass(frozen=True, slots=True)
class Part:
    """A key, a value or a header as JSON, with its schema as JsonConverter writes it.

    In Kafka there are only bytes: `raw`, and no schema.
    """

    json: Json = None
    schema: Json = None
    raw: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, as it can be shown. `timestamp` is in epoch milliseconds."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: Part
    value: Part
    headers: tuple[tuple[str, Part], ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a sink's task gets, or what a source's transformations made; `written` is then what
    Kafka gets."""

    record: ShownRecord
    written: ShownRecord | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A transformation dropped the record."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The record failed in `stage`, while `class_name` ran. `error` is Connect's class; `message`
    may quote values."""

    stage: str
    class_name: str
    error: str
    message: str

    @property
    def text(self) -> str:
        """The message; of an error of Python's own with its class, as in `KeyError: 'id'`."""
        return self.message if "." in self.error else f"{self.error}: {self.message}"


Outcome: TypeAlias = Delivered | Dropped | Failed


@dataclass(frozen=True, slots=True)
class Run:
    """One record's way. `given` is the record in Kafka, for a sink; `before` is what the
    transformations get, None where converting failed."""

    outcome: Outcome
    before: ShownRecord | None = None
    given: ShownRecord | None = None

    @property
    def origin(self) -> ShownRecord | None:
        """The record to name the run by."""
        return self.given or self.before


# --- how records are shown ---


def shown_record(record: SinkRecord | SourceRecord) -> ShownRecord:
    """Returns a record of Connect."""
    return ShownRecord(
        record.topic,
        record.partition,
        record.offset if isinstance(record, SinkRecord) else None,
        record.timestamp,
        connect_part(record.key, record.key_schema),
        connect_part(record.value, record.value_schema),
        tuple(map(_header, record.headers)),
    )


def kafka_record(
    topic: str,
    partition: int | None,
    offset: int | None,
    timestamp: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: RawHeaders,
) -> ShownRecord:
    """Returns a record of Kafka."""
    shown = tuple((name, kafka_part(data)) for name, data in headers)
    return ShownRecord(
        topic, partition, offset, timestamp, kafka_part(key), kafka_part(value), shown
    )


def kafka_part(data: bytes | None) -> Part:
    """Returns bytes of Kafka as JSON, as text, or as base64."""
    if data is None:
        return Part()
    text = kafka_text(data)
    if text[:1] in ("{", "["):
        parsed = parsed_json(data)
        if isinstance(parsed, dict | list) and not _is_deep(parsed):
            return Part(parsed, raw=data)
    return Part(text, raw=data)


def kafka_text(data: bytes) -> str:
    """Returns bytes as text, or as base64 if they are none, or could be mistaken for base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = BASE64
    return _base64(data) if text.startswith(BASE64) else text


def parsed_json(data: bytes) -> Json:
    """Returns parsed JSON; an `Ellipsis` if the bytes are none, or hold a number that is none."""
    try:
        return json.loads(data, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return ...


def _finite(text: str) -> float:
    """Raises ValueError for NaN, Infinity and what is larger than a double, as JSON has none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def connect_part(value: Any, schema: Schema | None) -> Part:
    """Returns a value of Connect."""
    return Part(_json(value), None if schema is None else schema_of_part(schema))


@lru_cache(maxsize=256)
def schema_of_part(schema: Schema) -> Json:
    """Returns a schema as JsonConverter writes it, parsed."""
    return json.loads(schema_json(schema, _OPTIONS))


def _header(header: Header) -> tuple[str, Part]:
    return header.key, connect_part(header.value, header.schema)


def _is_deep(value: Json) -> bool:
    """Whether it is nested deeper than what is shown."""
    level = [value]
    for _ in range(_DEPTH_MAX):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for each in inner for one in each if isinstance(one, dict | list)]
        if not level:
            return False
    return True


def _json(value: Any, depth: int = 0) -> Json:
    if depth > _DEPTH_MAX:
        return _DEEPER
    match value:
        case Struct():
            return {name: _json(value[name], depth + 1) for name in value}
        case bytes() | bytearray() | memoryview():
            return _base64(bytes(value))
        case float() if not math.isfinite(value):
            return java_text(value)
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return f"{value:f}"
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case Mapping():
            keys = (key if isinstance(key, str) else java_text(key) for key in value)
            inner = (_json(each, depth + 1) for each in value.values())
            return dict(zip(keys, inner, strict=True))
        case Sequence():
            return [_json(each, depth + 1) for each in value]
        case _:
            return java_text(value)


def _base64(data: bytes) -> str:
    return BASE64 + base64.b64encode(data).decode()
