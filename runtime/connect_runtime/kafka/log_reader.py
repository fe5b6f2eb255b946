"""Reads topics of a real cluster, committed records only, up to their current ends.

An end counts all records, also of open transactions: records that a read to the end must see may
be hidden behind one. The reader's progress is the consumer's position, which also passes aborted
records and transaction markers; if the rest was compacted, only end-of-partition events move it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from connect_runtime.kafka.clients import consumer
from connect_runtime.kafka.errors import END_OF_PARTITION, SILENT, as_failure, reason
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.topics import ends_now, list_offsets
from connect_runtime.storage.log import LogBlocked, LogRecord
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable

_BATCH = 10_000
# After so long without a record, `read_available` goes on without the rest
_STALLED_S = 3.0
_LOOK_S = 5.0
_LOOK_TIMEOUT_S = 1.0
# Short, because transaction markers do not end a wait.
_WAIT_S = 0.005
_SETTINGS = {
    # librdkafka requires a group; with manual assignment and no commits it is never used
    "group.id": "connect-log-reader",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 50,
    "fetch.wait.max.ms": 100,
}
# librdkafka looks for the group's coordinator even though the group is never used.
_PASSING = SILENT | {KafkaError.GROUP_AUTHORIZATION_FAILED}


_At: TypeAlias = tuple[str, int]


class KafkaLogReader:
    """Implements LogReader, for one topic or several. Belongs to one thread at a time."""

    def __init__(
        self,
        properties: Mapping[str, str],
        partitions: Mapping[str, Sequence[int]],
        admin: AdminClient,
    ) -> None:
        """Opens a reader of these partitions of each topic, from their beginnings."""
        self.topic = ", ".join(partitions)
        self._topics = list(partitions)
        self._assigned = [TopicPartition(*at) for at in _each(partitions)]
        self._admin = admin
        # Everything before these offsets has been read, or has no records to read.
        self._next = dict.fromkeys(_each(partitions), 0)
        # At the last read to an end, compared with the first one
        self.led_anew = False
        self._epochs: Mapping[_At, int | None] | None = None
        # Read, but not returned yet: a failed read to the end must not lose records.
        self._unread: list[LogRecord] = []
        # Partitions that `read_available` left out, with the reasons
        self._left_out: dict[_At, str] = {}
        self._look_at = 0.0
        self._consumer: Consumer | None = consumer(properties, _SETTINGS)
        # From offset 0, and with the reset above to what is left of the log: librdkafka looks
        # OFFSET_BEGINNING up before it knows the leaders, and tries again 500 ms later.
        self._consumer.assign([TopicPartition(*at, 0) for at in _each(partitions)])

    @property
    def positions(self) -> Mapping[int, int]:
        return {partition: offset for (_, partition), offset in self._next.items()}

    def poll(self) -> Sequence[LogRecord]:
        self._fetch(0)
        self._look_again()
        return self._take_unread()

    @logged("read topic", "self")
    def read_to_end(self, timeout_s: float, topics: Sequence[str] = ()) -> Sequence[LogRecord]:
        """Reads as LogReader does; `topics`: of these only."""
        deadline = time.monotonic() + timeout_s
        self._read_until(self._ends(IsolationLevel.READ_UNCOMMITTED, topics), deadline)
        return self._take_unread()

    @logged("read what there is of topic", "self")
    def read_available(self, timeout_s: float) -> Sequence[LogRecord]:
        latest = dict.fromkeys(self._assigned, OffsetSpec.latest())
        (answers,) = list_offsets(
            self._admin, [latest], timeout_s=min(timeout_s, _STALLED_S), patience_s=0.0
        )
        refused = {at: answer for at, answer in answers.items() if isinstance(answer, KafkaError)}
        self._left_out = {at: reason(answer) for at, answer in refused.items()}
        ends = {at: answer.offset for at, answer in answers.items() if at not in refused}
        now_s = moved_at = time.monotonic()
        deadline = now_s + timeout_s
        self._fetch(0)
        while behind := [at for at, end in ends.items() if self._next[at] < end]:
            now_s = time.monotonic()
            if now_s > min(deadline, moved_at + _STALLED_S):
                reason_text = (
                    "a transaction that is still open hides them, or Kafka has not sent them"
                )
                for at in behind:
                    self._left_out[at] = (
                        f"the records from offset {self._next[at]} on: {reason_text}"
                    )
                break
            positions = dict(self._next)
            self._fetch(_WAIT_S)
            if self._next != positions:
                moved_at = now_s
        return self._take_unread()

    @property
    def left_out(self) -> Mapping[_At, str]:
        return dict(self._left_out)

    @logged("continue to read topic", "self")
    def read_through(self, partition: int, offset: int, timeout_s: float) -> Sequence[LogRecord]:
        (topic,) = self._topics
        self._read_until({(topic, partition): offset + 1}, time.monotonic() + timeout_s)
        return self._take_unread()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _look_again(self) -> None:
        """Removes partitions that have nothing more to read from those left out: a consumer that
        was at their end reports that only once."""
        now_s = time.monotonic()
        if not self._left_out or now_s < self._look_at:
            return
        self._look_at = now_s + _LOOK_S
        request = {TopicPartition(*at): OffsetSpec.latest() for at in self._left_out}
        (answers,) = list_offsets(self._admin, [request], timeout_s=_LOOK_TIMEOUT_S, patience_s=0.0)
        for at, answer in answers.items():
            if not isinstance(answer, KafkaError) and self._next[at] >= answer.offset:
                self._left_out.pop(at, None)

    def _take_unread(self) -> list[LogRecord]:
        records, self._unread = self._unread, []
        return records

    def _read_until(self, ends: Mapping[_At, int], deadline: float) -> None:
        self._fetch(0)
        while behind := [at for at, end in ends.items() if self._next[at] < end]:
            if time.monotonic() > deadline:
                raise self._obstacle(behind[0])
            self._fetch(_WAIT_S)

    def _fetch(self, wait_s: float) -> None:
        """Handles messages that have arrived, or waits for the first one."""
        if self._consumer is None:
            # by a worker that stops, while a request reads
            problem = "The topic is not read any more, because this worker is stopping"
            raise Failed(Diagnostic("topic.reader-closed", problem, self.topic))
        # Only poll returns with the first message; consume waits for a whole batch.
        first = self._consumer.poll(wait_s) if wait_s else None
        batch = self._consumer.consume(_BATCH, timeout=0)
        messages: list[Message] = batch if first is None else [first, *batch]
        refused = [message for message in messages if not self._take(message)]
        for reached in self._consumer.position(self._assigned):
            at = (reached.topic, reached.partition)
            self._next[at] = max(self._next[at], reached.offset)
        if refused:
            first = refused[0]
            raise as_failure(first.error(), "The topic cannot be read", first.topic())

    def _take(self, message: Message) -> bool:
        """Keeps a record; False for an error that is permanent."""
        error = message.error()
        if error is None:
            self._unread.append(record_of(message))
        elif error.code() == END_OF_PARTITION:
            at = (message.topic(), message.partition())
            self._next[at] = max(self._next[at], message.offset())
            self._left_out.pop(at, None)
        elif error.code() not in _PASSING:
            return False
        return True

    def _ends(self, isolation: IsolationLevel, topics: Sequence[str] = ()) -> dict[_At, int]:
        partitions = [at for at in self._assigned if not topics or at.topic in topics]
        ends = ends_now(self._admin, partitions, isolation)
        epochs = {at: end.leader_epoch for at, end in ends.items()}
        self._epochs = self._epochs or epochs
        shorter = any(end.offset < self._next[at] for at, end in ends.items())
        self.led_anew = epochs != self._epochs or shorter
        return {at: end.offset for at, end in ends.items()}

    def _obstacle(self, at: _At) -> ConnectError:
        """Returns the error that explains why the reader got no further."""
        reached = self._next[at]
        place = f"{at[0]}-{at[1]}"
        if self._ends(IsolationLevel.READ_COMMITTED, (at[0],))[at] <= reached:
            return LogBlocked(
                Diagnostic(
                    "topic.blocked",
                    f"A transaction that is still open hides the records from offset {reached} on",
                    place,
                    hint="Kafka aborts it when its transaction.timeout.ms is over; try again then.",
                )
            )
        return Unreachable(
            Diagnostic("topic.slow", f"Kafka has not sent the records from offset {reached}", place)
        )


def _each(partitions: Mapping[str, Sequence[int]]) -> list[_At]:
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def record_of(message: Message) -> LogRecord:
    """Returns a message of librdkafka as a record."""
    return LogRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
    )
