"""Runs a source task, exactly once.

Records and the offset after them go in one transaction, under an id that every attempt of the task
shares: starting fences whatever ran before, and then reads where that one got to. Nothing of an
attempt that is not the newest becomes visible.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from connect_runtime.api import (
    ConnectorError,
    OffsetStorageReader,
    RetriableError,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTask,
    TransactionContext,
)
from connect_runtime.data.converters import converters_of
from connect_runtime.storage.log import Fenced
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.boundaries import ConnectorBoundary, Ending, boundary_of
from connect_runtime.tasks.control import Control, Orders, Wanted
from connect_runtime.tasks.launch import Ended, TaskLaunch
from connect_runtime.tasks.source_batches import Encoder, batches_of
from connect_runtime.tasks.source_offsets import SourceOffsets
from connect_runtime.tasks.start_reader import StartReader
from connect_runtime.tasks.status import Reporter
from connect_runtime.tasks.transactions import Transactions

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0
_PAUSE_WAIT_S: Final = 0.5
_IDLE_WAIT_S: Final = 0.01  # where a poll that finds nothing does not wait itself


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the task may ask: a `SourceTaskContext`."""

    configs: Mapping[str, str]
    offset_storage_reader: OffsetStorageReader
    transaction_context: TransactionContext | None


def run_source(
    launch: TaskLaunch,
    task: SourceTask,
    reader: StartReader,
    orders: Orders,
    reporter: Reporter,
    orphaned: Callable[[], bool],
) -> Ended:
    """Runs until told to end. `orders` have been read once already.

    Raises what failed the task, after saying so in the status topic; `Fenced` if a newer attempt
    took over.
    """
    encoder = Encoder(converters_of(launch.connector_config, launch.worker))
    transactions = Transactions(launch)
    try:
        # Starting fenced the newest attempt if this one is late, so look again.
        wanted = reader.orders(orders)
        if wanted in (Wanted.STOP, Wanted.NOTHING):
            return Ended.STOPPED if wanted is Wanted.STOP else Ended.SUPERSEDED
        offsets = SourceOffsets(launch.id.connector, launch.topics.offsets, reader.source_offsets())
        reader.close()
        control = Control(launch, orders)
        try:
            loop = _Loop(launch, task, transactions, offsets, encoder, reporter)
            return loop.run(control, orphaned)
        except Exception as error:
            _say_failed(transactions, reporter, error)
            raise
        finally:
            control.close()
    finally:
        _close(transactions)


def _say_failed(transactions: Transactions, reporter: Reporter, error: Exception) -> None:
    if isinstance(error, Fenced):
        return
    record = reporter.failure(error)
    try:
        transactions.abort()
        # In a transaction, so that a zombie's failure does not hide that its successor runs.
        transactions.add([record])
        transactions.commit(_DRAIN_S)
    except (ConnectorError, KafkaException):
        reporter.write(record)


def _close(transactions: Transactions) -> None:
    try:
        transactions.close()
    except (Fenced, ConnectorError, KafkaException) as error:
        _log.debug("Closing the producer: %s", error)


class _Loop:
    """One task between its start and its end."""

    def __init__(
        self,
        launch: TaskLaunch,
        task: SourceTask,
        transactions: Transactions,
        offsets: SourceOffsets,
        encoder: Encoder,
        reporter: Reporter,
    ) -> None:
        self._launch = launch
        self._task = task
        self._transactions = transactions
        self._offsets = offsets
        self._encoder = encoder
        self._reporter = reporter
        self._boundary = boundary_of(launch)
        self._state: State | None = None
        self._started = False
        self._moved: dict[int, tuple[SourcePartition, SourceOffset | None]] = {}
        self._topics: set[str] = set()
        self._wants_records = type(task).commit_record is not SourceTask.commit_record
        self._sent: list[SourceRecord] = []
        # an idle source may still move its offsets (KIP-910)
        self._updates_offsets = type(task).update_offsets is not SourceTask.update_offsets
        self._update_every_s = int(launch.worker.get("offset.flush.interval.ms") or 60_000) / 1000
        self._next_update = time.monotonic() + self._update_every_s
        self._poll_found = True
        self._poll_s = 0.0

    def run(self, control: Control, orphaned: Callable[[], bool]) -> Ended:
        """Polls until told to end, then stops the task."""
        try:
            while True:
                wanted = control.wanted(self._wait_s())
                if orphaned():
                    self._commit_at_stop(_DRAIN_S)
                    return Ended.ORPHANED
                match wanted:
                    case Wanted.RUN:
                        self._run_once()
                    case Wanted.PAUSE:
                        self._pause()
                    case Wanted.STOP:
                        break
                    case Wanted.NOTHING:
                        self._transactions.abort()
                        return Ended.SUPERSEDED
            self._commit_at_stop()
        finally:
            self._stop_task()
        self._say(State.UNASSIGNED)
        return Ended.STOPPED

    def _stop_task(self) -> None:
        if not self._started:
            return
        try:
            self._task.stop()
        except Exception as error:  # what was committed stays so, whatever stop says
            _log.warning("Task %s could not stop cleanly: %s", self._launch.id, error)

    def _wait_s(self) -> float:
        if self._state is State.PAUSED:
            return _PAUSE_WAIT_S
        return 0.0 if self._poll_found or self._poll_s > _IDLE_WAIT_S / 2 else _IDLE_WAIT_S

    def _run_once(self) -> None:
        if not self._started:
            self._start()
        if self._state is not State.RUNNING:
            self._say(State.RUNNING)
        before = time.monotonic()
        try:
            polled = self._task.poll()
        except RetriableError as error:
            _log.warning("Task %s polls again later: %s", self._launch.id, error)
            polled = None
        self._poll_s = time.monotonic() - before
        batches = batches_of(polled)
        self._poll_found = bool(batches)
        boundary = self._boundary
        if isinstance(boundary, ConnectorBoundary):
            self._send_until_asked(boundary, polled, batches)
            return
        for batch in batches:
            self._send(batch)
        if self._transactions.open:
            if boundary.due(self._transactions, self._poll_s, empty=not batches):
                self._commit()
        elif self._updates_offsets and time.monotonic() >= self._next_update:
            self._next_update = time.monotonic() + self._update_every_s
            self._commit()

    def _start(self) -> None:
        boundary = self._boundary
        context = SourceContext(
            configs=self._launch.config,
            offset_storage_reader=self._offsets,
            transaction_context=boundary if isinstance(boundary, ConnectorBoundary) else None,
        )
        self._started = True
        self._task.initialize(context)
        self._task.start(self._launch.config)

    def _send(self, batch: SourceBatch) -> None:
        if batch.topic == self._launch.topics.offsets:
            raise ConnectorError(
                "Source tasks may not produce to their own offsets topics when exactly-once"
                " support is enabled"
            )
        messages, size = self._encoder.messages(batch)
        if batch.headers is None and batch.timestamps is None:
            self._transactions.send(batch.topic, messages, batch.partition)
        else:
            self._transactions.send_each(batch.topic, messages, batch.partition)
        self._transactions.bytes += size
        self._topics.add(batch.topic)
        self._move(batch.source_partition, batch.last_offset)
        if self._wants_records:
            self._sent.extend(batch.records())

    def _move(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if offset is None:
            return
        for place, (known, _) in self._moved.items():
            if known == partition:
                self._moved[place] = (partition, offset)
                return
        self._moved[len(self._moved)] = (partition, offset)

    def _send_until_asked(
        self,
        boundary: ConnectorBoundary,
        polled: Sequence[SourceRecord] | SourceBatch | None,
        batches: Sequence[SourceBatch],
    ) -> None:
        """Sends what was polled, ending transactions where the task asked for it."""
        if boundary.asks_for_records and polled and not isinstance(polled, SourceBatch):
            begin = 0
            for end, record in enumerate(polled, start=1):
                ending = boundary.after(record)
                if ending is not None:
                    for batch in batches_of(polled[begin:end]):
                        self._send(batch)
                    begin = end
                    self._end(ending)
            batches = batches_of(polled[begin:])
        for batch in batches:
            self._send(batch)
        self._end(boundary.after_batch())

    def _end(self, ending: Ending | None) -> None:
        if ending is Ending.ABORT:
            # The offsets stay in self._moved: aborted records are skipped, not polled again.
            self._transactions.abort()
        if ending is not None:
            self._commit()

    def _commit(self, timeout_s: float = -1) -> None:
        """Commits what was sent with the offsets after it, and tells the task."""
        moved: Sequence[tuple[SourcePartition, SourceOffset | None]] = list(self._moved.values())
        changed = self._task.update_offsets(moved) if self._started else None
        records = self._offsets.records([*moved, *(changed or ())])
        self._transactions.add(records)
        self._transactions.add(self._reporter.new_topics(self._topics))
        if not self._transactions.open:
            return
        self._transactions.commit(timeout_s)
        self._moved.clear()
        self._topics.clear()
        sent, self._sent = self._sent, []
        for record in sent:
            self._task.commit_record(record)
        self._task.commit()

    def _commit_at_stop(self, timeout_s: float = -1) -> None:
        boundary = self._boundary
        if not isinstance(boundary, ConnectorBoundary) or boundary.after_batch() is Ending.COMMIT:
            self._commit(timeout_s)
        else:
            self._transactions.abort()

    def _pause(self) -> None:
        if self._state is State.PAUSED:
            return
        if not isinstance(self._boundary, ConnectorBoundary):
            self._commit()
        self._say(State.PAUSED)

    def _say(self, state: State) -> None:
        if self._transactions.open:
            # only with boundaries that the task sets: its transaction is not ours to end
            self._reporter.write(self._reporter.record(state))
        else:
            self._transactions.add([self._reporter.record(state)])
            self._transactions.commit()
        self._state = state
