"""Runs a source task: polls, sends, commits, until told to end.

Exactly once unless that is disabled: records and the offset after them go in one transaction, under
an id that every attempt of the task shares. A start fences earlier attempts, then reads the offsets
that they committed. Only the newest attempt's records become visible. plain_writer.py describes the
mode without transactions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import (
    ConnectorError,
    OffsetStorageReader,
    RetriableError,
    SourceBatch,
    SourceTask,
    TransactionContext,
)
from connect_runtime.errors.handler import ErrorHandler, RetriesEnded
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import Fenced
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.boundaries import ConnectorBoundary, Ending, boundary_of
from connect_runtime.tasks.commit_timer import CommitTimer
from connect_runtime.tasks.control import Orders, Wanted
from connect_runtime.tasks.idle_wait import IdleWait
from connect_runtime.tasks.interrupted import Interrupted, kafka_may_interrupt
from connect_runtime.tasks.launch import Ended
from connect_runtime.tasks.memory_reserve import memory_reserve
from connect_runtime.tasks.offset_layers import read_layers
from connect_runtime.tasks.plain_writer import PlainWriter
from connect_runtime.tasks.repeated_errors import RepeatedErrors
from connect_runtime.tasks.resting_writer import NotWanted, RestingWriter
from connect_runtime.tasks.retry_wait import RetryWait
from connect_runtime.tasks.source_batches import Outbound, Polled
from connect_runtime.tasks.source_topics import SourceTopics
from connect_runtime.tasks.source_writer import SourceWriter
from connect_runtime.tasks.status import Reporter
from connect_runtime.tasks.task_offsets import TaskOffsets
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.transactions import Transactions
from connect_runtime.tasks.uncommitted import Uncommitted
from connect_runtime.tasks.worker_topics import (
    OrdersFollower,
    TopicsReader,
    follow_orders,
    open_reader,
)
from connect_runtime.transforms.chain import Chain

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0
_PAUSE_WAIT_S: Final = 0.5
# What takes longer does not delay earlier records.
_QUICK_POLL_S: Final = 0.02
_QUICK_PREPARING_S: Final = 0.1
_PAUSED_SHARE: Final = 0.5  # of a transaction's time; the rest is for ending it


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the task may call: a `SourceTaskContext`."""

    configs: Mapping[str, str]
    offset_storage_reader: OffsetStorageReader
    transaction_context: TransactionContext | None


def run_source(
    setup: TaskSetup,
    task: SourceTask,
    reader: TopicsReader,
    orders: Orders,
    reporter: Reporter,
    orphaned: Callable[[], bool],
    metrics: TaskMetrics,
) -> Ended:
    """Runs until told to end. `orders` have been read once already.

    Raises the error that failed the task; `Fenced` if a newer attempt took over; `Interrupted`.
    """
    metrics.begin("source")
    wait = RetryWait()
    policy, reporters = setup.error_policy, setup.log_reporters(metrics)
    errors = ErrorHandler(policy, reporters, wait, metrics)
    converters, chain = setup.converters, setup.chain
    _name_dropped_overrides(setup)
    writer = RestingWriter(
        lambda: _writer(setup, errors, metrics),
        lambda: _newest(setup),
        metrics,
        rests=not _moves_offsets(task),
    )
    try:
        # If this attempt is late, starting fenced the newest one, so check again.
        wanted = reader.orders(orders)
        if wanted in (Wanted.STOP, Wanted.NOTHING):
            return Ended.STOPPED if wanted is Wanted.STOP else Ended.SUPERSEDED
        with kafka_may_interrupt():
            layers = read_layers(setup.source_clients, reader.source_offsets)
        reader.close()
        offsets = TaskOffsets(setup.id.connector, layers.topic, layers.merged)
        topics = SourceTopics(setup, layers)
        control = follow_orders(setup, orders)
        wait.follow(control, orphaned)
        try:
            outbound = Outbound(converters, chain, errors)
            loop = _Loop(setup, task, writer, offsets, topics, outbound, reporter, metrics)
            return loop.run(control, orphaned)
        finally:
            control.close()
            topics.close()
    finally:
        _close(writer)
        _close_chain(chain)


def _writer(setup: TaskSetup, errors: ErrorHandler, metrics: TaskMetrics) -> SourceWriter:
    if not setup.exactly_once:
        return PlainWriter(setup, errors, metrics)
    return Transactions(setup, metrics)


def _moves_offsets(task: SourceTask) -> bool:
    """Whether the task may move its offsets while it is idle (KIP-910)."""
    return type(task).update_offsets is not SourceTask.update_offsets


def _name_dropped_overrides(setup: TaskSetup) -> None:
    dropped = setup.dropped_overrides()
    if dropped and setup.exactly_once:
        _log.warning(
            "Task %s: these settings have no effect with exactly-once support: %s",
            setup.id,
            ", ".join(dropped),
        )


def _newest(setup: TaskSetup) -> Wanted:
    """Reads what the leader wants to the end, whatever has been read before."""
    reader = open_reader(setup)
    try:
        return reader.orders(Orders(setup))
    finally:
        reader.close()


def _close(writer: SourceWriter) -> None:
    try:
        writer.close()
    except (Fenced, Interrupted, ConnectorError) as error:
        _log.debug("Closing the producer: %s", error)


def _close_chain(chain: Chain) -> None:
    try:
        chain.close()
    except Exception as error:  # committed records stay, whatever a transformation raises
        _log.warning("Closing a transformation: %s", type(error).__name__)


class _Loop:
    """One task between its start and its end."""

    def __init__(
        self,
        setup: TaskSetup,
        task: SourceTask,
        writer: SourceWriter,
        offsets: TaskOffsets,
        topics: SourceTopics,
        outbound: Outbound,
        reporter: Reporter,
        metrics: TaskMetrics,
    ) -> None:
        self._setup = setup
        self._task = task
        self._writer = writer
        self._offsets = offsets
        self._topics = topics
        self._outbound = outbound
        self._reporter = reporter
        self._metrics = metrics
        self._uncommitted = Uncommitted(str(setup.id), task, offsets, setup.text)
        self._asks = _moves_offsets(task)
        self._ask_every_s = setup.flush_interval_s
        self._next_asking = time.monotonic() + self._ask_every_s
        self._boundary = boundary_of(setup, asked=self._asks)
        self._timer = CommitTimer(writer, self._boundary, self._commit_meanwhile)
        self._state: State | None = None
        # Whether the newest poll is to be repeated, and whether a successful one was reported
        self._retries = False
        self._said_polled = False
        self._started = False
        self._repeated = RepeatedErrors(
            f"Task {setup.id} polls again later", setup, metrics, self._report_error
        )
        self._idle = IdleWait(poll_waits=task.poll_waits)
        self._poll_s = 0.0

    def run(self, control: OrdersFollower, orphaned: Callable[[], bool]) -> Ended:
        """Polls until told to end, then stops the task."""
        try:
            with memory_reserve():
                ended = self._until_told(control, orphaned)
            if ended is not Ended.SUPERSEDED:
                with suppress(NotWanted):
                    self._commit_at_stop(_DRAIN_S if ended is Ended.ORPHANED else None)
        except (Fenced, Interrupted):
            raise
        except Exception:
            self._save_after_failure()
            raise
        finally:
            self._timer.close()
            self._stop_task()
        if ended is Ended.STOPPED:
            self._say(State.UNASSIGNED)
        return ended

    def _until_told(self, control: OrdersFollower, orphaned: Callable[[], bool]) -> Ended:
        while True:
            self._writer.serve()
            wanted = control.wanted(self._wait_s())
            if orphaned():
                return Ended.ORPHANED
            try:
                if wanted is Wanted.RUN:
                    self._run_once()
                    if not self._retries and not self._said_polled:
                        self._say_polled()
                elif wanted is Wanted.PAUSE:
                    self._pause()
                else:
                    return self._ended(wanted)
            except NotWanted as late:
                return self._ended(late.wanted)

    def _ended(self, wanted: Wanted) -> Ended:
        if wanted is Wanted.STOP:
            return Ended.STOPPED
        self._writer.abort()
        return Ended.SUPERSEDED

    def _save_after_failure(self) -> None:
        """Writes offsets after a failure: records sent without a transaction stay."""
        if self._writer.atomic or not self._writer.open:
            return
        try:
            self._write(asked=False, limit_s=_DRAIN_S)
        except Exception as error:
            why = self._setup.text(error)
            _log.warning("Task %s: no offsets after its failure: %s", self._setup.id, why)

    def _stop_task(self) -> None:
        if not self._started:
            return
        self._uncommitted.tell()  # what a commit meanwhile wrote before a failure
        try:
            self._task.stop()
        except Exception as error:  # committed records stay, whatever stop raises
            why = self._setup.text(error)
            _log.warning("Task %s could not stop cleanly: %s", self._setup.id, why)

    def _wait_s(self) -> float:
        if self._state is State.PAUSED:
            return _PAUSE_WAIT_S
        wait_s = self._idle.seconds
        if not wait_s:
            return 0.0
        now, commit_at = time.monotonic(), None
        if self._writer.open or self._uncommitted.waiting:
            commit_at = self._boundary.commit_at(now)
        elif self._asks and not isinstance(self._boundary, ConnectorBoundary):
            commit_at = self._next_asking
        return wait_s if commit_at is None else max(0.0, min(wait_s, commit_at - now))

    def _run_once(self) -> None:
        if not self._started:
            self._start()
        if self._state is not State.RUNNING:
            self._say(State.RUNNING)
        polled = self._poll()
        if polled:
            self._metrics.polled(len(polled), self._poll_s)
        self._uncommitted.tell()  # a commit meanwhile calls no hooks
        self._idle.polled(found=bool(polled), took_s=self._poll_s)
        boundary = self._boundary
        try:
            if isinstance(boundary, ConnectorBoundary):
                self._send_until_asked(boundary, polled)
                return
            if polled:
                self._send(polled)
        except RetriesEnded:  # what was not sent is polled again by the next attempt
            self._retries = True
            self._asks = False  # the task might move offsets past it (KIP-910)
            if isinstance(boundary, ConnectorBoundary):
                boundary.after_batch()  # a transaction that lacks it does not end here
            return
        if self._writer.open or self._uncommitted.waiting:
            if boundary.due(self._writer, self._since, self._poll_s, empty=not polled):
                self._commit()
        elif self._asks and time.monotonic() >= self._next_asking:
            self._commit()

    @property
    def _since(self) -> float:
        """Returns since when (monotonic seconds) something waits for a commit."""
        return self._writer.opened_at if self._writer.open else self._uncommitted.since

    def _poll(self) -> Polled:
        before, self._retries = time.monotonic(), False
        try:
            with self._timer.may_commit(_QUICK_POLL_S):
                polled: Polled = self._task.poll() or ()
        except RetriableError as error:
            self._retries = True
            self._repeated.failed(error)
            return ()
        finally:
            self._poll_s = time.monotonic() - before
        self._repeated.succeeded()
        return polled

    def _start(self) -> None:
        boundary = self._boundary
        context = SourceContext(
            configs=self._setup.config,
            offset_storage_reader=self._offsets,
            transaction_context=boundary if isinstance(boundary, ConnectorBoundary) else None,
        )
        self._started = True
        self._task.initialize(context)
        self._task.start(dict(self._setup.config))

    def _send(self, polled: Polled) -> None:
        """Sends what the chain leaves. What it drops counts like the rest: its offsets are
        committed, and the task is told of it."""
        # a record may be tried again for any time, and so may a topic be created
        with self._timer.may_commit(_QUICK_PREPARING_S):
            sendings = self._outbound.sendings(polled)
            for sending in sendings:
                self._topics.prepare(sending.topic)
        for sending in sendings:
            self._writer.send(sending.topic, sending.messages, sending.partition)
            self._metrics.sent(len(sending.messages.each))
            self._uncommitted.topics.add(sending.topic)
        self._uncommitted.add(polled)

    def _send_until_asked(self, boundary: ConnectorBoundary, polled: Polled) -> None:
        """Sends polled records, ending transactions where the task requested it."""
        if boundary.asks_for_records and not isinstance(polled, SourceBatch):
            begin = 0
            for end, record in enumerate(polled, start=1):
                ending = boundary.after(record)
                if ending is not None:
                    self._send(polled[begin:end])
                    begin = end
                    self._end(ending)
            polled = polled[begin:]
        self._send(polled)
        self._end(boundary.after_batch())

    def _end(self, ending: Ending | None) -> None:
        if ending is Ending.ABORT:
            # Their offsets are committed: aborted records are skipped, not polled again.
            self._writer.abort()
            self._uncommitted.aborted()
            self._metrics.aborted()
        if ending is not None:
            self._commit()

    def _commit(self, limit_s: float | None = None) -> None:
        """Commits sent records with the offsets after them, and tells the task."""
        asked = self._asks and self._started
        self._next_asking = time.monotonic() + self._ask_every_s
        self._write(asked=asked, limit_s=limit_s)
        self._uncommitted.tell()

    def _commit_meanwhile(self) -> None:
        """Commits without calling the task: it is busy, or its thread is."""
        self._write(asked=False)

    def _write(self, *, asked: bool, limit_s: float | None = None) -> None:
        records = self._uncommitted.offsets(asked=asked)
        if not self._writer.open and not records:
            if self._uncommitted.waiting:  # records without offsets that the chain dropped
                self._uncommitted.committed(())
            return
        self._topics.before_commit(records)
        before = time.monotonic()
        done = self._writer.commit(records, limit_s)
        self._metrics.wrote(time.monotonic() - before, done=done)
        self._boundary.restart()
        if done:
            self._reporter.write(*self._reporter.new_topics(self._uncommitted.topics))
            self._uncommitted.committed(records)
            self._topics.after_commit(records)

    def _commit_at_stop(self, limit_s: float | None) -> None:
        boundary = self._boundary
        if not isinstance(boundary, ConnectorBoundary) or boundary.after_batch() is Ending.COMMIT:
            self._commit(limit_s)
        else:
            self._writer.abort()

    def _pause(self) -> None:
        boundary = self._boundary
        if self._state is not State.PAUSED:
            if not isinstance(boundary, ConnectorBoundary):
                self._commit()
            self._say(State.PAUSED)
        elif not self._writer.open:
            return
        elif not isinstance(boundary, ConnectorBoundary):
            # the commit before the pause did not succeed
            if boundary.due(self._writer, self._since, 0.0, empty=True):
                self._commit()
        elif self._writer.expires_s is not None:
            # Only the task may end its transaction, and it is not called while paused.
            open_s = time.monotonic() - self._writer.opened_at
            if open_s > self._writer.expires_s * _PAUSED_SHARE:
                self._writer.abort()
                raise Interrupted(
                    "The task was paused within a transaction of its own, which would soon have"
                    " expired. It was aborted; the next attempt begins after the last commit."
                )

    def _report_error(self, trace: str | None) -> None:
        """Reports the error of a poll that is repeated, or None once one succeeded."""
        record = self._reporter.record(State.RUNNING, trace, polled=self._said_polled)
        self._reporter.write(record)

    def _say(self, state: State) -> None:
        self._reporter.write(self._reporter.record(state))
        self._repeated.forget()
        self._metrics.in_state(state)
        self._state = state
        self._said_polled = False

    def _say_polled(self) -> None:
        """Reports the first successful poll since the task runs: an apply takes it for health."""
        self._reporter.write(self._reporter.record(State.RUNNING, polled=True))
        self._said_polled = True
