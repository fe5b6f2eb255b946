"""Runs a source task: polls, sends and commits, until the leader wants something else.

Exactly once unless that is disabled: records and the offset after them go in one transaction, under
an id that every attempt of the task shares. A start fences earlier attempts, then reads the offsets
that they committed. Only the newest attempt's records become visible. plain_writer.py describes the
mode without transactions.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
    RetryWait,
)
from connect_runtime.tasks.control.statuses import RepeatedErrors, StatusReporter, memory_reserve
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.kafka_failures import Interrupted, kafka_may_interrupt
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source.offsets import SourceTopics, TaskOffsets, Uncommitted, read_layers
from connect_runtime.tasks.source.pipeline import Polled, RecordPipeline
from connect_runtime.tasks.source.plain_writer import PlainWriter
from connect_runtime.tasks.source.transactions import (
    CommitTimer,
    ConnectorBoundary,
    Ending,
    Transactions,
    boundary_of,
)
from connect_runtime.tasks.source.writer import IdleClosingWriter, SourceWriter, TaskSuperseded
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0
_PAUSE_WAIT_S: Final = 0.5
# Polls and preparations that take longer do not delay earlier records.
_QUICK_POLL_S: Final = 0.02
_QUICK_PREPARING_S: Final = 0.1
_PAUSED_SHARE: Final = 0.5  # of a transaction's time; the rest is for ending it

_IDLE_SHARE: Final = 1 / 4
_SHORTEST_S: Final = 0.01
_LONGEST_S: Final = 1.0  # as Connect's file source
_TOGETHER_S: Final = 0.1  # of the clock that all processes share
_ROUNDING: Final = 1e-6
# Less than the half second that a poll may wait (`SourceTask.poll`), as clocks differ. Tasks that
# queue for longer than this ask 2.5 times a second at most.
_WAITED_S: Final = 0.4
# A poll that ended sooner neither waited nor did anything
_DID_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The runtime as the task may call it: a `SourceTaskContext`."""

    configs: Mapping[str, str]
    offset_storage_reader: OffsetStorageReader
    transaction_context: TransactionContext | None


def run_source(
    setup: TaskSetup,
    task: SourceTask,
    assignment: AttemptAssignment,
    reporter: StatusReporter,
    metrics: TaskMetrics,
) -> AttemptEnd:
    """Runs until the leader ends it. `assignment` has been read once already.

    Raises the error that failed the task; `Fenced` if a newer attempt took over; `Interrupted`.
    """
    metrics.begin("source")
    wait = RetryWait()
    policy, reporters = setup.error_policy, setup.log_reporters(metrics)
    errors = ErrorHandler(policy, reporters, wait, metrics)
    converters, chain = setup.converters, setup.chain
    if setup.exactly_once and (dropped := ", ".join(setup.dropped_overrides())):
        text = "Task %s: these settings have no effect with exactly-once support: %s"
        _log.warning(text, setup.id, dropped)

    def new_writer() -> SourceWriter:
        if setup.exactly_once:
            return Transactions(setup, metrics)
        return PlainWriter(setup, errors, metrics)

    worker_topics = WorkerTopics(setup)
    writer = IdleClosingWriter(
        new_writer, worker_topics.newest_state, metrics, closes=not _moves_offsets(task)
    )
    try:
        # If this attempt is late, starting fenced the newest one, so check again.
        end = worker_topics.read_assignment(assignment).end
        if end is not None:
            return end
        with kafka_may_interrupt():
            layers = read_layers(setup.source_clients, worker_topics.source_offsets)
        offsets = TaskOffsets(setup.id.connector, layers.topic, layers.merged)
        topics = SourceTopics(setup, layers)
        follower = AssignmentFollower(setup, assignment)
        wait.follow(follower)
        try:
            pipeline = RecordPipeline(converters, chain, errors)
            loop = _SourceLoop(setup, task, writer, offsets, topics, pipeline, reporter, metrics)
            return loop.run(follower)
        finally:
            follower.close()
            topics.close()
    finally:
        try:
            writer.close()
        except (Fenced, Interrupted, ConnectorError) as error:
            _log.debug("Closing the producer: %s", error)
        try:
            chain.close()
        except Exception as error:  # committed records stay
            _log.warning("Closing a transformation: %s", type(error).__name__)


def _moves_offsets(task: SourceTask) -> bool:
    """Returns True if the task may move its offsets while it is idle (KIP-910)."""
    return type(task).update_offsets is not SourceTask.update_offsets


class _SourceLoop:
    """One task between its start and its end."""

    def __init__(
        self,
        setup: TaskSetup,
        task: SourceTask,
        writer: SourceWriter,
        offsets: TaskOffsets,
        topics: SourceTopics,
        pipeline: RecordPipeline,
        reporter: StatusReporter,
        metrics: TaskMetrics,
    ) -> None:
        self._setup = setup
        self._task = task
        self._writer = writer
        self._offsets = offsets
        self._topics = topics
        self._pipeline = pipeline
        self._reporter = reporter
        self._metrics = metrics
        self._uncommitted = Uncommitted(str(setup.id), task, offsets, setup.text)
        self._moves_offsets = _moves_offsets(task)
        self._next_move = time.monotonic() + setup.flush_interval_s
        self._boundary = boundary_of(setup, moves_offsets=self._moves_offsets)
        # the task is not called: it is busy, or its thread is
        self._timer = CommitTimer(writer, self._boundary, partial(self._write, ask_task=False))
        self._state: State | None = None
        # The newest poll is to be repeated; a successful one was reported
        self._retries = False
        self._reported_poll = False
        self._started = False
        self._repeated = RepeatedErrors(
            f"Task {setup.id} polls again later", setup, metrics, self._report_error
        )
        self._idle = IdleWait(poll_waits=task.poll_waits)
        self._poll_s = 0.0

    def run(self, follower: AssignmentFollower) -> AttemptEnd:
        """Polls until the leader ends the attempt, then stops the task."""
        try:
            with memory_reserve():
                end = self._until_end(follower)
            if end is not AttemptEnd.SUPERSEDED:
                with suppress(TaskSuperseded):
                    self._commit_at_stop(_DRAIN_S if end is AttemptEnd.ORPHANED else None)
        except (Fenced, Interrupted):
            raise
        except Exception:
            self._save_after_failure()
            raise
        finally:
            self._timer.close()
            self._stop_task()
        if end is AttemptEnd.STOPPED:
            self._enter_state(State.UNASSIGNED)
        return end

    def _until_end(self, follower: AssignmentFollower) -> AttemptEnd:
        end: AttemptEnd | None = None
        while end is None:
            self._writer.serve()
            desired = follower.desired(self._wait_s())
            end = desired.end
            try:
                if desired is DesiredTaskState.RUN:
                    self._run_once()
                    if not self._retries and not self._reported_poll:
                        self._report_poll()
                elif desired is DesiredTaskState.PAUSE:
                    self._pause()
            except TaskSuperseded as superseded:
                end = superseded.end
        if end is AttemptEnd.SUPERSEDED:
            self._writer.abort()
        return end

    def _save_after_failure(self) -> None:
        """Writes offsets after a failure: records sent without a transaction stay."""
        if self._writer.atomic or not self._writer.open:
            return
        try:
            self._write(ask_task=False, limit_s=_DRAIN_S)
        except Exception as error:
            text = "Task %s: no offsets after its failure: %s"
            _log.warning(text, self._setup.id, self._setup.text(error))

    def _stop_task(self) -> None:
        if not self._started:
            return
        self._uncommitted.run_commit_hooks()  # for what the timer committed before a failure
        try:
            self._task.stop()
        except Exception as error:  # committed records stay
            text = "Task %s could not stop cleanly: %s"
            _log.warning(text, self._setup.id, self._setup.text(error))

    def _wait_s(self) -> float:
        if self._state is State.PAUSED:
            return _PAUSE_WAIT_S
        wait_s = self._idle.seconds
        if not wait_s:
            return 0.0
        now_s, commit_at = time.monotonic(), None
        if self._writer.open or self._uncommitted.waiting:
            commit_at = self._boundary.commit_at(now_s)
        elif self._moves_offsets and not isinstance(self._boundary, ConnectorBoundary):
            commit_at = self._next_move
        return wait_s if commit_at is None else max(0.0, min(wait_s, commit_at - now_s))

    def _run_once(self) -> None:
        if not self._started:
            self._start()
        if self._state is not State.RUNNING:
            self._enter_state(State.RUNNING)
        polled = self._poll()
        if polled:
            self._metrics.polled(len(polled), self._poll_s)
        self._uncommitted.run_commit_hooks()  # the timer calls none
        self._idle.polled(has_records=bool(polled), took_s=self._poll_s)
        boundary = self._boundary
        try:
            if isinstance(boundary, ConnectorBoundary):
                self._send_until_ending(boundary, polled)
                return
            if polled:
                self._send(polled)
        except RetriesEnded:  # what was not sent is polled again by the next attempt
            self._retries = True
            self._moves_offsets = False  # the task might move them past it (KIP-910)
            if isinstance(boundary, ConnectorBoundary):
                boundary.after_batch()  # a transaction that lacks it does not end here
            return
        if self._writer.open or self._uncommitted.waiting:
            if boundary.due(self._writer, self._since, self._poll_s, empty=not polled):
                self._commit()
        elif self._moves_offsets and time.monotonic() >= self._next_move:
            self._commit()

    @property
    def _since(self) -> float:
        """Returns since when (monotonic seconds) something waits for a commit."""
        return self._writer.opened_at if self._writer.open else self._uncommitted.since

    def _poll(self) -> Polled:
        begin, self._retries = time.monotonic(), False
        try:
            with self._timer.may_commit(_QUICK_POLL_S):
                polled: Polled = self._task.poll() or ()
        except RetriableError as error:
            self._retries = True
            self._repeated.failed(error)
            return ()
        finally:
            self._poll_s = time.monotonic() - begin
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
        """Sends the records that the chain leaves. Those that it drops count as well: their offsets
        are committed, and their hooks called."""
        # a record may be tried again for any time, and so may a topic be created
        with self._timer.may_commit(_QUICK_PREPARING_S):
            sendings = self._pipeline.sendings(polled)
            for sending in sendings:
                self._topics.prepare(sending.topic)
        for sending in sendings:
            self._writer.send(sending.topic, sending.messages, sending.partition)
            self._metrics.sent(len(sending.messages.records))
            self._uncommitted.topics.add(sending.topic)
        self._uncommitted.add(polled)

    def _send_until_ending(self, boundary: ConnectorBoundary, polled: Polled) -> None:
        """Sends polled records, ending transactions where the task requested it."""
        if boundary.ends_within_batch and not isinstance(polled, SourceBatch):
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
        """Commits sent records with the offsets after them, and calls the task's hooks."""
        ask_task = self._moves_offsets and self._started
        self._next_move = time.monotonic() + self._setup.flush_interval_s
        self._write(ask_task=ask_task, limit_s=limit_s)
        self._uncommitted.run_commit_hooks()

    def _write(self, *, ask_task: bool, limit_s: float | None = None) -> None:
        records = self._uncommitted.offsets(ask_task=ask_task)
        if not self._writer.open and not records:
            if self._uncommitted.waiting:  # records without offsets that the chain dropped
                self._uncommitted.committed(())
            return
        self._topics.before_commit(records)
        begin = time.monotonic()
        done = self._writer.commit(records, limit_s)
        self._metrics.wrote(time.monotonic() - begin, done=done)
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
            self._enter_state(State.PAUSED)
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
        record = self._reporter.record(State.RUNNING, trace, polled=self._reported_poll)
        self._reporter.write(record)

    def _enter_state(self, state: State) -> None:
        self._reporter.write(self._reporter.record(state))
        self._repeated.forget()
        self._metrics.in_state(state)
        self._state = state
        self._reported_poll = False

    def _report_poll(self) -> None:
        """Reports the first successful poll since the task runs: an apply takes it for health."""
        self._reporter.write(self._reporter.record(State.RUNNING, polled=True))
        self._reported_poll = True


class IdleWait:
    """Decides how long a task waits before it polls again after an empty poll.

    The wait grows with the silence: a record is delayed by at most a quarter of the silence before
    it, and an idle task polls once a second; the time of the poll is part of the wait. A poll that
    waited itself is repeated at once: one of a task with `poll_waits` (`SourceTask.poll_waits`), or
    one of about the length that a poll may wait for. Another long one may have queued at a database
    behind other tasks, which would then all ask without a pause, for ever.

    Idle tasks of a machine wake up together: it costs far more to take the processor from its rest
    for each of a thousand tasks.
    """

    def __init__(self, *, poll_waits: bool) -> None:
        self._records_at = time.monotonic()
        self._wait_s = 0.0
        self._waited_s = _DID_S if poll_waits else _WAITED_S

    def polled(self, *, has_records: bool, took_s: float) -> None:
        """Notes a poll that has just ended."""
        now_s = time.monotonic()
        began_s = now_s - took_s
        if has_records:
            self._records_at = now_s
        if has_records or took_s >= self._waited_s:
            self._wait_s = 0.0
        else:
            self._wait_s = max(0.0, idle_wait_s(began_s - self._records_at, began_s) - took_s)

    @property
    def seconds(self) -> float:
        """Returns how long to wait before the next poll."""
        return self._wait_s


def idle_wait_s(silence_s: float, now_s: float) -> float:
    """Returns the wait after an empty poll that began at `now_s`, `silence_s` after the last
    records. The longest one ends at a full tenth of a second of that clock, within a second."""
    tenths = math.floor((now_s + _LONGEST_S) / _TOGETHER_S + _ROUNDING)
    return min(max(silence_s * _IDLE_SHARE, _SHORTEST_S), tenths * _TOGETHER_S - now_s)
