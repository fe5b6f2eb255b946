"""Converts the result of `poll` into columns of bytes for the producer.

A list of records is split into runs that share topic, partition and schemas, so converters and the
producer always see columns. Transformations run before, because they may change topics: on columns
if all of them can and no record is an error, else on single records. A batch is converted in
columns, too; if that fails, each record that cannot be converted is one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from connect_runtime.api import ConnectorError, RawHeaders, SourceBatch, SourceRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.handler import ErrorHandler, RecordSkipped, Stage, pieces_of
from connect_runtime.plugins import registry
from connect_runtime.tasks.source.writer import Messages
from connect_runtime.transforms.chain import Chain
from connect_runtime.transforms.transformation import Columns, Name

T = TypeVar("T")
Polled: TypeAlias = Sequence[SourceRecord] | SourceBatch
Sources: TypeAlias = Callable[[], Iterator[SourceRecord]]

_ALIKE: Final[tuple[Name, ...]] = ("topics", "partitions", "key_schemas", "value_schemas")
_FIELDS: Final[tuple[tuple[Name, Callable[[Any], Any]], ...]] = (
    ("topics", attrgetter("topic")),
    ("partitions", attrgetter("partition")),
    ("timestamps", attrgetter("timestamp")),
    ("headers", attrgetter("headers")),
    ("keys", attrgetter("key")),
    ("key_schemas", attrgetter("key_schema")),
    ("values", attrgetter("value")),
    ("value_schemas", attrgetter("value_schema")),
)
_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class Sending:
    """Messages for one topic. `partition` None: it follows from the keys."""

    topic: str
    partition: int | None
    messages: Messages


class RecordPipeline:
    """Transforms and converts a task's records, between `poll` and the producer."""

    def __init__(self, converters: Converters, chain: Chain, errors: ErrorHandler) -> None:
        self._chain = chain
        self._errors = errors
        self._encoder = _Encoder(converters, errors)

    def sendings(self, polled: Polled) -> list[Sending]:
        """Returns what to send, in order. Records that the chain drops, or whose errors are
        tolerated, are not in it, nor are topics that have only such records.

        Raises RetriesEnded if the task is to end before all are ready, and what fails the task.
        """
        sendings = self._transformed(polled) if self._chain else self._converted(polled)
        return [sending for sending in sendings if sending.messages.records]

    def _converted(self, polled: Polled) -> Iterator[Sending]:
        if isinstance(polled, SourceBatch):
            yield self._sending(polled, polled.records)
        else:
            yield from self._in_batches(polled, polled)

    def _in_batches(
        self, records: Sequence[SourceRecord], sources: Sequence[SourceRecord]
    ) -> Iterator[Sending]:
        """Converts records; `sources` are those that the task returned for them."""
        begin = 0
        for batch in batches_of(records):
            run = sources[begin : begin + len(batch)]
            begin += len(batch)
            yield self._sending(batch, run.__iter__)

    def _sending(self, batch: SourceBatch, sources: Sources) -> Sending:
        """Converts a batch; `sources` are its records as the task returned them."""
        messages = self._encoder.messages(batch, sources)
        return Sending(batch.topic, batch.partition, messages)

    def _transformed(self, polled: Polled) -> Iterable[Sending]:
        columns = self._in_columns(polled)
        if columns is None:
            return self._record_by_record(polled)
        all_of = cache(partial(_records_of, polled))  # made once, however many batches ask
        read_at = polled.read_at if isinstance(polled, SourceBatch) else None
        return (
            self._sending(
                _batch_in(columns, begin, end, read_at),
                partial(_chosen, all_of, columns.rows[begin:end]),
            )
            for begin, end in _runs(columns)
        )

    def _record_by_record(self, polled: Polled) -> Sequence[Sending]:
        """Transforms records one by one. Errors are in their order, as in Connect: what is
        transformed is converted before the next error."""
        sendings: list[Sending] = []
        changed: list[SourceRecord] = []
        sources: list[SourceRecord] = []

        def convert() -> None:
            sendings.extend(self._in_batches(changed, sources))
            changed.clear()
            sources.clear()

        for record in _records_of(polled):
            try:
                result = self._chain.apply(record, record, self._errors, convert)
            except RecordSkipped:
                continue
            if result is not None:
                changed.append(result)
                sources.append(record)
        convert()
        return sendings

    def _in_columns(self, polled: Polled) -> Columns | None:
        """Returns what the chain makes of columns. None if it needs records, or one is an error."""
        if not polled or not self._chain.in_columns:
            return None
        columns = _columns_of(polled)
        try:
            self._chain.apply_columns(columns)
        except Exception:
            return None
        return columns


def _columns_of(polled: Polled) -> Columns:
    size = len(polled)

    def all_of(value: object) -> Callable[[], Sequence[object]]:
        return lambda: [value] * size

    if not isinstance(polled, SourceBatch):
        return Columns(size, {name: partial(_column, polled, field) for name, field in _FIELDS})
    return Columns(
        size,
        {
            "topics": all_of(polled.topic),
            "partitions": all_of(polled.partition),
            "timestamps": polled.timestamps or all_of(polled.read_at),
            "headers": all_of(()) if polled.headers is None else polled.headers,
            "keys": all_of(None) if polled.keys is None else polled.keys,
            "key_schemas": all_of(polled.key_schema),
            "values": polled.values,
            "value_schemas": all_of(polled.value_schema),
        },
    )


def _column(records: Sequence[SourceRecord], field: Callable[[Any], Any]) -> list[Any]:
    return list(map(field, records))


def _runs(columns: Columns) -> Iterator[tuple[int, int]]:
    """Yields the bounds of records that share topic, partition and schemas."""
    bounds = {0, len(columns)}
    for name in _ALIKE:
        column = columns[name]
        if column and column.count(column[0]) < len(column):
            pairs = enumerate(pairwise(column), start=1)
            bounds.update(row for row, (a, b) in pairs if a is not b and a != b)
    return pairwise(sorted(bounds))


def _batch_in(columns: Columns, begin: int, end: int, read_at: int | None) -> SourceBatch:
    def rows_of(name: Name) -> Sequence[Any]:
        return columns[name][begin:end]

    topic, partition, key_schema, value_schema = (columns[name][begin] for name in _ALIKE)
    headers = rows_of("headers")
    return SourceBatch(
        topic=topic,
        source_partition={},  # it was noted with what the task returned
        values=rows_of("values"),
        value_schema=value_schema,
        keys=_unless_all(rows_of("keys"), None),
        key_schema=key_schema,
        timestamps=_unless_all(rows_of("timestamps"), read_at),
        headers=headers if any(headers) else None,
        partition=partition,
    )


def _records_of(polled: Polled) -> Sequence[SourceRecord]:
    return list(polled.records()) if isinstance(polled, SourceBatch) else polled


def _chosen(
    all_of: Callable[[], Sequence[SourceRecord]], rows: Sequence[int]
) -> Iterator[SourceRecord]:
    records = all_of()
    return (records[row] for row in rows)


def batches_of(records: Sequence[SourceRecord]) -> Iterator[SourceBatch]:
    """Yields records as batches, in the same order."""
    for _, group in groupby(records, key=_Alike):
        run = list(group)
        first = run[0]
        yield SourceBatch(
            topic=first.topic,
            source_partition=first.source_partition,
            source_offset=run[-1].source_offset,
            values=[r.value for r in run],
            value_schema=first.value_schema,
            keys=_unless_all([r.key for r in run], None),
            key_schema=first.key_schema,
            timestamps=_unless_all([r.timestamp for r in run], None),
            headers=[r.headers for r in run] if any(r.headers for r in run) else None,
            partition=first.partition,
        )


def _unless_all(column: Sequence[T | None], value: T | None) -> Sequence[T | None] | None:
    return None if column.count(value) == len(column) else column


class _Alike:
    """Compares what records of one batch share. Not hashable: groupby only compares neighbours."""

    __slots__ = ("_record",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, record: SourceRecord) -> None:
        self._record = record

    def __eq__(self, other: object) -> bool:
        a, b = self._record, other._record if isinstance(other, _Alike) else None
        return (
            b is not None
            and a.topic == b.topic
            and a.partition == b.partition
            and a.source_partition == b.source_partition
            and a.value_schema == b.value_schema
            and a.key_schema == b.key_schema
        )


class _Encoder:
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

    def messages(self, batch: SourceBatch, sources: Sources) -> Messages:
        """Returns one dict per record, the only object made for it. `sources` are the records
        that the task returned, for errors."""
        try:
            return self._together(batch, sources)
        except Exception:
            return self._in_pieces(batch, list(sources()))

    def _together(self, batch: SourceBatch, sources: Sources) -> Messages:
        headers = self._headers(batch)
        keys = self._keys(batch, headers)
        values = self._value(batch.topic, headers, batch.value_schema, batch.values)
        return _messages(batch, headers, keys, values, sources)

    def _in_pieces(self, batch: SourceBatch, sources: Sequence[SourceRecord]) -> Messages:
        """Converts what can be, of a batch that cannot be converted together; each record that
        cannot is one error."""
        pieces: list[Messages] = []

        def convert(begin: int, end: int) -> Messages:
            return self._together(_slice(batch, begin, end), sources[begin:end].__iter__)

        for begin, piece in pieces_of(0, len(batch), convert, failed=True):
            if piece is None:
                try:
                    piece = self._singly(_slice(batch, begin, begin + 1), sources[begin])
                except RecordSkipped:
                    continue
            pieces.append(piece)
        return Messages(
            [message for piece in pieces for message in piece.records],
            sum(piece.size for piece in pieces),
            any(piece.singly for piece in pieces),
            any(piece.keyed for piece in pieces),
            lambda: (source for piece in pieces for source in piece.sources()),
        )

    def _singly(self, batch: SourceBatch, source: SourceRecord) -> Messages:
        """Converts a batch of one record. Raises what ErrorHandler.run raises."""

        def run(stage: Stage, converter: object, operation: Callable[[], T]) -> T:
            return self._errors.run(stage, registry.class_name_of(converter), operation, source)

        converters = self._converters
        headers = run(Stage.HEADER_CONVERTER, converters.header, lambda: self._headers(batch))
        keys = run(Stage.KEY_CONVERTER, converters.key, lambda: self._keys(batch, headers))
        values = run(
            Stage.VALUE_CONVERTER,
            converters.value,
            lambda: self._value(batch.topic, headers, batch.value_schema, batch.values),
        )
        return _messages(batch, headers, keys, values, [source].__iter__)

    def _headers(self, batch: SourceBatch) -> list[RawHeaders] | None:
        """Returns each record's headers as bytes; None if there are none, and no converter adds
        any."""
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
    def rows_of(column: Sequence[T] | None) -> Sequence[T] | None:
        return None if column is None else column[begin:end]

    return replace(
        batch,
        values=batch.values[begin:end],
        keys=rows_of(batch.keys),
        offsets=rows_of(batch.offsets),
        timestamps=rows_of(batch.timestamps),
        headers=rows_of(batch.headers),
    )


def _messages(
    batch: SourceBatch,
    headers: list[RawHeaders] | None,
    keys: list[bytes | None] | None,
    values: list[bytes | None],
    sources: Sources,
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
                if timestamp < 0:
                    raise ConnectorError(f"Invalid record timestamp {timestamp}")
                message["timestamp"] = timestamp
    if headers is not None:
        for message, raw in zip(messages, headers, strict=True):
            if raw:
                message["headers"] = raw
    singly = batch.timestamps is not None or (headers is not None and any(headers))
    return Messages(messages, _bytes(values), singly, keys is not None, sources)


def _bytes(values: list[bytes | None]) -> int:
    try:
        return sum(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # there are tombstones
        return sum(map(len, filter(None, values)))
