"""Defines how a source task's records and offsets get into Kafka, for both modes.

`Transactions`: records and offsets together or not at all. `PlainWriter`: offsets after the records
are acknowledged, for `exactly.once.source.support=disabled`. The loop in source.py uses one of them
for its whole life, through `RestingWriter`, with the matching commit times from `boundary_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import SourceRecord
from connect_runtime.kafka.errors import error_of
from connect_runtime.storage.log import NewRecord

_OVERHEAD: Final = 64  # bytes of a message without its value


@dataclass(frozen=True, slots=True)
class Messages:
    """What one batch sends: dicts of `value` and, if needed, `key`; `size` bytes of values. With
    `timestamp` or `headers` in them, `singly` is True: librdkafka has no batch call for these.
    `keyed`: some have keys. `sources` are the records that the task returned for them."""

    each: list[dict[str, Any]]
    size: int
    singly: bool
    keyed: bool
    sources: Callable[[], Iterator[SourceRecord]]

    @property
    def memory(self) -> int:
        """Returns about how many bytes the producer holds until Kafka has acknowledged them."""
        return self.size + len(self.each) * _OVERHEAD


def queue(
    producer: Producer,
    topic: str,
    messages: Messages,
    partition: int | None,
    delivered: Callable[..., None] | None = None,
) -> list[tuple[int, KafkaError]]:
    """Hands messages to a producer. Returns the numbers of those that it refuses, and why.
    `delivered` gets the reports of messages that have more than key and value, with `given`."""
    place = () if partition is None else (partition,)
    if not messages.singly:
        if producer.produce_batch(topic, messages.each, *place) == len(messages.each):
            return []
        return [(n, m["_error"]) for n, m in enumerate(messages.each) if "_error" in m]
    keywords = {} if partition is None else {"partition": partition}
    refused = []
    for number, message in enumerate(messages.each):
        told = {} if delivered is None else {"on_delivery": partial(delivered, given=message)}
        try:
            producer.produce(topic, **message, **keywords, **told)
        except KafkaException as raised:
            refused.append((number, error_of(raised)))
    return refused


class SourceWriter(Protocol):
    """Writes for one task. All methods raise Fenced, Interrupted or ConnectorError, which end the
    attempt; after that only `close` may be called. Belongs to one thread at a time.

    `open`: something was sent since the last commit, first at `opened_at` (monotonic seconds),
    `bytes` of record values. `atomic`: uncommitted records never become visible.
    """

    @property
    def atomic(self) -> bool: ...

    @property
    def open(self) -> bool: ...

    @property
    def opened_at(self) -> float: ...

    @property
    def bytes(self) -> int: ...

    @property
    def expires_s(self) -> float | None:
        """Returns how long sent records may wait for their commit; None if without limit."""
        ...

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        """Queues messages; the partition follows from the key if it is None."""
        ...

    def serve(self) -> None:
        """Serves the producer's callbacks, among them its statistics, which would pile up."""
        ...

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        """Commits sent records and the offsets after them. False: not now, try again later."""
        ...

    def abort(self) -> None:
        """Takes back records sent since the last commit, as far as possible."""
        ...

    def close(self) -> None:
        """Closes the producer and aborts uncommitted records, if possible."""
        ...
