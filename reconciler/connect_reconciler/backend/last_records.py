"""Reads the newest records of topics: read-only, without a group, and for a limited time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from connect_reconciler.model.live import LogRange
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.kafka.clients import consumer
from connect_runtime.kafka.errors import as_failure
from connect_runtime.kafka.kafka_logging import logged

WITHIN_S: Final = 30.0
_SLICE_S: Final = 0.2
_AT_ONCE: Final = 500
_SETTINGS: Final = {
    "group.id": "connect-test",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
}

# First offset, and the one after the last
Ranges: TypeAlias = Mapping[TopicPartition, LogRange]


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Messages, the oldest first. `complete` False: the time was over before all were read."""

    messages: tuple[Any, ...]
    complete: bool


@logged("read the last records of", "ranges")
def last_records(
    properties: Mapping[str, str],
    ranges: Ranges,
    number: int,
) -> LastRecords:
    """Returns the newest records of these partitions together, by timestamp.

    `properties` are a consumer's, in Java's names. Offsets are not records: markers of transactions
    and compaction leave gaps, so it reads further back until there are enough.
    """
    deadline = time.monotonic() + WITHIN_S
    reader = consumer(properties, _SETTINGS)
    messages: list[Any] = []
    starts = {at: log.latest for at, log in ranges.items()}
    window, complete = number, True
    try:
        while len(messages) < number and complete:
            earlier = first_offsets(ranges, window)
            windows = {
                at: LogRange(earlier[at], starts[at]) for at in ranges if earlier[at] < starts[at]
            }
            if not windows:
                break
            complete = _read(reader, windows, messages, deadline)
            starts, window = earlier, window * 2
    finally:
        reader.close()
    newest = sorted(messages, key=_age)[-number:] if number else []
    return LastRecords(tuple(newest), complete)


def first_offsets(ranges: Ranges, count: int) -> dict[TopicPartition, int]:
    """Returns where to start in each partition to read so many offsets in all: equally many of
    each, and more where others have fewer."""
    starts: dict[TopicPartition, int] = {}
    missing = count
    by_size = sorted(ranges.items(), key=lambda item: item[1].latest - item[1].earliest)
    for at, (partition, log) in enumerate(by_size):
        share = -(-missing // (len(by_size) - at))
        taken = min(log.latest - log.earliest, share)
        starts[partition] = log.latest - taken
        missing -= taken
    return starts


def _read(
    reader: Any,
    windows: dict[TopicPartition, LogRange],
    messages: list[Any],
    deadline: float,
) -> bool:
    """Adds all records in these ranges to `found`. Returns whether there was time for all."""
    missing = dict(windows)
    # Records after a range are ignored. To pause its partition would spare little, and
    # librdkafka 2.16 may never read a partition that was paused and assigned anew
    reader.assign([KafkaPartition(*at, log.earliest) for at, log in windows.items()])
    while missing:
        if time.monotonic() > deadline:
            return False
        for message in reader.consume(_AT_ONCE, _SLICE_S):
            at = (message.topic(), message.partition())
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise as_failure(error, "The records cannot be read", f"{at[0]}-{at[1]}")
            if at not in missing:
                continue
            end = missing[at].latest
            if error is None and message.offset() < end:
                messages.append(message)
            if error is not None or message.offset() >= end - 1:
                del missing[at]
    return True


def _age(message: Any) -> tuple[int, str, int, int]:
    return message.timestamp()[1], message.topic(), message.partition(), message.offset()
