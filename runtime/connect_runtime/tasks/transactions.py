"""Writes one task's records and source offsets in Kafka transactions, all or nothing.

Wraps the transactional producer. A transaction is opened by the first write and never left empty.

Effect on other readers: all connectors share the offsets topic, and every start reads it to its
end, so a transaction that hangs there blocks every start. Transactions may last long (60 s, Kafka's
default, so that a slow source or a briefly suspended machine is not a failure), but their offsets
are queued only when all their records are acknowledged: a task holds the offsets topic for
milliseconds, right before its commit. If a task is killed in these milliseconds, its relaunch
aborts the transaction, or Kafka does at its timeout; readers that wait meanwhile are only
interrupted (start_reader.py).

After a failure: a fatal error, or a commit whose result Kafka does not report, ends the attempt
without further calls to Kafka. The next attempt's `init_transactions` fences this producer and
settles what it left open. Every call has a time limit, and a pause before a retry.

`close` must end librdkafka's threads: left alone, they go on aborting once Kafka answers again, and
then ask for a new epoch, with which Kafka (to 4.3) aborts the next attempt's transaction. So only
this object refers to the producer; an exception's traceback, which may outlive the attempt in a
cycle, must not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import UNSPECIFIC
from connect_runtime.metrics.client_stats import STATISTICS_MS
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.interrupted import Interrupted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.send_failures import RAISED, SendFailures, error_in
from connect_runtime.tasks.source_writer import Messages, queue
from connect_runtime.tasks.sticky_partitions import StickyPartitions

_START_LIMIT_S: Final = 60.0
_ABORT_LIMIT_S: Final = 5.0
_AGAIN_S: Final = 0.1
_FLUSH_S: Final = 0.5
# After that long, twice that long and so on it is asked whether a topic has lost partitions: Kafka
# is asked for all topics, while it may be slow for all tasks
_STALLED_S: Final = 2.0
# A commit requested at the end of its time may take as long as a request does.
_COMMIT_SLACK_S: Final = 5.0
# How much may wait in memory for Kafka's acknowledgement, with any transaction boundary.
UNACKNOWLEDGED_BYTES: Final = 64 << 20
QUEUE: Final = {
    # no limits here: send() bounds what is queued
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2_147_483_647,
    "delivery.report.only.error": True,
}


class Transactions:
    """The producer with this task's transactional id. Creating one fences every earlier one.

    Implements SourceWriter.
    """

    atomic = True

    def __init__(self, setup: TaskSetup, metrics: TaskMetrics) -> None:
        properties = setup.transactional_producer()
        self._partitions = StickyPartitions()
        self._failures = SendFailures(self._partitions.fewer)
        self._producer: Producer = clients.producer(
            properties,
            QUEUE
            | {
                "on_delivery": self._failures.delivered,
                "error_cb": self._failures.erred,
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": partial(metrics.client, "producer"),
            },
        )
        self.expires_s = int(properties["transaction.timeout.ms"]) / 1000
        self.open = False
        self.bytes = 0
        self.opened_at = 0.0
        self._unacknowledged = 0
        # No further calls to Kafka: the producer is fenced, broken, or its commit is in doubt.
        self._over = False
        self._take_over(time.monotonic() + _START_LIMIT_S)

    def _take_over(self, deadline: float) -> None:
        self._call(lambda left_s: clients.meet_broker(self._producer, left_s), deadline)
        self._call(lambda left_s: self._producer.init_transactions(left_s), deadline)

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        """Queues messages; the partition follows from the key if it is None."""
        if partition is None and not messages.keyed:
            partition = self._partitions.choose(topic, self._producer)
        else:
            self._partitions.check(topic, partition, self._producer)
        self._begin()
        if self._unacknowledged >= UNACKNOWLEDGED_BYTES:
            self._flush(time.monotonic() + self.expires_s)
        self.bytes += messages.size
        self._unacknowledged += messages.memory
        try:
            refused = queue(self._producer, topic, messages, partition)
        except RAISED as raised:
            raise self._failure(error_in(raised)) from raised.with_traceback(None)
        if refused:
            raise self._failure(refused[0][1])

    def serve(self) -> None:
        """Serves the producer's callbacks."""
        try:
            self._producer.poll(0)
        except RAISED as raised:
            raise self._failure(error_in(raised)) from raised

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        """Ends the transaction; returns when all of it is in Kafka, or just the offsets if no
        record was sent. Raises if none of it is, or if that is unknown."""
        deadline = time.monotonic() + (limit_s or self.expires_s + _COMMIT_SLACK_S)
        if offsets:
            self._flush(deadline)
            self._begin()
            for record in offsets:
                self._call(partial(self._queue, record), deadline)
        if not self.open:
            return True
        self._over = True  # until Kafka has reported the result
        self._call(lambda left_s: self._producer.commit_transaction(left_s), deadline)
        self.open = self._over = False
        return True

    def abort(self) -> None:
        """Drops records sent since the last commit."""
        if not self.open or self._over:
            return
        self.open = False
        deadline = time.monotonic() + _ABORT_LIMIT_S
        if self._unacknowledged and not self._failures:
            # Kafka may not know the transaction yet, and then refuses to end it
            with suppress(*RAISED):
                self._producer.flush(_ABORT_LIMIT_S)
        self._call(lambda left_s: self._producer.abort_transaction(left_s), deadline)

    def close(self) -> None:
        """Closes the producer and aborts an open transaction, if possible."""
        try:
            self.abort()
        finally:
            # its own close() would wait for Kafka without a limit
            del self._producer

    def _begin(self) -> None:
        if self.open:
            return
        self._failures.clear()
        self._call(lambda _: self._producer.begin_transaction(), time.monotonic())
        self.open = True
        self.bytes = 0
        self._unacknowledged = 0
        self.opened_at = time.monotonic()

    def _flush(self, deadline: float) -> None:
        """Waits until everything queued is acknowledged."""
        if not self._unacknowledged:
            return

        def flush(left_s: float) -> None:
            begin = time.monotonic()
            until, look_at = begin + left_s, begin + _STALLED_S
            # after a failure, what is still queued would wait here for the transaction's end
            while self._producer.flush(min(left_s, _FLUSH_S)) and not self._failures:
                now = time.monotonic()
                if now >= until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
                if now >= look_at:
                    look_at = now + (now - begin)
                    self._end_if_fewer()

        self._call(flush, deadline)
        self._unacknowledged = 0
        if self._failures:
            raise self._failure(None)

    def _end_if_fewer(self) -> None:
        """Raises Interrupted if a topic has lost partitions: records for them would wait here."""
        fewer = self._partitions.fewer(self._producer)
        if fewer is not None:
            self._over = True
            raise Interrupted(fewer)

    def _queue(self, record: NewRecord, _: float) -> None:
        self._producer.produce(record.topic, record.value, record.key)

    def _call(self, function: Callable[[float], Any], deadline: float) -> None:
        """Calls `function` with the remaining seconds, and retries after a pause if Kafka says
        so."""
        while True:
            try:
                function(max(deadline - time.monotonic(), _AGAIN_S))
                return
            except RAISED as raised:
                error = error_in(raised)
                if not error.retriable() or time.monotonic() >= deadline:
                    raise self._failure(error) from raised
            time.sleep(_AGAIN_S)

    def _failure(self, error: KafkaError | None) -> Exception:
        if error is not None:
            error = self._first(error)
            self._over = error.fatal() or (self._over and not error.txn_requires_abort())
        return self._failures.failure(error, self._producer)

    def _first(self, error: KafkaError) -> KafkaError:
        """Returns the error that failed the transaction. Later calls only say that it failed; a
        commit, which cannot succeed any more, says why."""
        if not self.open or error.code() not in UNSPECIFIC:
            return error
        try:
            self._producer.commit_transaction(_ABORT_LIMIT_S)
        except RAISED as raised:
            return error_in(raised)
        return error
