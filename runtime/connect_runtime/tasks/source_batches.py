"""Converts the result of `poll` into columns of bytes for the producer.

A list of records is split into runs that share topic, partition and schemas, so converters and the
producer always see columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from connect_runtime.api import ConnectorError, RawHeaders, SourceBatch, SourceRecord, Write
from connect_runtime.data.converters import Converters
from connect_runtime.tasks.source_writer import Messages

T = TypeVar("T")

_NO_TIMESTAMP: Final = -1


def batches_of(polled: Sequence[SourceRecord] | SourceBatch | None) -> list[SourceBatch]:
    """Returns the result of `poll` as batches in the same order. Empty if there is nothing."""
    if polled is None:
        return []
    if isinstance(polled, SourceBatch):
        return [polled] if len(polled) else []
    return list(_runs(polled))


def _runs(records: Sequence[SourceRecord]) -> Iterator[SourceBatch]:
    for _, group in groupby(records, key=_Shared):
        run = list(group)
        first = run[0]
        yield SourceBatch(
            topic=first.topic,
            source_partition=first.source_partition,
            source_offset=run[-1].source_offset,
            values=[r.value for r in run],
            value_schema=first.value_schema,
            keys=_unless_none([r.key for r in run]),
            key_schema=first.key_schema,
            timestamps=_unless_none([r.timestamp for r in run]),
            headers=[r.headers for r in run] if any(r.headers for r in run) else None,
            partition=first.partition,
        )


def _unless_none(column: list[T]) -> list[T] | None:
    return None if column.count(None) == len(column) else column  # type: ignore[arg-type]


class _Shared:
    """What records of one batch share. Not hashable: groupby only compares neighbours."""

    __slots__ = ("_record",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, record: SourceRecord) -> None:
        self._record = record

    def __eq__(self, other: object) -> bool:
        a, b = self._record, other._record if isinstance(other, _Shared) else None
        return (
            b is not None
            and a.topic == b.topic
            and a.partition == b.partition
            and a.source_partition == b.source_partition
            and a.value_schema == b.value_schema
            and a.key_schema == b.key_schema
        )


class Encoder:
    """Turns batches into the producer's messages with a task's converters.

    Connect's order: headers first, so that the converters of key and value see and can add to
    them, then the key, then the value.
    """

    def __init__(self, converters: Converters) -> None:
        self._value: Write = converters.value.writer()
        self._key: Write = converters.key.writer()
        self._header = converters.header
        self._shows_headers = not (
            converters.key.ignores_context and converters.value.ignores_context
        )

    def messages(self, batch: SourceBatch) -> Messages:
        """Returns one dict per record, the only object made for it."""
        headers = self._headers(batch)
        keys = None
        if batch.keys is not None or batch.key_schema is not None:
            given = batch.keys or [None] * len(batch)
            keys = self._key(batch.topic, headers, batch.key_schema, given)
        values = self._value(batch.topic, headers, batch.value_schema, batch.values)
        if keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in values]
        else:
            pairs = zip(keys, values, strict=True)
            messages = [{"key": key, "value": value} for key, value in pairs]
        if batch.timestamps is not None:
            for message, timestamp in zip(messages, batch.timestamps, strict=True):
                if timestamp is not None and timestamp != _NO_TIMESTAMP:
                    message["timestamp"] = _checked(timestamp)
        if headers is not None:
            for message, each in zip(messages, headers, strict=True):
                if each:
                    message["headers"] = each
        singly = batch.timestamps is not None or (headers is not None and any(headers))
        return Messages(messages, _bytes(values), singly)

    def _headers(self, batch: SourceBatch) -> list[RawHeaders] | None:
        """Returns each record's headers as bytes; None if there are none, and nobody adds any."""
        if batch.headers is None:
            return [[] for _ in batch.values] if self._shows_headers else None
        topic, convert = batch.topic, self._header.from_connect
        return [
            [(h.key, convert(topic, h.key, h.schema, h.value)) for h in headers]
            for headers in batch.headers
        ]


def _bytes(values: list[bytes | None]) -> int:
    try:
        return sum(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # there are tombstones
        return sum(map(len, filter(None, values)))


def _checked(timestamp: int) -> int:
    if timestamp < 0:
        raise ConnectorError(f"Invalid record timestamp {timestamp}")
    return timestamp
