"""Writes one task's records and source offsets in Kafka transactions, and decides when they end.

`transaction.boundary=poll`: the records of one poll are committed together with its offset, and
never split. Under load, several whole polls share a transaction, for a tenth of a second at most;
once a source has nothing more at hand, its records are committed. `interval`: commits after a time.
`connector`: the task decides. Without transactions, only `offset.flush.interval.ms` decides when to
commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import UNSPECIFIC, reason
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.kafka_failures import (
    RAISED,
    Interrupted,
    SendFailures,
    error_in,
    missing_right,
)
from connect_runtime.tasks.source.writer import (
    UNACKNOWLEDGED_BYTES,
    Messages,
    SourceWriter,
    StickyPartitions,
    new_producer,
    queue,
)
from connect_runtime.tasks.task_setup import TaskSetup

_START_LIMIT_S: Final = 60.0
_ABORT_LIMIT_S: Final = 5.0
_RETRY_S: Final = 0.1
_FLUSH_S: Final = 0.5
# After that long, twice that long and so on it is asked whether a topic has lost partitions: Kafka
# is asked for all topics, while it may be slow for all tasks
_STALLED_S: Final = 2.0
# A commit requested at the end of its time may take as long as a request does.
_COMMIT_SLACK_S: Final = 5.0
# Of polls that share a transaction
_SHARED_S: Final = 0.1
_SHARED_BYTES: Final = 32 << 20
_QUICK_POLL_S: Final = 0.01  # a poll that took longer waited for its data


class Transactions:
    """The producer with this task's transactional id. Creating one fences every earlier one.

    Implements SourceWriter. A transaction is opened by the first write and never left empty.

    Effect on other readers: all connectors share the offsets topic, and every start reads it to its
    end, so a transaction that hangs there blocks every start. Transactions may last long (60 s,
    Kafka's default, so that a slow source or a briefly suspended machine is not a failure), but
    their offsets are queued only when all their records are acknowledged: a task holds the offsets
    topic for milliseconds, right before its commit. If a task is killed in these milliseconds, its
    relaunch aborts the transaction, or Kafka does at its timeout; readers that wait for that are
    only interrupted (`WorkerTopics`).

    After a failure: a fatal error, or a commit whose result Kafka does not report, ends the attempt
    without further calls to Kafka. The next attempt's `init_transactions` fences this producer and
    settles what it left open. Every call has a time limit, and a pause before a retry.

    `close` must end librdkafka's threads: left alone, they go on aborting once Kafka answers again,
    and then ask for a new epoch, with which Kafka (to 4.3) aborts the next attempt's transaction.
    So only this object refers to the producer; an exception's traceback, which may outlive the
    attempt in a cycle, must not.
    """

    atomic = True

    def __init__(self, setup: TaskSetup, metrics: TaskMetrics) -> None:
        properties = setup.transactional_producer()
        self._id = properties["transactional.id"]
        self._partitions = StickyPartitions()
        self._failures = SendFailures(self._partitions.fewer)
        self._producer: Producer = new_producer(
            properties, self._failures, self._failures.delivered, metrics
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
                now_s = time.monotonic()
                if now_s >= until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
                if now_s >= look_at:
                    look_at = now_s + (now_s - begin)
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
                function(max(deadline - time.monotonic(), _RETRY_S))
                return
            except RAISED as raised:
                error = error_in(raised)
                if not error.retriable() or time.monotonic() >= deadline:
                    raise self._failure(error) from raised
            time.sleep(_RETRY_S)

    def _failure(self, error: KafkaError | None) -> Exception:
        if error is not None:
            error = self._first(error)
            self._over = error.fatal() or (self._over and not error.txn_requires_abort())
            if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return ConnectorError(f"{reason(error)}. {missing_right(self._id)}")
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


class Boundary:
    """Decides when to commit: after each poll, and between. This one never does.

    `during_polls`: also while the task is busy.
    """

    during_polls = False

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        """Returns True to commit now the records that wait since `since` (monotonic seconds), after
        a poll that took `poll_s`; `empty` if it found nothing."""
        return False

    def commit_at(self, quiet_at: float) -> float | None:
        """Returns when to commit open records if no more follow until then; None if that is not for
        us to decide. From `quiet_at` on, the task has nothing at hand (both monotonic seconds)."""
        return None

    def restart(self) -> None:
        """Restarts the timer after a commit or an attempted commit."""


class PollBoundary(Boundary):
    """Commits whole polls. With `shared` False each has its own transaction."""

    during_polls = True

    def __init__(self, *, shared: bool) -> None:
        self._shared_s = _SHARED_S if shared else 0.0

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        return (
            empty
            or poll_s > _QUICK_POLL_S
            or writer.bytes >= _SHARED_BYTES
            or time.monotonic() - since >= self._shared_s
        )

    def commit_at(self, quiet_at: float) -> float | None:
        return quiet_at


class IntervalBoundary(Boundary):
    """Commits after a time since the last commit. Unlike Apache's, also while the source is idle:
    an open transaction would time out."""

    def __init__(self, interval_s: float, *, during_polls: bool) -> None:
        self.during_polls = during_polls
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        return time.monotonic() >= self._last + self._interval_s

    def commit_at(self, quiet_at: float) -> float | None:
        return self._last + self._interval_s

    def restart(self) -> None:
        self._last = time.monotonic()


class Ending(Enum):
    """The way in which a task wants its transaction to end."""

    COMMIT = "commit"
    ABORT = "abort"


class ConnectorBoundary(Boundary):
    """Commits when the task requests it: a `TransactionContext`."""

    def __init__(self) -> None:
        self._batch: Ending | None = None
        self._records: dict[int, tuple[SourceRecord, Ending]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commits at the end of the batch, or right after `record`."""
        self._request(record, Ending.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Aborts at the same points, dropping the records and keeping their offsets."""
        self._request(record, Ending.ABORT)

    def _request(self, record: SourceRecord | None, ending: Ending) -> None:
        if record is None:
            if self._batch not in (None, ending):
                raise ConnectorError(
                    "Connector requested both commit and abort of same transaction"
                )
            self._batch = ending
            return
        # kept with its record: an id alone could be reused for another record
        _, requested = self._records.setdefault(id(record), (record, ending))
        if requested is not ending:
            raise ConnectorError(
                "Connector requested both commit and abort of same record against topic/partition"
                f" {record.topic}/{'null' if record.partition is None else record.partition}"
            )

    @property
    def ends_within_batch(self) -> bool:
        """Returns True if the next batch ends transactions within itself."""
        return bool(self._records)

    def after(self, record: SourceRecord) -> Ending | None:
        """Returns what to do right after `record`."""
        _, ending = self._records.pop(id(record), (record, None))
        return ending

    def after_batch(self) -> Ending | None:
        """Returns what to do after the batch."""
        ending, self._batch = self._batch, None
        return ending


def boundary_of(setup: TaskSetup, *, moves_offsets: bool) -> Boundary:
    """Returns the boundary that the connector's config requests; without transactions, the flush
    interval.

    `moves_offsets`: the task is asked for offsets before each commit (KIP-910), so no commit may
    happen during a poll, and no poll may start while records wait for a commit.
    """
    if not setup.exactly_once:
        return IntervalBoundary(setup.flush_interval_s, during_polls=False)
    match setup.transaction_boundary:
        case "connector":
            return ConnectorBoundary()
        case "interval":
            return IntervalBoundary(setup.boundary_interval_s, during_polls=not moves_offsets)
        case _:
            return PollBoundary(shared=not moves_offsets)


class CommitTimer:
    """Commits open records while the next ones are polled and prepared.

    Quick polls share a transaction, so one may be open when the next poll starts. That poll may
    take any time, and so may preparing its records: transformations and converters, which are
    retried for `errors.retry.timeout`. If the transaction stayed open, readers would wait for its
    records. After `transaction.timeout.ms` Kafka would abort it, on every attempt.

    Its thread starts with the first transaction that is left open, and calls only the writer: the
    task's own thread alone calls the task. A poll that ends while it commits waits for the commit.
    """

    def __init__(
        self, writer: SourceWriter, boundary: Boundary, commit: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._boundary = boundary
        self._commit = commit
        self._busy = threading.Lock()  # held by the thread that may use the writer
        self._open = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._quiet_at = 0.0
        self._busy.acquire()

    @contextmanager
    def may_commit(self, quick_s: float) -> Iterator[None]:
        """Lets the thread commit while the block runs, which must not use the writer. More records
        are at hand if the block ends within `quick_s`.

        Raises the commit's error, even if the block raises another: the writer must no longer be
        used.
        """
        if not self._writer.open or not self._boundary.during_polls:
            yield
            return
        self._quiet_at = time.monotonic() + quick_s
        if not self._open.is_set():
            self._begin()
        self._busy.release()
        try:
            yield
        finally:
            self._busy.acquire()
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Ends the thread. Called from the task's thread, outside `may_commit`."""
        self._closed.set()
        self._open.set()
        self._busy.release()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._open.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="commit-timer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._open.wait() and not self._closed.wait(self._left_s()):
            with self._busy:
                if self._closed.is_set():
                    return
                if self._writer.open and self._left_s() == 0:
                    try:
                        self._commit()
                    except Exception as error:  # the task's thread raises it
                        self._error = error
                        return
                if not self._writer.open:
                    self._open.clear()

    def _left_s(self) -> float:
        at = self._boundary.commit_at(self._quiet_at)
        return 0 if at is None else max(at - time.monotonic(), 0)
