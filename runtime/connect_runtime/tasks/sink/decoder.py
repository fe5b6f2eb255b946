"""Converts messages of a sink into the batches that its task gets.

Converts at once what can fail, and the rest when it is asked for. If a column cannot be converted,
each record that cannot be is one error. Transformations run on columns if all of them can and no
record is an error, else on single records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby, pairwise
from typing import Any, Final, get_args

from confluent_kafka import Message

from connect_runtime.api import (
    Column,
    Converter,
    DataError,
    Header,
    Headers,
    RawHeaders,
    Read,
    SinkBatch,
    SinkRecord,
)
from connect_runtime.api.records import Lazy
from connect_runtime.data.converters import Converters, UnreadableRows
from connect_runtime.errors.handler import ErrorHandler, Failure, RecordSkipped, Stage, pieces_of
from connect_runtime.plugins import registry
from connect_runtime.transforms.chain import Chain
from connect_runtime.transforms.transformation import Columns, Name

_COLUMNS: Final[tuple[Name, ...]] = get_args(Name)
# of so many records, of which one cannot be transformed, each is transformed by itself
_FEW: Final = 64
_NO_TIMESTAMP: Final = -1


class Decoder:
    """Belongs to one task."""

    def __init__(self, converters: Converters, chain: Chain, errors: ErrorHandler) -> None:
        self._key = _converted_field(Stage.KEY_CONVERTER, converters.key, Message.key)
        self._value = _converted_field(Stage.VALUE_CONVERTER, converters.value, Message.value)
        self._header = converters.header
        self._chain = chain
        self._errors = errors

    def batch(self, messages: Sequence[Any]) -> SinkBatch:
        """Returns the batch to put: without records that the chain drops, or whose errors are
        tolerated.

        Raises RetriesEnded if the task is to end before all are ready, and what fails the task.
        """
        try:
            batch, transformed = self._together(messages)
        except _Unreadable as unreadable:
            return self._without(messages, unreadable)
        except Exception:
            return _joined_batches(list(self._run(messages, failed=True)))
        return batch if transformed else self._record_by_record(batch)

    def _without(self, messages: Sequence[Any], unreadable: _Unreadable) -> SinkBatch:
        """Processes readable messages together; each of the others is one error."""
        errors, field = unreadable.errors, unreadable.field
        readable = [message for row, message in enumerate(messages) if row not in errors]
        try:
            batch, transformed = self._together(readable, unreadable.values)
        except Exception:
            batch, transformed = None, False
        if batch is None or not transformed:
            # there may be other errors, whose order among these would be lost
            return _joined_batches(list(self._in_pieces(messages, tuple(errors))))
        for row, error in errors.items():
            self._errors.report(Failure(field.stage, field.class_name, error, messages[row]))
        return batch

    def _together(
        self, messages: Sequence[Any], values: Column | None = None
    ) -> tuple[SinkBatch, bool]:
        """Converts messages, whose `values` may be known, and transforms them if that can be done
        on columns. Returns the batch, and True if it is transformed. Raises something if a message
        cannot be converted, or one of many cannot be transformed."""
        batch = self._converted(messages, values)
        if not self._chain.in_columns:
            return batch, not self._chain
        try:
            return self._in_columns(batch), True
        except Exception:
            if len(batch) > _FEW:
                raise
            return batch, False

    def _in_columns(self, batch: SinkBatch) -> SinkBatch:
        columns = Columns(len(batch), {name: partial(getattr, batch, name) for name in _COLUMNS})
        self._chain.apply_columns(columns)
        messages = batch.consumed
        return _batch(columns.lazy, [messages[row] for row in columns.rows], len(columns))

    def _record_by_record(self, batch: Iterable[SinkRecord]) -> SinkBatch:
        """Transforms a batch. Each record that cannot be is one error."""
        return SinkBatch.of(list(self._changed(batch)))

    def _changed(self, records: Iterable[SinkRecord]) -> Iterator[SinkRecord]:
        for record in records:
            try:
                changed = self._chain.apply(record, record.consumed, self._errors)
            except RecordSkipped:
                continue
            if changed is None:
                continue
            # a transformation may have made another record, which still is of this message
            is_same = changed.consumed is record.consumed
            yield changed if is_same else replace(changed, consumed=record.consumed)

    def _converted(self, messages: Sequence[Any], values: Column | None) -> SinkBatch:
        key = self._key.column(messages)
        value = self._value.column(messages) if values is None else lambda: values
        headers: Lazy[Headers] = partial(self._headers, messages)
        if not self._header.reads_anything:
            headers = self._headers(messages)
        return SinkBatch(
            lambda: value().values,
            value_schemas=lambda: value().each_schema(),
            keys=lambda: key().values,
            key_schemas=lambda: key().each_schema(),
            topics=lambda: list(map(Message.topic, messages)),
            partitions=lambda: list(map(Message.partition, messages)),
            offsets=lambda: list(map(Message.offset, messages)),
            timestamps=lambda: list(map(_timestamp, messages)),
            headers=headers,
            consumed=messages,
            size=len(messages),
        )

    def _headers(self, messages: Sequence[Any]) -> list[Headers]:
        return [self._headers_of(message) for message in messages]

    def _headers_of(self, message: Any) -> Headers:
        raw = message.headers()
        if not raw:
            return ()
        topic, convert = message.topic(), self._header.to_connect
        typed = ((key, *convert(topic, key, data)) for key, data in raw)
        return tuple(Header(key, value, schema) for key, schema, value in typed)

    def _in_pieces(self, messages: Sequence[Any], bad: Sequence[int]) -> Iterator[SinkBatch]:
        """Yields what can be processed together between the `bad` ones, and these, if they can."""
        bounds = sorted({0, *bad, *(row + 1 for row in bad), len(messages)})
        for begin, end in pairwise(bounds):
            yield from self._run(messages[begin:end])

    def _run(self, messages: Sequence[Any], *, failed: bool = False) -> Iterator[SinkBatch]:
        """Yields what can be processed together; each message that cannot be is one error. Errors
        are in the order of the messages, because each piece is finished before the next. `failed`:
        all of them together are known to fail."""
        for begin, piece in pieces_of(
            0, len(messages), lambda a, b: self._together(messages[a:b]), failed=failed
        ):
            if piece is not None:
                batch, transformed = piece
                yield batch if transformed else self._record_by_record(batch)
                continue
            try:
                record = self._singly(messages[begin])
            except RecordSkipped:
                continue
            yield self._record_by_record([record])

    def _singly(self, message: Any) -> SinkRecord:
        """Converts one message. Raises what ErrorHandler.run raises."""

        def read(field: _ConvertedField) -> Column:
            return self._errors.run(
                field.stage, field.class_name, lambda: field.read([message]), message
            )

        key, value = read(self._key), read(self._value)
        headers = self._errors.run(
            Stage.HEADER_CONVERTER,
            registry.class_name_of(self._header),
            lambda: self._headers_of(message),
            message,
        )
        return SinkRecord(
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            value=value.values[0],
            value_schema=value.each_schema()[0],
            key=key.values[0],
            key_schema=key.each_schema()[0],
            timestamp=_timestamp(message),
            headers=headers,
            consumed=message,
        )


def _batch(column: Callable[[Name], Lazy[Any]], consumed: Lazy[Any], size: int) -> SinkBatch:
    columns: dict[str, Any] = {name: column(name) for name in _COLUMNS}
    return SinkBatch(**columns, consumed=consumed, size=size)


def _joined_batches(batches: Sequence[SinkBatch]) -> SinkBatch:
    def column(name: str) -> Callable[[], list[Any]]:
        return lambda: [item for batch in batches for item in getattr(batch, name)]

    return _batch(column, column("consumed"), sum(map(len, batches)))


@dataclass(frozen=True, slots=True)
class _ConvertedField:
    """The keys or the values of messages, and their converter."""

    stage: Stage
    converter: Converter
    class_name: str
    reader: Read
    field: Callable[[Any], Any]

    def column(self, messages: Sequence[Any]) -> Callable[[], Column]:
        """Returns the column, which is made when first asked for if that cannot fail."""
        column = cache(partial(self.read, messages))
        if not self.converter.reads_anything:
            try:
                column()
            except UnreadableRows as error:
                raise _Unreadable(self, error) from None
        return column

    def read(self, messages: Sequence[Any]) -> Column:
        """Converts messages; those of each topic together, if it matters."""
        if self.converter.ignores_context:
            topic = messages[0].topic() if messages else ""
            return self._read(topic, None, messages)
        columns = []
        for topic, run in groupby(messages, Message.topic):
            group = list(run)
            headers = [message.headers() or [] for message in group]
            try:
                columns.append(self._read(topic, headers, group))
            except UnreadableRows as error:  # they are counted within this topic's
                raise DataError(str(error)) from error
        return columns[0] if len(columns) == 1 else _joined(columns)

    def _read(
        self, topic: str, headers: Sequence[RawHeaders] | None, messages: Sequence[Any]
    ) -> Column:
        column = self.reader(topic, headers, list(map(self.field, messages)))
        if len(column.values) != len(messages):  # a converter may be anybody's
            raise DataError(f"{len(messages)} messages were converted to {len(column.values)}")
        return column


def _converted_field(
    stage: Stage, converter: Converter, field: Callable[[Any], Any]
) -> _ConvertedField:
    name = registry.class_name_of(converter)
    return _ConvertedField(stage, converter, name, converter.reader(), field)


class _Unreadable(Exception):
    """Some keys, or some values, cannot be read; `values` are those of all other messages."""

    def __init__(self, field: _ConvertedField, rows: UnreadableRows) -> None:
        self.field = field
        self.errors = rows.errors
        self.values = rows.readable if field.stage is Stage.VALUE_CONVERTER else None


def _joined(columns: Sequence[Column]) -> Column:
    return Column(
        [value for column in columns for value in column.values],
        schemas=[schema for column in columns for schema in column.each_schema()],
    )


def _timestamp(message: Any) -> int | None:
    type_, milliseconds = message.timestamp()
    return milliseconds if type_ and milliseconds != _NO_TIMESTAMP else None
