"""Converts the result of `poll` into columns of bytes for the producer.

A list of records is split into runs that share topic, partition and schemas, so converters and the
producer always see columns. Transformations run before, because they may change topics: on columns
if they can and the result is one batch, else on single records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias, TypeVar

from connect_runtime.api import SourceBatch, SourceRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.handler import ErrorHandler, RecordSkipped
from connect_runtime.tasks.source_encoder import Encoder
from connect_runtime.tasks.source_writer import Messages
from connect_runtime.transforms.chain import Chain
from connect_runtime.transforms.columns import Columns, Name

T = TypeVar("T")
Polled: TypeAlias = Sequence[SourceRecord] | SourceBatch


@dataclass(frozen=True, slots=True)
class Sending:
    """Messages for one topic. `partition` None: it follows from the keys."""

    topic: str
    partition: int | None
    messages: Messages


class Outbound:
    """What happens to a task's records between `poll` and the producer."""

    def __init__(self, converters: Converters, chain: Chain, errors: ErrorHandler) -> None:
        self._chain = chain
        self._errors = errors
        self._encoder = Encoder(converters, errors)

    def sendings(self, polled: Polled) -> list[Sending]:
        """Returns what to send, in order. Records that the chain drops, or whose errors are
        tolerated, are not in it.

        Raises RetriesEnded if the task is to end before all are ready, and what fails the task.
        """
        if self._chain:
            return [self._sending(batch, sources) for batch, sources in self._transformed(polled)]
        if isinstance(polled, SourceBatch):
            return [self._sending(polled, polled.records)]
        return [self._sending(batch, batch.records) for batch in batches_of(polled)]

    def _sending(
        self, batch: SourceBatch, sources: Callable[[], Iterator[SourceRecord]]
    ) -> Sending:
        messages = self._encoder.messages(batch, sources)
        return Sending(batch.topic, batch.partition, messages)

    def _transformed(
        self, polled: Polled
    ) -> Iterator[tuple[SourceBatch, Callable[[], Iterator[SourceRecord]]]]:
        """Yields the records as the chain made them, in batches, with what they were before."""
        if isinstance(polled, SourceBatch):
            batch, rows = self._in_columns(polled)
            if batch is not None:
                if rows:
                    yield batch, partial(_records_in, polled, rows)
                return
        records = list(polled.records()) if isinstance(polled, SourceBatch) else polled
        changed, sources = [], []
        for record in records:
            try:
                after = self._chain.apply(record, record, self._errors)
            except RecordSkipped:
                continue
            if after is not None:
                changed.append(after)
                sources.append(record)
        begin = 0
        for batch in batches_of(changed):
            run = sources[begin : begin + len(batch)]
            begin += len(batch)
            yield batch, run.__iter__

    def _in_columns(self, polled: SourceBatch) -> tuple[SourceBatch | None, Sequence[int]]:
        """Returns the batch that the chain makes of columns, and which records are left in it.
        None if the chain needs records, or makes records of several topics or schemas."""
        columns = _columns_of(polled)
        if not self._chain.in_columns:
            return None, ()
        try:
            self._chain.apply_columns(columns)
        except Exception:
            return None, ()
        shared = [columns[name] for name in ("topics", "key_schemas", "value_schemas")]
        if any(each is not column[0] for column in shared for each in column):
            return None, ()
        if not columns.rows:
            return polled, ()
        topic, key_schema, value_schema = (column[0] for column in shared)
        return (
            replace(
                polled,
                topic=topic,
                key_schema=key_schema,
                value_schema=value_schema,
                values=columns["values"],
                keys=_column(columns, "keys", polled.keys),
                timestamps=_column(columns, "timestamps", polled.timestamps),
                headers=_column(columns, "headers", polled.headers),
                offsets=None,
            ),
            columns.rows,
        )


def _columns_of(polled: SourceBatch) -> Columns:
    size = len(polled)

    def all_of(value: object) -> Callable[[], Sequence[object]]:
        return lambda: [value] * size

    return Columns(
        size,
        {
            "topics": all_of(polled.topic),
            "partitions": all_of(polled.partition),
            "timestamps": all_of(None) if polled.timestamps is None else polled.timestamps,
            "headers": all_of(()) if polled.headers is None else polled.headers,
            "keys": all_of(None) if polled.keys is None else polled.keys,
            "key_schemas": all_of(polled.key_schema),
            "values": polled.values,
            "value_schemas": all_of(polled.value_schema),
        },
    )


def _column(columns: Columns, name: Name, given: Sequence[T] | None) -> Sequence[T] | None:
    return None if given is None and not columns.changed(name) else columns[name]


def _records_in(polled: SourceBatch, rows: Sequence[int]) -> Iterator[SourceRecord]:
    records = list(polled.records())
    return (records[row] for row in rows)


def batches_of(records: Sequence[SourceRecord]) -> Iterator[SourceBatch]:
    """Yields records as batches, in the same order."""
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
