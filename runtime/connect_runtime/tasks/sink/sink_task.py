"""Runs a sink task: at least once, offsets committed only after the task has flushed.

The task gets batches in order; processed offsets are committed at the worker's interval. Nothing
waits for the answers, except at the end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from confluent_kafka import KafkaError

from connect_runtime.api import (
    ConnectorError,
    ErrantRecordReporter,
    RetriableError,
    SinkTask,
    TopicPartition,
)
from connect_runtime.errors.handler import RetriesEnded
from connect_runtime.kafka.errors import reason
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
    RetryWait,
)
from connect_runtime.tasks.control.statuses import RepeatedErrors, StatusReporter, memory_reserve
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.sink.consumer import SinkConsumer
from connect_runtime.tasks.sink.decoder import Decoder
from connect_runtime.tasks.sink.errors import SinkErrors
from connect_runtime.tasks.sink.offsets import PutBatch, ReadBatch, SinkOffsets
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

_READ_S: Final = 0.2  # how long to wait for records; also the longest delay of a stop
_IDLE_S: Final = 1.0  # how long after their assignment partitions without records count as read
_RETRY_S: Final = 1.0
_REPORTS_WAIT: Final = "Kafka has not taken all reports of failed records yet"


def run_sink(
    setup: TaskSetup,
    task: SinkTask,
    assignment: AttemptAssignment,
    reporter: StatusReporter,
    metrics: TaskMetrics,
) -> AttemptEnd:
    """Runs until the leader ends it. Raises the error that failed the task."""
    metrics.begin("sink")
    follower = AssignmentFollower(setup, assignment)
    try:
        return _SinkLoop(setup, task, reporter, metrics).run(follower)
    finally:
        follower.close()


class _SinkLoop:
    """One task between its start and its end; also its `SinkTaskContext`."""

    def __init__(
        self, setup: TaskSetup, task: SinkTask, reporter: StatusReporter, metrics: TaskMetrics
    ) -> None:
        self._setup = setup
        self._task = task
        self._reporter = reporter
        self._metrics = metrics
        self._wait = RetryWait()
        converters = setup.converters
        self._errors = SinkErrors(setup, self._wait, metrics)
        self._chain = setup.chain
        self._decoder = Decoder(converters, self._chain, self._errors.handler)
        self._offsets = SinkOffsets()
        self._started = False
        self._consumer: SinkConsumer | None = None
        self._state: State | None = None
        # A successful poll was reported; since when none brought records
        self._reported_poll = False
        self._idle_since: float | None = None
        repeated = partial(RepeatedErrors, setup=setup, metrics=metrics, report=self._report_error)
        self._repeated = repeated(f"Task {setup.id} puts the same records again")
        self._unflushed = repeated(f"Task {setup.id} could not flush, and reads again")
        self._pending: PutBatch | None = None
        self._retry_at = 0.0  # of the pending batch
        self._paused: set[TopicPartition] = set()  # by the task itself
        self._timeout_s: float | None = None
        self._interval_s = setup.flush_interval_s
        self._patience_s = setup.flush_timeout_s
        self._next_commit = time.monotonic() + self._interval_s

    # calls from the task

    @property
    def configs(self) -> Mapping[str, str]:
        return self._setup.config

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._offsets.assigned)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._offsets.request_rewinds(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000

    def pause(self, *partitions: TopicPartition) -> None:
        self._check_assigned(partitions, "pause")
        self._paused.update(partitions)
        self._kafka.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._check_assigned(partitions, "resume")
        self._paused.difference_update(partitions)
        if self._state is State.RUNNING and self._pending is None:
            self._kafka.resume(partitions)

    def _check_assigned(self, partitions: Iterable[TopicPartition], verb: str) -> None:
        if self._consumer is None or not self._offsets.assigned.issuperset(partitions):
            raise ConnectorError(
                f"SinkTasks may not {verb} partitions that are not currently assigned to them."
            )

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._errors.reporter

    def request_commit(self) -> None:
        self._next_commit = 0.0

    # the loop

    @property
    def _kafka(self) -> SinkConsumer:
        assert self._consumer is not None
        return self._consumer

    def run(self, follower: AssignmentFollower) -> AttemptEnd:
        """Puts batches until the leader ends the attempt, then commits, leaves the group and stops
        the task."""
        self._wait.follow(follower)
        try:
            with memory_reserve():
                end = self._until_end(follower)
            self._finish(commit=end is not AttemptEnd.SUPERSEDED)
        except BaseException:  # also SystemExit, and asyncio's CancelledError
            # as Connect does: records that the task took before it failed need not be redelivered
            self._finish(commit=True)
            raise
        finally:
            self._close()
        if end is AttemptEnd.STOPPED:
            self._reporter.write(self._reporter.record(State.UNASSIGNED))
        return end

    def _until_end(self, follower: AssignmentFollower) -> AttemptEnd:
        while True:
            desired = follower.desired(0.0 if self._started else _READ_S)
            if desired.end is not None:
                return desired.end
            runs = desired is DesiredTaskState.RUN
            if runs and not self._started:
                self._start()
            self._enter_state(State.RUNNING if runs else State.PAUSED)
            if self._started:
                self._once()

    def _start(self) -> None:
        self._started = True
        self._task.initialize(self)
        self._task.start(dict(self._setup.config))
        self._consumer = SinkConsumer(
            self._setup,
            gained=self._on_gained,
            settled=self._on_settled,
            revoked=partial(self._on_revoked, commit=True),
            lost=partial(self._on_revoked, commit=False),
            answered=self._on_answered,
            statistics=partial(self._metrics.client, "consumer"),
        )

    def _enter_state(self, state: State) -> None:
        """Pauses or resumes all partitions for a new state, and reports it."""
        if state is self._state:
            return
        first, self._state = self._state is None, state
        if self._consumer is not None and not first:
            if state is State.PAUSED:
                self._kafka.pause(self._offsets.assigned)
                self.request_commit()
            elif self._pending is None:
                self._unpause()
        self._reporter.write(self._reporter.record(state))
        self._forget_errors()
        self._metrics.in_state(state)
        self._reported_poll, self._idle_since = False, None

    def _report_error(self, trace: str | None) -> None:
        """Reports the error of a put or flush that is repeated, or None once one succeeded."""
        if self._state is State.RUNNING:
            record = self._reporter.record(State.RUNNING, trace, polled=self._reported_poll)
            self._reporter.write(record)
        if trace is None:
            self._forget_errors()

    def _forget_errors(self) -> None:
        """Reports errors again once a call fails: the status has none."""
        self._repeated.forget()
        self._unflushed.forget()

    def _after_put(self, *, records: bool) -> None:
        """Reports the first successful poll since the task runs: an apply takes it for health. One
        without records counts once none came for a while: they may be on their way."""
        if self._reported_poll or self._state is not State.RUNNING or not self._offsets.assigned:
            return
        now_s = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now_s
        if records or now_s - self._idle_since >= _IDLE_S:
            self._reporter.write(self._reporter.record(State.RUNNING, polled=True))
            self._reported_poll = True
            self._forget_errors()

    def _once(self) -> None:
        """Commits if it is time, reads, and puts."""
        if self._pending is None:  # else the retried batch would come after them
            self._kafka.seek(self._offsets.take_rewinds(self._offsets.assigned))
            self._offsets.forget_rewinds()
        now_s = time.monotonic()
        if self._offsets.is_overdue(now_s, self._patience_s):
            _log.warning("Task %s waits no longer for its offset commit", self._setup.id)
            self._metrics.commit_skipped()
        if now_s >= self._next_commit and not self._offsets.in_flight:
            self._next_commit = now_s + self._interval_s
            self._commit()
        batch = self._kafka.read(self._read_s())
        if batch.messages:
            self._metrics.read(len(batch.messages))
            topics = {partition.topic for partition in batch.positions}
            self._reporter.write(*self._reporter.new_topics(topics))
        with suppress(RetriesEnded):  # what was read is not delivered, so it will be read again
            self._deliver(batch)

    def _deliver(self, batch: ReadBatch) -> None:
        ready = PutBatch(self._decoder.batch(batch.messages), batch.positions)
        if self._pending is None:
            self._put(ready)
            return
        # everything is paused until the retry, so nothing should have been read
        self._pending = self._pending.then(ready)
        if time.monotonic() >= self._retry_at:
            self._put(self._pending)

    def _read_s(self) -> float:
        """Returns how long to wait for records: short enough to see a stop in time."""
        now_s = time.monotonic()
        timeout_s, self._timeout_s = self._timeout_s, None
        until = (
            self._retry_at
            if self._pending is not None
            else now_s + (_READ_S if timeout_s is None else timeout_s)
        )
        if not self._offsets.in_flight:  # else the next commit waits for this one's answer
            until = min(until, self._next_commit)
        return max(0.0, min(_READ_S, until - now_s))

    def _put(self, ready: PutBatch) -> None:
        begin = time.monotonic()
        try:
            self._task.put(ready.records)
            self._errors.check_put()
        except RetriableError as error:
            self._repeated.failed(error)
            if self._pending is None:
                self._kafka.pause(self._offsets.assigned)
            self._pending = ready
            wait_s, self._timeout_s = self._timeout_s, None
            self._retry_at = time.monotonic() + (_RETRY_S if wait_s is None else wait_s)
            return
        self._repeated.succeeded()
        if ready.positions:
            self._metrics.put(len(ready.records), time.monotonic() - begin)
        self._offsets.deliver(ready.positions)
        self._note_offsets()
        self._set_pending(None)
        self._after_put(records=bool(ready.positions))

    def _set_pending(self, batch: PutBatch | None) -> None:
        """Sets the batch to retry; without one, all partitions are read."""
        was_pending = self._pending is not None
        self._pending = batch if batch and len(batch.records) else None
        if was_pending and self._pending is None:
            self._unpause()

    def _drop_pending(self, partitions: Collection[TopicPartition]) -> None:
        """Drops pending records of these partitions; they are put only if they are read again."""
        if self._pending is not None:
            self._set_pending(self._pending.without(partitions))

    def _unpause(self) -> None:
        """Resumes all partitions that neither the user nor the task has paused."""
        if self._state is State.RUNNING:
            self._kafka.resume(self._offsets.assigned - self._paused)

    def _note_offsets(self) -> None:
        offsets = self._offsets
        self._metrics.owns(partitions=len(offsets.assigned), uncommitted=offsets.uncommitted)

    # offsets

    def _commit(self) -> None:
        """Lets the task flush, and commits the offsets that it allows. Records that it cannot flush
        are read again."""
        current = self._offsets.current(self._offsets.assigned)
        if not current:
            return
        allowed = self._flush(current)
        if allowed is None:
            self._drop_pending(self._offsets.assigned)
            self._offsets.rewind(self._offsets.assigned)
            self._kafka.seek(self._offsets.take_rewinds(self._offsets.assigned))
        elif self._reports_kept():
            self._send(self._offsets.committable(current, allowed))

    def _flush(self, current: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Returns the offsets that the task allows to commit, or None if it could not flush. Raises
        ConnectorError if it returned no offsets, such as None, by mistake."""
        try:
            allowed = self._task.pre_commit(dict(current))
        except Exception as error:
            self._unflushed.failed(error)
            return None
        self._unflushed.succeeded()
        if not isinstance(allowed, Mapping):
            raise ConnectorError(
                f"pre_commit of {type(self._task).__name__} must return the offsets that may be"
                f" committed, by partition, but it returned a {type(allowed).__name__}"
            )
        self._offsets.flushed(current, allowed)
        self._note_offsets()
        return allowed

    def _reports_kept(self) -> bool:
        """Returns True if offsets may be committed: Kafka has all reports, also those of the flush.
        Raises ConnectorError if Kafka refused one."""
        complete = self._errors.wait(self._patience_s)
        if not complete:
            _log.warning("Task %s commits no offsets: %s", self._setup.id, _REPORTS_WAIT)
        return complete

    def _send(self, offsets: Mapping[TopicPartition, int]) -> None:
        if offsets:
            self._offsets.sent(offsets, time.monotonic())
            self._metrics.commit_sent()
            self._kafka.commit(offsets)

    def _on_answered(
        self,
        offsets: Mapping[TopicPartition, int],
        accepted: Collection[TopicPartition],
        error: KafkaError | None,
    ) -> None:
        seconds = self._offsets.waited_s(time.monotonic())
        self._metrics.commit_answered(seconds, done=error is None)
        self._offsets.answered(offsets, accepted)
        self._note_offsets()
        if error is not None:
            text = "Task %s could not commit its offsets: %s"
            _log.warning(text, self._setup.id, reason(error))

    # rebalances, called from within read

    def _on_gained(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        starts = self._kafka.starts(partitions)
        self._offsets.gain(starts)
        self._idle_since = None
        self._task.open(list(partitions))
        return starts | self._offsets.take_rewinds(partitions)

    def _on_settled(self, partitions: list[TopicPartition]) -> None:
        everything = self._state is State.PAUSED or self._pending is not None
        self._kafka.pause(p for p in partitions if everything or p in self._paused)

    def _on_revoked(self, partitions: list[TopicPartition], *, commit: bool) -> None:
        try:
            self._give_up(partitions, commit=commit)
        finally:
            self._offsets.lose(partitions)
            self._paused.difference_update(partitions)
            self._drop_pending(partitions)

    def _give_up(self, partitions: list[TopicPartition], *, commit: bool) -> None:
        """Flushes, closes and commits revoked partitions. Raises what `close` raises, and
        ConnectorError if Kafka refused a report.

        After a failed flush the records are redelivered: to the next owner, and the other
        partitions' here. Flushed offsets are safe, so they are committed even if `close` raises.
        """
        current = self._offsets.current(partitions)
        allowed: Mapping[TopicPartition, int] = {}
        try:
            if commit and current:
                flushed = self._flush(current)
                if flushed is None:  # it may have dropped records of other partitions, too
                    self._offsets.rewind(self._offsets.assigned.difference(partitions))
                elif self._reports_kept():
                    allowed = flushed
        finally:
            try:
                self._task.close(list(partitions))
            finally:
                self._send(self._offsets.committable(current, allowed))

    # the end

    def _finish(self, *, commit: bool) -> None:
        """Gives up all partitions and waits for the commit. Failures are only logged."""
        partitions = sorted(self._offsets.assigned)
        if not partitions:
            return
        self._try(partial(self._give_up, partitions, commit=commit), "close cleanly")
        if not self._kafka.wait(lambda: not self._offsets.in_flight, self._patience_s):
            _log.warning("Task %s waits no longer for its last offset commit", self._setup.id)

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close()
        finally:
            if self._started:
                self._try(self._task.stop, "stop cleanly")
            self._try(self._chain.close, "close a transformation")
            self._try(self._errors.close, "report all failed records")

    def _try(self, close: Callable[[], None], step: str) -> None:
        try:
            close()
        except Exception as error:
            text = "Task %s could not %s: %s"
            _log.warning(text, self._setup.id, step, self._setup.text(error))
