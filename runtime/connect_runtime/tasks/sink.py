"""Runs a sink task: at least once, offsets committed only after the task has flushed.

The task gets batches in order; what it has taken is committed at the worker's pace, without waiting
while it runs and with waiting before a partition is given up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from connect_runtime.api import RetriableError, SinkTask, TopicPartition
from connect_runtime.data.converters import converters_of
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.control import Control, Orders, Wanted
from connect_runtime.tasks.launch import Ended, TaskLaunch
from connect_runtime.tasks.sink_consumer import Delivery, SinkConsumer, batch_of
from connect_runtime.tasks.sink_offsets import SinkOffsets
from connect_runtime.tasks.status import Reporter

_log = logging.getLogger(__name__)

_READ_S: Final = 0.2  # how long to wait for records; also how late a stop can be seen
_RETRY_S: Final = 1.0


def run_sink(
    launch: TaskLaunch,
    task: SinkTask,
    orders: Orders,
    reporter: Reporter,
    orphaned: Callable[[], bool],
) -> Ended:
    """Runs until told to end. Raises what failed the task."""
    control = Control(launch, orders)
    try:
        return _Loop(launch, task, reporter).run(control, orphaned)
    finally:
        control.close()


class _Loop:
    """One task between its start and its end: also its `SinkTaskContext`."""

    def __init__(self, launch: TaskLaunch, task: SinkTask, reporter: Reporter) -> None:
        self._launch = launch
        self._task = task
        self._reporter = reporter
        self._converters = converters_of(launch.connector_config, launch.worker)
        self._offsets = SinkOffsets()
        self._consumer: SinkConsumer | None = None
        self._state: State | None = None
        self._pending: Delivery | None = None
        self._held: set[TopicPartition] = set()  # paused by the task itself
        self._rewinds: dict[TopicPartition, int] = {}
        self._timeout_s: float | None = None
        self._interval_s = int(launch.worker.get("offset.flush.interval.ms") or 60_000) / 1000
        self._patience_s = int(launch.worker.get("offset.flush.timeout.ms") or 5_000) / 1000
        self._next_commit = time.monotonic() + self._interval_s
        self._in_flight: tuple[float, dict[TopicPartition, int]] | None = None

    # what the task may ask

    @property
    def configs(self) -> Mapping[str, str]:
        return self._launch.config

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._offsets.assigned)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._rewinds.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000

    def pause(self, *partitions: TopicPartition) -> None:
        self._held.update(partitions)
        if self._consumer is not None:
            self._consumer.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._held.difference_update(partitions)
        if self._consumer is not None and self._state is State.RUNNING and self._pending is None:
            self._consumer.resume(partitions)

    def request_commit(self) -> None:
        self._next_commit = 0.0

    # the loop

    @property
    def _kafka(self) -> SinkConsumer:
        assert self._consumer is not None
        return self._consumer

    def run(self, control: Control, orphaned: Callable[[], bool]) -> Ended:
        """Puts batches until told to end, then commits, leaves the group and stops the task."""
        ended = Ended.STOPPED
        started = False
        try:
            while True:
                wanted = control.wanted(0.0 if started else _READ_S)
                if orphaned():
                    ended = Ended.ORPHANED
                    break
                if wanted is Wanted.NOTHING:
                    ended = Ended.SUPERSEDED
                    break
                if wanted is Wanted.STOP:
                    break
                if not started and wanted is Wanted.RUN:
                    started = True
                    self._start()
                self._be(State.RUNNING if wanted is Wanted.RUN else State.PAUSED)
                if started:
                    self._once()
            if started:
                self._finish(commit=ended is not Ended.SUPERSEDED)
        finally:
            self._close(started)
        if ended is Ended.STOPPED:
            self._reporter.write(self._reporter.record(State.UNASSIGNED))
        return ended

    def _start(self) -> None:
        self._task.initialize(self)
        self._task.start(self._launch.config)
        self._consumer = SinkConsumer(
            self._launch,
            gained=self._on_gained,
            settled=self._on_settled,
            revoked=self._on_revoked,
            lost=self._on_lost,
            committed=self._on_committed,
        )

    def _be(self, state: State) -> None:
        """Enters a state: pauses or resumes everything, and says so."""
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

    def _once(self) -> None:
        """Commits if it is time, reads, puts."""
        self._rewind(self._take_rewinds())
        self._give_up_waiting()
        if time.monotonic() >= self._next_commit and self._in_flight is None:
            self._next_commit = time.monotonic() + self._interval_s
            self._commit()
        delivery = self._kafka.read(self._read_s())
        if self._pending is None:
            if delivery.messages:
                self._note_topics(delivery)
            self._put(delivery)
        else:  # everything is paused: nothing can have come
            self._put(self._pending)

    def _read_s(self) -> float:
        timeout_s, self._timeout_s = self._timeout_s, None
        if timeout_s is None:
            timeout_s = _RETRY_S if self._pending is not None else _READ_S
        return max(0.0, min(timeout_s, self._next_commit - time.monotonic()))

    def _put(self, delivery: Delivery) -> None:
        batch = batch_of(delivery.messages, self._converters)
        try:
            self._task.put(batch)
        except RetriableError as error:
            _log.warning("Task %s puts the same records again: %s", self._launch.id, error)
            if self._pending is None:
                self._pending = delivery
                self._kafka.pause(self._offsets.assigned)
            return
        self._offsets.deliver(delivery.positions)
        if self._pending is not None:
            self._pending = None
            self._unpause()

    def _unpause(self) -> None:
        """Lets everything flow that neither the user nor the task has paused."""
        if self._state is State.RUNNING:
            self._kafka.resume(self._offsets.assigned - self._held)

    def _note_topics(self, delivery: Delivery) -> None:
        topics = {partition.topic for partition in delivery.positions}
        records = self._reporter.new_topics(topics)
        if records:
            self._reporter.write(*records)

    # offsets

    def _commit(self) -> None:
        """Lets the task flush, and commits what it allows without waiting for Kafka."""
        current = self._offsets.current(self._offsets.assigned)
        if not current:
            return
        try:
            allowed = self._task.pre_commit(current)
        except Exception as error:
            _log.warning("Task %s reads again what it could not flush: %s", self._launch.id, error)
            if self._pending is not None:
                self._pending = None
                self._unpause()
            self._rewind(self._offsets.rewind())
            return
        offsets = self._offsets.committable(current, allowed)
        if offsets:
            self._in_flight = (time.monotonic(), offsets)
            self._kafka.commit(offsets, wait=False)

    def _on_committed(self, error: Any, _: list[Any]) -> None:
        if self._in_flight is None:
            return
        offsets, self._in_flight = self._in_flight[1], None
        if error is None:
            self._offsets.commit_done(offsets)
        else:
            _log.warning("Task %s could not commit its offsets: %s", self._launch.id, error)

    def _give_up_waiting(self) -> None:
        if self._in_flight and time.monotonic() - self._in_flight[0] > self._patience_s:
            _log.warning("Task %s waits no longer for its offset commit", self._launch.id)
            self._in_flight = None

    def _take_rewinds(self) -> dict[TopicPartition, int]:
        rewinds, self._rewinds = self._rewinds, {}
        known = {p: offset for p, offset in rewinds.items() if p in self._offsets.assigned}
        self._offsets.move(known)
        return known

    def _rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        if offsets:
            self._kafka.seek(offsets)

    # rebalances, called from within read

    def _on_gained(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        starts = self._kafka.starts(partitions)
        self._offsets.gain(starts)
        self._task.open(partitions)
        starts.update(self._take_rewinds())
        return starts

    def _on_settled(self, partitions: list[TopicPartition]) -> None:
        everything = self._state is State.PAUSED or self._pending is not None
        self._kafka.pause(p for p in partitions if everything or p in self._held)

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, commit=True)
        self._drop(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, commit=False)
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._offsets.lose(partitions)
        self._held.difference_update(partitions)
        if self._pending is not None:
            gone = set(partitions)
            kept = [
                m
                for m in self._pending.messages
                if TopicPartition(m.topic(), m.partition()) not in gone
            ]
            self._pending = Delivery(kept, self._pending.positions)

    def _give_up(self, partitions: list[TopicPartition], *, commit: bool) -> None:
        """The last flush, close and commit for partitions; failures are only told, as the records
        come again from the last commit."""
        current = self._offsets.current(partitions)
        allowed: Mapping[TopicPartition, int] = {}
        try:
            if commit and current:
                allowed = self._task.pre_commit(current)
        except Exception as error:
            _log.warning("Task %s could not flush what it gives up: %s", self._launch.id, error)
        self._task.close(partitions)
        offsets = self._offsets.committable(current, allowed)
        try:
            if offsets:
                self._kafka.commit(offsets, wait=True)
                self._offsets.commit_done(offsets)
        except KafkaException as error:
            _log.warning("Task %s could not commit what it gives up: %s", self._launch.id, error)

    # the end

    def _finish(self, *, commit: bool) -> None:
        partitions = sorted(self._offsets.assigned)
        if partitions:
            self._give_up(partitions, commit=commit)

    def _close(self, started: bool) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if not started:
            return
        try:
            self._task.stop()
        except Exception as error:
            _log.warning("Task %s could not stop cleanly: %s", self._launch.id, error)
