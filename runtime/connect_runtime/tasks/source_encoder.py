"""Converts batches of a source into the producer's messages.

A batch is converted in columns. If that fails, each record that cannot be converted is one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from connect_runtime.api import ConnectorError, RawHeaders, SourceBatch, SourceRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.columns import pieces_of
from connect_runtime.errors.handler import ErrorHandler, RecordSkipped
from connect_runtime.errors.stages import Stage
from connect_runtime.plugins import registry
from connect_runtime.tasks.source_writer import Messages

T = TypeVar("T")

_NO_TIMESTAMP: Final = -1


class Encoder:
    """Turns batches into the producer's messages with a task's converters.

    Connect's order: headers first, so that the converters of key and value see and can add to
    them, then the key, then the value.
    """

    def __init__(self, converters: Converters, errors: ErrorHandler) -> None:
        self._converters = converters
        self._errors = errors
        self._key = converters.key.writer()
        self._value = converters.value.writer()
        self._shows_headers = not (
            converters.key.ignores_context and converters.value.ignores_context
        )

    def messages(
        self, batch: SourceBatch, sources: Callable[[], Iterator[SourceRecord]]
    ) -> Messages:
        """Returns one dict per record, the only object made for it. `sources` are the records
        that the task returned, for errors."""
        try:
            return self._together(batch, sources)
        except Exception:
            return self._in_pieces(batch, list(sources()))

    def _together(
        self, batch: SourceBatch, sources: Callable[[], Iterator[SourceRecord]]
    ) -> Messages:
        headers = self._headers(batch)
        keys = self._keys(batch, headers)
        values = self._value(batch.topic, headers, batch.value_schema, batch.values)
        return _messages(batch, headers, keys, values, sources)

    def _in_pieces(self, batch: SourceBatch, sources: Sequence[SourceRecord]) -> Messages:
        """Converts what can be, of a batch that cannot be converted together; each record that
        cannot is one error."""
        parts: list[Messages] = []

        def convert(begin: int, end: int) -> Messages:
            return self._together(_slice(batch, begin, end), sources[begin:end].__iter__)

        for begin, part in pieces_of(0, len(batch), convert, failed=True):
            if part is None:
                try:
                    part = self._singly(_slice(batch, begin, begin + 1), sources[begin])
                except RecordSkipped:
                    continue
            parts.append(part)
        return Messages(
            [message for part in parts for message in part.each],
            sum(part.size for part in parts),
            any(part.singly for part in parts),
            any(part.keyed for part in parts),
            lambda: (source for part in parts for source in part.sources()),
        )

    def _singly(self, one: SourceBatch, source: SourceRecord) -> Messages:
        """Converts a batch of one record. Raises what ErrorHandler.run raises."""

        def run(stage: Stage, converter: object, operation: Callable[[], T]) -> T:
            return self._errors.run(stage, registry.class_name_of(converter), operation, source)

        made = self._converters
        headers = run(Stage.HEADER_CONVERTER, made.header, lambda: self._headers(one))
        keys = run(Stage.KEY_CONVERTER, made.key, lambda: self._keys(one, headers))
        values = run(
            Stage.VALUE_CONVERTER,
            made.value,
            lambda: self._value(one.topic, headers, one.value_schema, one.values),
        )
        return _messages(one, headers, keys, values, [source].__iter__)

    def _headers(self, batch: SourceBatch) -> list[RawHeaders] | None:
        """Returns each record's headers as bytes; None if there are none, and nobody adds any."""
        if batch.headers is None:
            return [[] for _ in batch.values] if self._shows_headers else None
        topic, convert = batch.topic, self._converters.header.from_connect
        return [
            [(h.key, convert(topic, h.key, h.schema, h.value)) for h in headers]
            for headers in batch.headers
        ]

    def _keys(
        self, batch: SourceBatch, headers: list[RawHeaders] | None
    ) -> list[bytes | None] | None:
        if batch.keys is None and batch.key_schema is None:
            return None
        # not `or`: one key of an array that is 0 or empty is false
        keys = [None] * len(batch) if batch.keys is None else batch.keys
        return self._key(batch.topic, headers, batch.key_schema, keys)


def _slice(batch: SourceBatch, begin: int, end: int) -> SourceBatch:
    def part(column: Sequence[T] | None) -> Sequence[T] | None:
        return None if column is None else column[begin:end]

    return replace(
        batch,
        values=batch.values[begin:end],
        keys=part(batch.keys),
        offsets=part(batch.offsets),
        timestamps=part(batch.timestamps),
        headers=part(batch.headers),
    )


def _messages(
    batch: SourceBatch,
    headers: list[RawHeaders] | None,
    keys: list[bytes | None] | None,
    values: list[bytes | None],
    sources: Callable[[], Iterator[SourceRecord]],
) -> Messages:
    if len(values) != len(batch):  # a converter may be anybody's
        raise ConnectorError(f"{len(batch)} values were converted to {len(values)}")
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
    return Messages(messages, _bytes(values), singly, keys is not None, sources)


def _bytes(values: list[bytes | None]) -> int:
    try:
        return sum(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # there are tombstones
        return sum(map(len, filter(None, values)))


def _checked(timestamp: int) -> int:
    if timestamp < 0:
        raise ConnectorError(f"Invalid record timestamp {timestamp}")
    return timestamp
