"""Makes a message of a record that a sink task made itself, to report it.

What the record came from is not known, so the report has the record, converted to bytes as those of
sources are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connect_runtime.api import RawHeaders, SinkRecord
from connect_runtime.data.converters import Converters

_NONE: Final = (0, -1)
_CREATE_TIME: Final = 1


@dataclass(frozen=True, slots=True)
class MadeMessage:
    """Answers what reports ask of a `confluent_kafka.Message`."""

    record: SinkRecord
    key_data: bytes | None
    value_data: bytes | None
    raw_headers: RawHeaders

    def topic(self) -> str:
        return self.record.topic

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset

    def timestamp(self) -> tuple[int, int]:
        timestamp = self.record.timestamp
        return _NONE if timestamp is None else (_CREATE_TIME, timestamp)

    def key(self) -> bytes | None:
        return self.key_data

    def value(self) -> bytes | None:
        return self.value_data

    def headers(self) -> RawHeaders:
        return self.raw_headers


def made_message(converters: Converters, record: SinkRecord) -> MadeMessage:
    """Converts the record. Raises what the converters raise."""
    topic, convert = record.topic, converters.header.from_connect
    headers: RawHeaders = [
        (h.key, convert(topic, h.key, h.schema, h.value)) for h in record.headers
    ]
    (key,) = converters.key.writer()(topic, [headers], record.key_schema, [record.key])
    (value,) = converters.value.writer()(topic, [headers], record.value_schema, [record.value])
    return MadeMessage(record, key, value, headers)
