"""Defines how a source task's records and offsets get into Kafka, for both modes.

`Transactions`: records and offsets together or not at all. `PlainWriter`: offsets after the records
are acknowledged, for `exactly.once.source.support=disabled`. The loop in source.py uses one of them
for its whole life, with the matching commit times from `boundary_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, Producer

from connect_runtime.storage.log import NewRecord

_OVERHEAD: Final = 64  # bytes of a message without its value


@dataclass(frozen=True, slots=True)
class Messages:
    """What one batch sends: dicts of `value` and, if needed, `key`; `size` bytes of values. With
    `timestamp` or `headers` in them, `singly` is True: librdkafka has no batch call for these."""

    each: list[dict[str, Any]]
    size: int
    singly: bool

    @property
    def memory(self) -> int:
        """Returns about how many bytes the producer holds until Kafka has acknowledged them."""
        return self.size + len(self.each) * _OVERHEAD


def queue(producer: Producer, topic: str, messages: Messages, partition: int | None) -> None:
    """Hands messages to a producer. Raises KafkaException for the first that it refuses."""
    place = () if partition is None else (partition,)
    if messages.singly:
        keywords = {} if partition is None else {"partition": partition}
        for message in messages.each:
            producer.produce(topic, **message, **keywords)
    elif producer.produce_batch(topic, messages.each, *place) < len(messages.each):
        raise KafkaException(next(m["_error"] for m in messages.each if "_error" in m))


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
