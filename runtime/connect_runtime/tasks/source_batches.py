"""Converts the result of `poll` into columns of bytes for the producer.

A list of records is split into runs that share topic, partition and schemas, so converters and the
producer always see columns. Transformations run before, because they may change topics: on columns
if all of them can and no record is an error, else on single records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from connect_runtime.api import SourceBatch, SourceRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.handler import ErrorHandler, RecordSkipped
from connect_runtime.tasks.source_encoder import Encoder
from connect_runtime.tasks.source_writer import Messages
from connect_runtime.transforms.chain import Chain
from connect_runtime.transforms.columns import Columns, Name

T = TypeVar("T")
Polled: TypeAlias = Sequence[SourceRecord] | SourceBatch

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
        tolerated, are not in it, nor are topics that have only such records.

        Raises RetriesEnded if the task is to end before all are ready, and what fails the task.
        """
        found = self._transformed(polled) if self._chain else self._converted(polled)
        return [sending for sending in found if sending.messages.each]

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

    def _sending(
        self, batch: SourceBatch, sources: Callable[[], Iterator[SourceRecord]]
    ) -> Sending:
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
        found: list[Sending] = []
        changed: list[SourceRecord] = []
        before: list[SourceRecord] = []

        def convert() -> None:
            found.extend(self._in_batches(changed, before))
            changed.clear()
            before.clear()

        for record in _records_of(polled):
            try:
                after = self._chain.apply(record, record, self._errors, convert)
            except RecordSkipped:
                continue
            if after is not None:
                changed.append(after)
                before.append(record)
        convert()
        return found

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
        return Columns(size, {name: partial(_each, polled, field) for name, field in _FIELDS})
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


def _each(records: Sequence[SourceRecord], field: Callable[[Any], Any]) -> list[Any]:
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
    def part(name: Name) -> Sequence[Any]:
        return columns[name][begin:end]

    topic, partition, key_schema, value_schema = (columns[name][begin] for name in _ALIKE)
    headers = part("headers")
    return SourceBatch(
        topic=topic,
        source_partition={},  # it was noted with what the task returned
        values=part("values"),
        value_schema=value_schema,
        keys=_unless_all(part("keys"), None),
        key_schema=key_schema,
        timestamps=_unless_all(part("timestamps"), read_at),
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
    for _, group in groupby(records, key=_Shared):
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
