"""Writes one task's records and offsets without transactions, at least once.

For `exactly.once.source.support=disabled`. Offsets are written only when every record sent before
them is acknowledged, so after a kill the records since then are sent again. Nothing is fenced: the
leader starts no successor before it knows that the old process is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import KafkaError, Producer

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.errors.stages import Failure, Stage
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import RECORD_REFUSED, reason
from connect_runtime.metrics.client_stats import STATISTICS_MS
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.interrupted import Interrupted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.refused_records import RefusedRecords
from connect_runtime.tasks.send_failures import RAISED, SendFailures, error_in
from connect_runtime.tasks.source_writer import Messages, queue
from connect_runtime.tasks.sticky_partitions import StickyPartitions
from connect_runtime.tasks.transactions import QUEUE, UNACKNOWLEDGED_BYTES
from connect_runtime.tasks.worker_topics import open_offsets

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
        self._producer: Producer = clients.producer(
            properties,
            QUEUE
            | {
                "on_delivery": delivered or self._failures.delivered,
                "error_cb": self._failures.erred,
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": partial(metrics.client, "producer"),
            },
        )
        self._offsets = open_offsets(setup)
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
        self._send_again()

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
        why = reason(error)
        _log.error("Task %s skips a record for topic %s: %s", self._id, topic, why)
        self._errors.report(Failure(Stage.KAFKA_PRODUCE, _CLASS, ConnectorError(why), record))

    def _send_again(self) -> None:
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
        """Whether everything sent is acknowledged. Raises for what cannot be delivered."""
        left = self._call(self._producer.flush, limit_s)
        left = left or self._call(self._refused.flush, limit_s)
        self._send_again()
        if left == 0:
            self._unacknowledged = 0
        return left == 0

    def _call(self, function: Callable[[float], T], limit_s: float) -> T:
        try:
            answer = function(limit_s)
        except RAISED as raised:
            raise self._failures.failure(error_in(raised), self._producer) from raised
        if self._failures:
            raise self._failures.failure(None, self._producer)
        return answer
