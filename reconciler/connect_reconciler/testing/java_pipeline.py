"""Runs a config's converters and transformations in a JVM, by Connect's own classes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import orjson

from connect_reconciler.testing.inputs import message_record, timestamp_of
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownRecord,
    ShownValue,
    connect_value,
    kafka_record,
)
from connect_reconciler.testing.pipeline import Pipeline, failure_text
from connect_runtime.api import ConnectorError, Schema, SourceRecord
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.json_reader import decoder, schema_of
from connect_runtime.data.json_writer import Options
from connect_runtime.engine.java_chains import JavaChains
from connect_specs.secrets import Redactor

_OPTIONS: Final = Options()


class JavaPipeline(Pipeline):
    """The chain of this number."""

    def __init__(self, chains: JavaChains, number: int, redactor: Redactor, *, sink: bool) -> None:
        super().__init__(redactor)
        self._chains = chains
        self._number = number
        self._sink = sink

    def run(self, record: Any) -> RecordRun:
        fields = _message(record) if self._sink else _source_record(record)
        consumed = message_record(record) if self._sink else None
        try:
            answer = self._chains.run(self._number, fields)
        except ConnectorError as error:
            # A plugin has ended the JVM, or does not return
            failed = FailedRecord("TRANSFORMATION", "", error.java_class, str(error))
            return RecordRun(failed, None, consumed)
        converted = None if answer["input"] is None else _shown(answer["input"])
        return RecordRun(_outcome(answer), converted, consumed)

    def close(self) -> None:
        self._chains.close_chain(self._number)


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    failed, in_kafka = answer["failed"], answer["inKafka"]
    if failed is not None:
        text = failure_text(failed["texts"])
        return FailedRecord(failed["stage"], failed["executing"], failed["error"], text)
    if answer["record"] is None:
        return DroppedRecord()
    return DeliveredRecord(_shown(answer["record"]), None if in_kafka is None else _kafka(in_kafka))


# --- records that the JVM gets, and those that it returns ---


def _message(message: Any) -> dict[str, Any]:
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp_of(message),
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [(name, _text(data)) for name, data in message.headers() or ()],
    }


def _source_record(record: SourceRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": _envelope(record.key, record.key_schema),
        "value": _envelope(record.value, record.value_schema),
        "headers": [
            (header.key, _envelope(header.value, header.schema)) for header in record.headers
        ],
    }


def _envelope(value: Any, schema: Schema | None) -> Any:
    """Returns a value as JsonConverter writes it with its schema; without one, as it is shown."""
    if schema is None:
        return {"schema": None, "payload": connect_value(value, None).json}
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"})
    (data,) = converter.writer()("", None, schema, [value])
    return orjson.loads(data or b"")


def _shown(record: Mapping[str, Any]) -> ShownRecord:
    return ShownRecord(
        record["topic"],
        record["partition"],
        record["offset"],
        record["timestamp"],
        _value(record["key"]),
        _value(record["value"]),
        tuple((name, _value(envelope)) for name, envelope in record["headers"]),
    )


def _value(envelope: Mapping[str, Any]) -> ShownValue:
    if envelope["schema"] is None:
        return ShownValue(envelope["payload"])
    schema = schema_of(envelope["schema"], _OPTIONS)
    value = envelope["payload"]
    return connect_value(None if schema is None else decoder(schema, _OPTIONS)(value), schema)


def _kafka(record: Mapping[str, Any]) -> ShownRecord:
    return kafka_record(
        record["topic"],
        record["partition"],
        None,
        record["timestamp"],
        _bytes(record["key"]),
        _bytes(record["value"]),
        [(name, _bytes(text)) for name, text in record["headers"]],
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
