"""Makes what a pipeline takes of declared records: messages of Kafka for sinks, records of Connect
for sources."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.outcomes import BASE64, schema_of_part
from connect_runtime.api import ConfigError, DataError, Header, Schema, SourceRecord
from connect_runtime.data.json_schema import schema_of
from connect_runtime.data.json_text import Options
from connect_runtime.data.json_values import decoder
from connect_runtime.settings.sink_topics import named_topics
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.record_input import Json, RecordInput

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


def message_of(given: RecordInput, topic: str | None, number: int) -> Message:
    """Returns the message of Kafka. Without an offset it gets `number`; without a timestamp, 0.
    Raises Invalid."""
    if given.key_schema is not None or given.value_schema is not None:
        what = "a record in Kafka is bytes, and has no schema beside them"
        hint = "for JsonConverter with schemas, write value: {schema: ..., payload: ...}"
        raise Invalid(Diagnostic("test.bad-value", what, given.where, hint=hint))
    timestamp = 0 if given.timestamp is None else given.timestamp
    return Message(
        topic=_topic(given, topic),
        partition=given.partition or 0,
        offset=number if given.offset is None else given.offset,
        key=_bytes(given.key, given.where),
        value=_bytes(given.value, given.where),
        headers=[(name, _bytes(value, given.where)) for name, value in given.headers] or None,
        timestamp=(TIMESTAMP_CREATE_TIME, timestamp),
    )


def source_record_of(given: RecordInput, topic: str | None) -> SourceRecord:
    """Returns the record that a source gives. Raises Invalid."""
    key_schema = _schema(given.key_schema, given.where)
    value_schema = _schema(given.value_schema, given.where)
    return SourceRecord(
        source_partition={},
        source_offset={},
        topic=_topic(given, topic),
        partition=given.partition,
        timestamp=given.timestamp,
        key=_value(given.key, key_schema, given.where),
        key_schema=key_schema,
        value=_value(given.value, value_schema, given.where),
        value_schema=value_schema,
        headers=tuple(
            Header(name, _value(value, None, given.where)) for name, value in given.headers
        ),
    )


def timestamp_of(message: Any) -> int | None:
    """Returns a message's timestamp in epoch milliseconds."""
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds


def normal_schema(schema: Json, where: Location) -> Json:
    """Returns a schema as records are shown with it. Raises Invalid if it is none."""
    found = _schema(schema, where)
    return None if found is None else schema_of_part(found)


def _topic(given: RecordInput, default: str | None) -> str:
    topic = given.topic or default
    if topic is None:
        what = "the record has no topic, and the connector's config does not name exactly one"
        hint = "add topic: to the record"
        raise Invalid(Diagnostic("test.no-topic", what, given.where, hint=hint))
    return topic


def _bytes(value: Json, where: Location) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return _from_base64(value, where) if value.startswith(BASE64) else value.encode()


def _from_base64(text: str, where: Location) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(BASE64), validate=True)
    except ValueError as error:
        what, hint = "the text after base64: is not base64", "encode the bytes: base64 FILE"
        raise Invalid(Diagnostic("test.bad-value", what, where, hint=hint)) from error


def _schema(schema: Json, where: Location) -> Schema | None:
    # `string` is short for `{type: string}`
    found = {"type": schema} if isinstance(schema, str) else schema
    try:
        return schema_of(found, _OPTIONS)
    except DataError as error:
        what, hint = "this is not a schema", "write it as JsonConverter does: {type: int64}"
        raise Invalid(Diagnostic("test.bad-value", what, where, str(error), hint)) from error


def _value(value: Json, schema: Schema | None, where: Location) -> Any:
    if schema is None:
        return _schemaless(value, where)
    try:
        return decoder(schema, _OPTIONS)(value)
    except DataError as error:
        what = "a value does not fit its schema"
        raise Invalid(Diagnostic("test.bad-value", what, where, str(error))) from error


def _schemaless(value: Json, where: Location) -> Any:
    match value:
        case dict():
            return {key: _schemaless(each, where) for key, each in value.items()}
        case list():
            return [_schemaless(each, where) for each in value]
        case str() if value.startswith(BASE64):
            return _from_base64(value, where)
    return value
