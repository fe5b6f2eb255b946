"""Inputs of pipelines from declared records: messages of Kafka for sinks, records of Connect for
sources."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.outcomes import BASE64, ShownRecord, kafka_record, shown_schema
from connect_runtime.api import ConfigError, DataError, Header, Schema, SourceRecord
from connect_runtime.data.json_reader import decoder, schema_of
from connect_runtime.data.json_writer import Options
from connect_runtime.settings.connector_topics import named_topics
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.record_tests import Json, RecordInput

_OPTIONS: Final = Options(decimal_numeric=True, floats_as_written=True)


def default_topic(config: Mapping[str, str], kind: Kind) -> str | None:
    """Returns the topic of records that name none: the only one that a sink reads, or the `topic`
    of a source's config."""
    if kind == "source":
        return config.get("topic")
    try:
        topics = named_topics(config)
    except ConfigError:
        return None
    return next(iter(topics)) if len(topics) == 1 else None


def message_of(record: RecordInput, topic: str | None, number: int) -> Message:
    """Returns the message of Kafka. Without an offset it gets `number`; without a timestamp, 0.
    Raises Invalid."""
    if record.key_schema is not None or record.value_schema is not None:
        problem = "a record in Kafka is bytes, and has no schema beside them"
        hint = "for JsonConverter with schemas, write value: {schema: ..., payload: ...}"
        raise _invalid(problem, record.where, hint=hint)
    timestamp = 0 if record.timestamp is None else record.timestamp
    return Message(
        topic=_topic(record, topic),
        partition=record.partition or 0,
        offset=number if record.offset is None else record.offset,
        key=_bytes(record.key, record.where),
        value=_bytes(record.value, record.where),
        headers=[(name, _bytes(value, record.where)) for name, value in record.headers] or None,
        timestamp=(TIMESTAMP_CREATE_TIME, timestamp),
    )


def source_record_of(record: RecordInput, topic: str | None) -> SourceRecord:
    """Returns the record that a source gives. Raises Invalid."""
    key_schema = _schema(record.key_schema, record.where)
    value_schema = _schema(record.value_schema, record.where)
    return SourceRecord(
        source_partition={},
        source_offset={},
        topic=_topic(record, topic),
        partition=record.partition,
        timestamp=record.timestamp,
        key=_value(record.key, key_schema, record.where),
        key_schema=key_schema,
        value=_value(record.value, value_schema, record.where),
        value_schema=value_schema,
        headers=tuple(
            Header(name, _value(value, None, record.where)) for name, value in record.headers
        ),
    )


def message_record(message: Any) -> ShownRecord:
    """Returns a message of Kafka."""
    return kafka_record(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_of(message),
        message.key(),
        message.value(),
        message.headers() or [],
    )


def timestamp_of(message: Any) -> int | None:
    """Returns a message's timestamp in epoch milliseconds."""
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds


def normal_schema(schema: Json, place: Location) -> Json:
    """Returns a schema as records are shown with it. Raises Invalid if it is none."""
    parsed = _schema(schema, place)
    return None if parsed is None else shown_schema(parsed)


def _topic(record: RecordInput, default: str | None) -> str:
    topic = record.topic or default
    if topic is None:
        problem = "the record has no topic, and the connector's config does not name exactly one"
        hint = "add topic: to the record"
        raise Invalid(Diagnostic("test.no-topic", problem, record.where, hint=hint))
    return topic


def _bytes(value: Json, place: Location) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return _from_base64(value, place) if value.startswith(BASE64) else value.encode()


def _from_base64(text: str, place: Location) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(BASE64), validate=True)
    except ValueError as error:
        hint = "encode the bytes: base64 FILE"
        raise _invalid("the text after base64: is not base64", place, hint=hint) from error


def _schema(schema: Json, place: Location) -> Schema | None:
    # `string` is short for `{type: string}`
    document = {"type": schema} if isinstance(schema, str) else schema
    try:
        return schema_of(document, _OPTIONS)
    except DataError as error:
        hint = "write it as JsonConverter does: {type: int64}"
        raise _invalid("this is not a schema", place, str(error), hint) from error


def _value(value: Json, schema: Schema | None, place: Location) -> Any:
    if schema is None:
        return _schemaless(value, place)
    try:
        return decoder(schema, _OPTIONS)(value)
    except DataError as error:
        raise _invalid("a value does not fit its schema", place, str(error)) from error


def _schemaless(value: Json, place: Location) -> Any:
    match value:
        case dict():
            return {key: _schemaless(member, place) for key, member in value.items()}
        case list():
            return [_schemaless(item, place) for item in value]
        case str() if value.startswith(BASE64):
            return _from_base64(value, place)
    return value


def _invalid(problem: str, place: Location, reason: str = "", hint: str = "") -> Invalid:
    return Invalid(Diagnostic("test.bad-value", problem, place, reason, hint))
