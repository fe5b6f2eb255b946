"""Defines how a source task's records and offsets get into Kafka, for both modes.

`Transactions`: records and offsets together or not at all. `PlainWriter`: offsets after the records
are acknowledged, for `exactly.once.source.support=disabled`. The loop uses one of them for its
whole life, through `IdleClosingWriter`, with the matching commit times from `boundary_of`.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import error_of
from connect_runtime.metrics.task_metrics import STATISTICS_MS, TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.control.assignments import DesiredTaskState
from connect_runtime.tasks.kafka_failures import RAISED, SendFailures
from connect_runtime.tasks.launch import AttemptEnd
from connect_specs.plain_text import counted

# May wait in memory for Kafka's acknowledgement, with any transaction boundary.
UNACKNOWLEDGED_BYTES: Final = 64 << 20
QUEUE: Final = {
    # no limits here: send() bounds what is queued
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2_147_483_647,
    "delivery.report.only.error": True,
}
_OVERHEAD: Final = 64  # bytes of a message without its value
_IDLE_S: Final = 30.0
# Kafka's default for `metadata.max.age.ms`: how soon new partitions get records
_AGE_S: Final = 300.0
_UNKNOWN_AGE_S: Final = 10.0  # after a question that Kafka did not answer
_ASK_TIMEOUT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one batch: dicts of `value` and, if needed, `key`; `size` bytes of values.

    With `timestamp` or `headers` in them, `singly` is True: librdkafka has no batch call for these.
    `keyed`: some have keys. `sources` are the records that the task returned for them.
    """

    records: list[dict[str, Any]]
    size: int
    singly: bool
    keyed: bool
    sources: Callable[[], Iterator[SourceRecord]]

    @property
    def memory(self) -> int:
        """Returns about how many bytes the producer holds until Kafka has acknowledged them."""
        return self.size + len(self.records) * _OVERHEAD


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


def new_producer(
    properties: Mapping[str, str],
    failures: SendFailures,
    delivered: Callable[..., None],
    metrics: TaskMetrics,
) -> Producer:
    """Returns a producer of a task's records. Its errors go to `failures`, and its statistics to
    `metrics`."""
    return clients.producer(
        properties,
        QUEUE
        | {
            "on_delivery": delivered,
            "error_cb": failures.erred,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": partial(metrics.client, "producer"),
        },
    )


def queue(
    producer: Producer,
    topic: str,
    messages: Messages,
    partition: int | None,
    delivered: Callable[..., None] | None = None,
) -> list[tuple[int, KafkaError]]:
    """Hands messages to a producer. Returns the numbers and errors of those that it refuses.

    `delivered` gets the reports of messages that have more than key and value, with `message`.
    """
    place = () if partition is None else (partition,)
    if not messages.singly:
        if producer.produce_batch(topic, messages.records, *place) == len(messages.records):
            return []
        return [(n, m["_error"]) for n, m in enumerate(messages.records) if "_error" in m]
    keywords = {} if partition is None else {"partition": partition}
    refused = []
    for number, message in enumerate(messages.records):
        report = {} if delivered is None else {"on_delivery": partial(delivered, sent=message)}
        try:
            producer.produce(topic, **message, **keywords, **report)
        except KafkaException as raised:
            refused.append((number, error_of(raised)))
    return refused


class TaskSuperseded(Exception):
    """The attempt is to end; nothing was sent."""

    def __init__(self, end: AttemptEnd) -> None:
        super().__init__(end.value)
        self.end = end


class IdleClosingWriter:
    """Ends a source's producer while the source is silent, and makes another for its next records.

    A producer takes 1 MB and four threads that each wake up once a second. That is most of the cost
    of an idle task. A new producer is made as at the task's start: an attempt
    that is not the newest must not take the transactional id from the newest one.

    Implements SourceWriter with the writers that `make` returns, one at a time. `newest` reads the
    assignments to their end. `send` and `commit` raise TaskSuperseded if they need a producer and
    the leader wants something else by now. `closes` is False for a task that has offsets to commit
    at its stop though it sent nothing: no producer can be made by then.
    """

    def __init__(
        self,
        make: Callable[[], SourceWriter],
        newest: Callable[[], DesiredTaskState],
        metrics: TaskMetrics,
        *,
        closes: bool = True,
    ) -> None:
        self._make = make
        self._newest = newest
        self._metrics = metrics
        self._closes = closes
        self._writer: SourceWriter | None = make()
        self._used_at = time.monotonic()
        self.atomic = self._writer.atomic
        self.expires_s = self._writer.expires_s

    @property
    def open(self) -> bool:
        return self._writer is not None and self._writer.open

    @property
    def opened_at(self) -> float:
        return 0.0 if self._writer is None else self._writer.opened_at

    @property
    def bytes(self) -> int:
        return 0 if self._writer is None else self._writer.bytes

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        self._opened().send(topic, messages, partition)

    def serve(self) -> None:
        """Serves the producer's callbacks, and ends one that was not used for long."""
        if self._writer is None:
            return
        self._writer.serve()
        if self._writer.open:
            self._used_at = time.monotonic()
        elif self._closes and time.monotonic() - self._used_at > _IDLE_S:
            self.close()
            self._metrics.without_clients()
            _return_memory()

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        return self._opened().commit(offsets, limit_s)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _opened(self) -> SourceWriter:
        self._used_at = time.monotonic()
        if self._writer is None:
            self._check()
            writer = self._make()
            try:
                # if this attempt is late, making it fenced the newest one
                self._check()
            except BaseException:
                writer.close()
                raise
            self._writer = writer
        return self._writer

    def _check(self) -> None:
        end = self._newest().end
        if end is not None:
            raise TaskSuperseded(end)


def _return_memory() -> None:
    """Returns freed memory to the system, where the C library is glibc."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True, slots=True)
class _TopicPartitions:
    """A topic: how many partitions it has, and which of them have leaders."""

    count: int
    with_leader: Sequence[int]
    until: float


class StickyPartitions:
    """Holds the partitions of the topics that one producer writes to, without keeping it.

    Records without keys go to one partition for each batch, as with Kafka's producer (KIP-480):
    librdkafka looks for the partition of each record, which takes a fifth of the time of sending
    it. And a topic that is recreated with fewer partitions is noticed: librdkafka keeps records for
    partitions that are gone until they time out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._topics: dict[str, _TopicPartitions] = {}
        # A silent Kafka holds up each question
        self._ask_from = -math.inf

    def choose(self, topic: str, producer: Producer) -> int | None:
        """Returns a partition that has a leader; None if none is known: the client chooses."""
        partitions = self._of(topic, producer).with_leader
        return random.choice(partitions) if partitions else None

    def check(self, topic: str, partition: int | None, producer: Producer) -> None:
        """Raises ConnectorError if the topic does not have the partition: librdkafka would not
        name it. Call before records are sent to it; None: the client chooses one."""
        count = self._of(topic, producer).count
        if partition is None or not count or partition < count:
            return
        del self._topics[topic]  # it may have more by now
        count = self._of(topic, producer).count
        if count and partition >= count:
            raise ConnectorError(
                f"A record is for partition {partition} of topic {topic}, which has"
                f" {counted(count, 'partition')}. Give the topic more, or correct what"
                " chooses the partition, the connector or a transformation; then restart the task."
            )

    def fewer(self, producer: Producer) -> str | None:
        """Returns a text that names a topic with fewer partitions than it had; None if there is
        none, or Kafka does not answer. Asks for all topics: asking for one may create it."""
        with contextlib.suppress(*RAISED):
            topics = producer.list_topics(timeout=_ASK_TIMEOUT_S).topics
            for name, topic in self._topics.items():
                count = len(topics[name].partitions) if name in topics else 0
                if 0 < count < topic.count:
                    return (
                        f"Topic {name} has {count} of the {topic.count} partitions that it had, so"
                        " it was made anew. The next attempt writes to these, and begins after the"
                        " last commit."
                    )
        return None

    def _of(self, topic: str, producer: Producer) -> _TopicPartitions:
        partitions = self._topics.get(topic)
        if partitions is None or self._clock() >= partitions.until:
            count, with_leader = self._ask(topic, producer)
            until = self._clock() + (_AGE_S if with_leader else _UNKNOWN_AGE_S)
            if partitions is not None:
                count = count or partitions.count  # it may be about to be recreated
            partitions = self._topics[topic] = _TopicPartitions(count, with_leader, until)
        return partitions

    def _ask(self, topic: str, producer: Producer) -> tuple[int, Sequence[int]]:
        """Returns the number of partitions, and those that have leaders; 0 and none if Kafka does
        not answer, which is then asked for no topic for a while."""
        if self._clock() < self._ask_from:
            return 0, []
        try:
            metadata = producer.list_topics(topic, timeout=_ASK_TIMEOUT_S).topics[topic]
        except RAISED:
            self._ask_from = self._clock() + _UNKNOWN_AGE_S
            return 0, []
        partitions = metadata.partitions.items()
        return len(partitions), [number for number, p in partitions if p.leader >= 0]
