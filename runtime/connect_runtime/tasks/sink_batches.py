"""Defines a sink's records as read, and the batches that the task gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Any

from confluent_kafka import Message

from connect_runtime.api import (
    Column,
    Converter,
    DataError,
    Header,
    Headers,
    RetriableError,
    Schema,
    SinkBatch,
    TopicPartition,
)
from connect_runtime.api.records import Lazy
from connect_runtime.data.converters import Converters


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages as read, and each partition's next offset after them."""

    messages: list[Any]
    positions: Mapping[TopicPartition, int]

    def without(self, partitions: Collection[TopicPartition]) -> Delivery:
        """Returns this delivery without these partitions' records and positions."""
        return Delivery(
            [m for m in self.messages if (m.topic(), m.partition()) not in partitions],
            {p: o for p, o in self.positions.items() if p not in partitions},
        )

    def then(self, later: Delivery) -> Delivery:
        """Returns this delivery followed by a later one."""
        if not later.messages:
            return self
        return Delivery([*self.messages, *later.messages], {**self.positions, **later.positions})


class Decoder:
    """Turns messages into the batches that a task gets, with the task's converters."""

    def __init__(self, converters: Converters) -> None:
        self._converters = converters
        self._value = _Reader("value", converters.value, Message.value)
        self._key = _Reader("key", converters.key, Message.key)

    def batch(self, messages: list[Any]) -> SinkBatch:
        """Returns the batch to put. Converts now what could fail, and the rest on demand.

        Raises DataError that names the first record that cannot be converted.
        """
        value, key = self._value.column(messages), self._key.column(messages)
        headers: Lazy[Headers] = partial(self._headers, messages)
        if not self._converters.header.reads_anything:
            headers = self._headers(messages)
        return SinkBatch(
            lambda: value().values,
            value_schemas=lambda: value().each_schema(),
            keys=lambda: key().values,
            key_schemas=lambda: key().each_schema(),
            topics=lambda: list(map(Message.topic, messages)),
            partitions=lambda: list(map(Message.partition, messages)),
            offsets=lambda: list(map(Message.offset, messages)),
            timestamps=lambda: [m.timestamp()[1] if m.timestamp()[0] else None for m in messages],
            headers=headers,
            size=len(messages),
        )

    def _headers(self, messages: list[Any]) -> list[Headers]:
        read = self._converters.header.to_connect
        return [_headers(message, read) for message in messages]


def _headers(message: Any, read: Callable[..., tuple[Schema | None, Any]]) -> Headers:
    found = message.headers()
    if not found:
        return ()
    topic = message.topic()
    typed = ((key, *read(topic, key, data)) for key, data in found)
    return tuple(Header(key, value, schema) for key, schema, value in typed)


class _Reader:
    """Reads the keys or the values of messages."""

    def __init__(self, name: str, converter: Converter, field: Callable[[Any], Any]) -> None:
        self._name, self._field = name, field
        self._read = converter.reader()
        self._ignores_context = converter.ignores_context
        self._lazy = converter.reads_anything

    def column(self, messages: list[Any]) -> Callable[[], Column]:
        """Returns the column, which is made when first asked for if that cannot fail."""
        found = cache(partial(self._column, messages))
        if not self._lazy:
            found()
        return found

    def _column(self, messages: list[Any]) -> Column:
        try:
            return self._convert(messages)
        except RetriableError:
            raise
        except Exception as error:
            bad = self._first_unreadable(messages)
            if bad is None:
                raise
            raise DataError(
                f"Error converting message {self._name} in topic '{bad.topic()}' partition "
                f"{bad.partition()} at offset {bad.offset()} and timestamp "
                f"{bad.timestamp()[1]}"
            ) from error

    def _convert(self, messages: list[Any]) -> Column:
        if self._ignores_context:
            topic = messages[0].topic() if messages else ""
            return self._read(topic, None, list(map(self._field, messages)))
        parts = []
        for topic, run in groupby(messages, Message.topic):
            group = list(run)
            headers = [message.headers() or [] for message in group]
            parts.append(self._read(topic, headers, list(map(self._field, group))))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _first_unreadable(self, messages: list[Any]) -> Any:
        """Returns the first message that cannot be converted by itself; None if there is none."""
        for message in messages:
            try:
                self._convert([message])
            except Exception:
                return message
        return None


def _joined(parts: Sequence[Column]) -> Column:
    return Column(
        [value for part in parts for value in part.values],
        schemas=[schema for part in parts for schema in part.each_schema()],
    )
