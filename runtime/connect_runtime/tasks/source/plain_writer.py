"""Writes one task's records and offsets without transactions, at least once.

For `exactly.once.source.support=disabled`. Offsets are written only when every record sent before
them is acknowledged, so after a kill the records since then are sent again. Nothing is fenced: the
leader starts no successor before the process of this attempt is known to be gone.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.errors.handler import ErrorHandler, Failure, Stage
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import OTHER_REFUSED, RECORD_REFUSED, error_of, reason
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.control.worker_topics import ServedOffsets
from connect_runtime.tasks.kafka_failures import RAISED, Interrupted, SendFailures, error_in
from connect_runtime.tasks.source.writer import (
    QUEUE,
    UNACKNOWLEDGED_BYTES,
    Messages,
    StickyPartitions,
    new_producer,
    queue,
)
from connect_runtime.tasks.task_setup import TaskSetup

T = TypeVar("T")
_log = logging.getLogger(__name__)

# An idempotent producer asks Kafka for a new epoch after each refused record.
_SINGLY: Final = {"batch.num.messages": 1, "enable.idempotence": False, "linger.ms": 0}
_ROOM_LIMIT_S: Final = 60.0
_CLASS: Final = "org.apache.kafka.connect.runtime.WorkerSourceTask"


class PlainWriter:
    """A producer of records, and a writer of offsets. Implements SourceWriter.

    If errors are tolerated, it skips records that the producer or Kafka refuses.
    """

    atomic = False
    expires_s = None

    def __init__(self, setup: TaskSetup, errors: ErrorHandler, metrics: TaskMetrics) -> None:
        self._errors = errors
        self._id = setup.id
        self._flush_limit_s = setup.flush_timeout_s
        self._partitions = StickyPartitions()
        self._failures = SendFailures(self._partitions.fewer)
        properties = setup.plain_producer()
        singly = QUEUE | _SINGLY | {"error_cb": self._failures.erred}
        self._refused = RefusedRecords(self._failures, lambda: clients.producer(properties, singly))
        delivered = self._refused.delivered if errors.tolerates_all else None
        self._delivered = delivered  # None: each refused record fails the task
        self._producer: Producer = new_producer(
            properties, self._failures, delivered or self._failures.delivered, metrics
        )
        self._offsets = plain_offsets(setup)
        self.open = False
        self.bytes = 0
        self.opened_at = 0.0
        self._unacknowledged = 0

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        """Queues messages; the partition follows from the key if it is None."""
        self._partitions.check(topic, partition, self._producer)
        self._begin(messages)
        try:
            refused = queue(self._producer, topic, messages, partition, self._delivered)
        except RAISED as raised:
            failure = self._failures.failure(error_in(raised), self._producer)
            raise failure from raised.with_traceback(None)
        if refused:
            self._skip(topic, messages, refused)

    def serve(self) -> None:
        """Serves the producer's callbacks."""
        self._call(self._producer.poll, 0)
        self._send_refused()

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        """Waits until sent records are acknowledged, then writes the offsets after them.

        False if that takes longer than `offset.flush.timeout.ms` or the offsets cannot be written:
        they wait for the next commit, as in Connect.
        """
        limit_s = self._flush_limit_s if limit_s is None else min(limit_s, self._flush_limit_s)
        if not self._flush(limit_s):
            _log.warning("Task %s: records are not acknowledged yet; no offsets written", self._id)
            return False
        if not self._offsets.write(offsets, limit_s):
            return False
        self.open = False
        return True

    def abort(self) -> None:
        """Does nothing: sent records cannot be taken back and are sent again."""

    def close(self) -> None:
        """Closes the producer, after waiting for sent records."""
        try:
            self._flush(self._flush_limit_s)
        finally:
            del self._producer
            self._refused.close()
            self._offsets.close()

    def _skip(
        self, topic: str, messages: Messages, refused: Sequence[tuple[int, KafkaError]]
    ) -> None:
        """Reports refused records if that is tolerated, else raises."""
        sources = list(messages.sources())
        for number, error in refused:
            if not self._errors.tolerates_all or error.code() not in RECORD_REFUSED:
                raise self._failures.failure(error, self._producer)
            self._report(sources[number], topic, error)

    def _report(self, record: SourceRecord, topic: str, error: KafkaError) -> None:
        text = reason(error)
        _log.error("Task %s skips a record for topic %s: %s", self._id, topic, text)
        self._errors.report(Failure(Stage.KAFKA_PRODUCE, _CLASS, ConnectorError(text), record))

    def _send_refused(self) -> None:
        """Sends records again that Kafka refused with others, and reports those that it refused
        alone: as they were sent, because the batch that they came from is not kept."""
        self._call(lambda _: self._refused.send_again(), 0)
        for topic, sent, error in self._refused.take():
            key, timestamp = sent.get("key"), sent.get("timestamp")
            record = SourceRecord({}, None, topic, sent["value"], key=key, timestamp=timestamp)
            self._report(record, topic, error)

    def _begin(self, messages: Messages) -> None:
        if not self.open:
            self.open = True
            self.bytes = 0
            self.opened_at = time.monotonic()
        self.serve()
        if self._unacknowledged >= UNACKNOWLEDGED_BYTES and not self._flush(_ROOM_LIMIT_S):
            raise Interrupted(f"Kafka acknowledged no records for {_ROOM_LIMIT_S:g} s")
        self.bytes += messages.size
        self._unacknowledged += messages.memory

    def _flush(self, limit_s: float) -> bool:
        """Returns True once everything sent is acknowledged. Raises for what cannot be
        delivered."""
        unanswered = self._call(self._producer.flush, limit_s)
        unanswered = unanswered or self._call(self._refused.flush, limit_s)
        self._send_refused()
        if unanswered == 0:
            self._unacknowledged = 0
        return unanswered == 0

    def _call(self, function: Callable[[float], T], limit_s: float) -> T:
        try:
            answer = function(limit_s)
        except RAISED as raised:
            raise self._failures.failure(error_in(raised), self._producer) from raised
        if self._failures:
            raise self._failures.failure(None, self._producer)
        return answer


class RefusedRecords:
    """Sends records that Kafka refused again, one at a time, and names those that it refuses alone.

    Kafka answers for a batch. One record above the topic's `max.message.bytes`, or one without a
    key in a compacted topic, has all records of its batch refused. Connect's producer splits a
    batch that is too large, which may never end, and skips a whole batch that is refused for
    another reason. The good records of a refused batch come after those that were sent since.

    Belongs to one producer. `make` returns another one, which sends each record by itself.
    """

    def __init__(self, failures: SendFailures, make: Callable[[], Producer]) -> None:
        self._failures = failures
        self._make = make
        self._producer: Producer | None = None
        self._waiting: deque[tuple[Message, Mapping[str, Any]]] = deque()
        self._refused: list[tuple[str, Mapping[str, Any], KafkaError]] = []

    def delivered(
        self, error: KafkaError | None, message: Message, sent: Mapping[str, Any] | None = None
    ) -> None:
        """Handles a delivery report. `sent` has all of the message, if that is more than key and
        value: reports have neither headers nor timestamps."""
        if error is None or error.code() not in RECORD_REFUSED | {OTHER_REFUSED}:
            self._failures.delivered(error, message)
            return
        sent = sent or {"key": message.key(), "value": message.value()}
        self._waiting.append((message, sent))

    def send_again(self) -> None:
        """Sends what was refused, and does not wait for Kafka."""
        if self._waiting and self._producer is None:
            self._producer = self._make()
        if self._producer is None:
            return
        while self._waiting:
            message, sent = self._waiting[0]
            self._producer.produce(
                message.topic(),
                partition=message.partition(),
                on_delivery=partial(self._alone, sent),
                **sent,
            )
            # only now: while a record waits here, no offset after it is written
            self._waiting.popleft()
        self._producer.poll(0)

    def flush(self, limit_s: float) -> int:
        """Sends what was refused, and waits. Returns how many records Kafka has not answered."""
        self.send_again()
        return 0 if self._producer is None else self._producer.flush(limit_s)

    def take(self) -> list[tuple[str, Mapping[str, Any], KafkaError]]:
        """Returns records that Kafka has refused alone: topic, what was sent, and why."""
        refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """Ends the producer; nothing may follow."""
        self._producer = None

    def _alone(self, sent: Mapping[str, Any], error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in RECORD_REFUSED:
            self._refused.append((message.topic(), sent, error))
        else:
            self._failures.delivered(error, message)


def plain_offsets(setup: TaskSetup) -> KafkaOffsets | ServedOffsets:
    """Returns what writes the source offsets of a task without transactions."""
    if setup.socket is not None:
        return ServedOffsets(setup)
    return KafkaOffsets(setup, setup.offsets_producer())


def worker_offsets(setup: TaskSetup) -> KafkaOffsets | ServedOffsets:
    """Returns what writes a source's offsets to the worker's topic, whether or not it has one of
    its own."""
    if setup.socket is not None:
        return ServedOffsets(setup)
    return KafkaOffsets(setup, setup.worker_offsets_producer())


class KafkaOffsets:
    """Writes source offsets to Kafka without transactions, by a producer of their own."""

    def __init__(self, setup: TaskSetup, properties: Mapping[str, str]) -> None:
        self._id = setup.id
        self._failures = SendFailures()
        self._producer: Producer = clients.producer(
            properties,
            {
                "acks": "all",
                "linger.ms": 0,
                "max.in.flight": 1,
                "message.timeout.ms": max(round(setup.flush_timeout_s * 1000), 1),
                "on_delivery": self._failures.delivered,
            },
        )

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Returns True once all are written; logs the reason if not."""
        self._failures.clear()
        try:
            for record in offsets:
                self._producer.produce(record.topic, record.value, record.key)
        except KafkaException as raised:
            _log.error("Task %s: offsets cannot be written: %s", self._id, reason(error_of(raised)))
            return False
        unanswered = self._producer.flush(limit_s + 1)
        if unanswered == 0 and not self._failures:
            return True
        _log.error("Task %s: offsets were not written; the next commit tries again", self._id)
        return False

    def close(self) -> None:
        """Ends the producer."""
        del self._producer
