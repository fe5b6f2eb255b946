"""How a source task's records and offsets get into Kafka: what the two ways have in common.

`Transactions`: records and offsets together or not at all. `PlainWriter`: offsets after the records
are acknowledged, for `exactly.once.source.support=disabled`. The loop in source.py has one of them
for all its life, and `boundary_of` the time of commits that belongs to it.
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
    """What one batch sends: dicts of `value` and if need be `key`; `size` bytes of values. With
    `timestamp` or `headers` in them, `singly` is True: librdkafka has no batch call for these."""

    each: list[dict[str, Any]]
    size: int
    singly: bool

    @property
    def memory(self) -> int:
        """About how many bytes the producer holds until Kafka has acknowledged them."""
        return self.size + len(self.each) * _OVERHEAD


def queue(producer: Producer, topic: str, messages: Messages, partition: int | None) -> None:
    """Hands messages to a producer. Raises KafkaException for the first that it does not take."""
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

    `open`: something was sent since the last commit, `opened_at` (monotonic seconds) for the first
    time, `bytes` of record values. `atomic`: whatever is not committed is as good as never sent.
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
        """How long something sent may wait for its commit; None if for ever."""
        ...

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        """Queues messages; the partition follows from the key if it is None."""
        ...

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        """Commits what was sent and the offsets after it. False: not now, try again later."""
        ...

    def abort(self) -> None:
        """Takes back what was sent since the last commit, as far as that can be done."""
        ...

    def close(self) -> None:
        """Ends the producer; what is not committed is aborted if that can be done."""
        ...
