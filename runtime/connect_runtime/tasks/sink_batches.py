"""Defines a sink's records as read, and the batches that the task gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from connect_runtime.api import (
    Column,
    Converter,
    DataError,
    RetriableError,
    SinkBatch,
    TopicPartition,
)
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


def batch_of(messages: list[Any], converters: Converters) -> SinkBatch:
    """Returns the batch to put. Converts now what could fail, and the rest on demand.

    Raises DataError that names the first record that cannot be converted.
    """
    value = _LazyColumn("value", messages, Message.value, converters.value)
    key = _LazyColumn("key", messages, Message.key, converters.key)
    return SinkBatch(
        lambda: value.column.values,
        value_schemas=lambda: value.column.each_schema(),
        keys=lambda: key.column.values,
        key_schemas=lambda: key.column.each_schema(),
        topics=lambda: list(map(Message.topic, messages)),
        partitions=lambda: list(map(Message.partition, messages)),
        offsets=lambda: list(map(Message.offset, messages)),
        timestamps=lambda: [m.timestamp()[1] if m.timestamp()[0] else None for m in messages],
        headers=lambda: [m.headers() or () for m in messages],
        size=len(messages),
    )


class _LazyColumn:
    """Keys or values, converted once on demand."""

    __slots__ = ("_column", "_converter", "_field", "_messages", "_name")

    def __init__(self, name: str, messages: list[Any], field: Any, converter: Converter) -> None:
        self._name, self._messages = name, messages
        self._field, self._converter = field, converter
        self._column: Column | None = None
        if not converter.reads_anything:
            self._column = self.column

    @property
    def column(self) -> Column:
        if self._column is None:
            try:
                self._column = self._converter.reader()(list(map(self._field, self._messages)))
            except RetriableError:
                raise
            except Exception as error:
                bad = self._first_unreadable()
                if bad is None:
                    raise
                raise DataError(
                    f"Error converting message {self._name} in topic '{bad.topic()}' partition "
                    f"{bad.partition()} at offset {bad.offset()} and timestamp "
                    f"{bad.timestamp()[1]}"
                ) from error
        return self._column

    def _first_unreadable(self) -> Any:
        """Returns the first message that cannot be converted by itself; None if there is none."""
        read = self._converter.reader()
        for message in self._messages:
            try:
                read([self._field(message)])
            except Exception:
                return message
        return None
