"""Outcomes of records, and their display: values of Connect and bytes of Kafka as JSON. Pure.

`Json` is None, bool, int, float, str, list or dict, as in `connect_specs.record_tests`. Bytes that
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
from connect_runtime.data.json_writer import Options, schema_json
from connect_runtime.java.scalars import java_text
from connect_specs.record_tests import Json

BASE64: Final = "base64:"
_DEPTH_MAX: Final = 100
_DEEPER: Final = "…"
_OPTIONS: Final = Options(decimal_numeric=True)


@dataclass(frozen=True, slots=True)
class ShownValue:
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
    key: ShownValue
    value: ShownValue
    headers: tuple[tuple[str, ShownValue], ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """The record that a sink's task gets, or that a source's transformations return; of a source,
    `in_kafka` is the record as Kafka gets it."""

    record: ShownRecord
    in_kafka: ShownRecord | None = None


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """A record that a transformation dropped."""


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that failed in `stage`, while `class_name` ran. `error` is Connect's class;
    `message` may quote values."""

    stage: str
    class_name: str
    error: str
    message: str

    @property
    def text(self) -> str:
        """Returns the message; of Python's own errors with the class: `KeyError: 'id'`."""
        return self.message if "." in self.error else f"{self.error}: {self.message}"


Outcome: TypeAlias = DeliveredRecord | DroppedRecord | FailedRecord


@dataclass(frozen=True, slots=True)
class RecordRun:
    """One record's way through a pipeline. `consumed` is the record in Kafka, for a sink; `input`
    is the one that transformations get, None if converting failed."""

    outcome: Outcome
    input: ShownRecord | None = None
    consumed: ShownRecord | None = None

    @property
    def origin(self) -> ShownRecord | None:
        """Returns the record that names the run."""
        return self.consumed or self.input


# --- display ---


def shown_record(record: SinkRecord | SourceRecord) -> ShownRecord:
    """Returns a record of Connect."""
    return ShownRecord(
        record.topic,
        record.partition,
        record.offset if isinstance(record, SinkRecord) else None,
        record.timestamp,
        connect_value(record.key, record.key_schema),
        connect_value(record.value, record.value_schema),
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
    return ShownRecord(
        topic,
        partition,
        offset,
        timestamp,
        kafka_value(key),
        kafka_value(value),
        tuple((name, kafka_value(data)) for name, data in headers),
    )


def kafka_value(data: bytes | None) -> ShownValue:
    """Returns bytes of Kafka as JSON, as text, or as base64."""
    if data is None:
        return ShownValue()
    text = kafka_text(data)
    if text[:1] in ("{", "["):
        parsed = parsed_json(data)
        if isinstance(parsed, dict | list) and not _is_deep(parsed):
            return ShownValue(parsed, raw=data)
    return ShownValue(text, raw=data)


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
    """Returns the number. Raises ValueError for NaN, Infinity and those larger than a double, as
    JSON has none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def connect_value(value: Any, schema: Schema | None) -> ShownValue:
    """Returns a value of Connect."""
    return ShownValue(_json(value), None if schema is None else shown_schema(schema))


@lru_cache(maxsize=256)
def shown_schema(schema: Schema) -> Json:
    """Returns a schema as JsonConverter writes it, parsed."""
    return json.loads(schema_json(schema, _OPTIONS))


def _header(header: Header) -> tuple[str, ShownValue]:
    return header.key, connect_value(header.value, header.schema)


def _is_deep(value: Json) -> bool:
    """Returns whether it is nested deeper than values are shown."""
    level = [value]
    for _ in range(_DEPTH_MAX):
        members = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in members for item in items if isinstance(item, dict | list)]
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
            members = (_json(member, depth + 1) for member in value.values())
            return dict(zip(keys, members, strict=True))
        case Sequence():
            return [_json(item, depth + 1) for item in value]
        case _:
            return java_text(value)


def _base64(data: bytes) -> str:
    return BASE64 + base64.b64encode(data).decode()
