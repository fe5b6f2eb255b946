"""Reads and writes the cluster's own topics for a task, through its agent.

That is the process that serves the node, or the standalone worker. All methods raise Interrupted if
there is none, but for statuses and offsets, whose writes are tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from connect_runtime.agent.messages import (
    ReadAssignment,
    ReadOffsets,
    WriteOffsets,
    WriteStatus,
    topic_of,
    unwritten_of,
)
from connect_runtime.kafka.background_writer import TRY_S
from connect_runtime.storage.log import LogRecord, NewRecord, Unwritten
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.control.assignments import AttemptAssignment, DesiredTaskState
from connect_runtime.tasks.kafka_failures import Interrupted, kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

# Longer than the default transaction timeout, plus the time that Kafka takes to notice
PATIENCE_S: Final = 75.0
# Longer than a message may take, so it is answered by then
_STATUS_S: Final = TRY_S + 1
_RETRY_S: Final = 0.1


class WorkerTopics:
    """The topics of one task's cluster."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup

    def read_assignment(self, assignment: AttemptAssignment) -> DesiredTaskState:
        """Reads the newest assignment before the current end."""
        setup = self._setup
        records, _ = self._read(ReadAssignment(setup.topics.assignments, str(setup.id)))
        return assignment.apply_unread(records)

    def newest_state(self) -> DesiredTaskState:
        """Reads the desired state of the attempt to the end, whatever has been read before."""
        return self.read_assignment(AttemptAssignment(self._setup))

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        records, _ = self.source_offset_rows()
        return reduce_all(OffsetSnapshot(), records)

    def source_offset_rows(self) -> tuple[list[LogRecord], dict[int, int]]:
        """Returns the newest records of this task's connector in the offsets topic, and of each
        partition the offset up to which it was read."""
        setup = self._setup
        return self._read(ReadOffsets(setup.topics.offsets, setup.id.connector))

    def _read(
        self, request: ReadAssignment | ReadOffsets
    ) -> tuple[list[LogRecord], dict[int, int]]:
        """Asks again while Kafka is silent, or an open transaction hides the end."""
        agent = self._setup.agent("start")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = agent.ask(request, PATIENCE_S)
            try:
                with kafka_may_interrupt():
                    return topic_of(answer)
            except Interrupted:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)

    def write_status(self, record: NewRecord) -> Unwritten | None:
        """Writes one status record; returns None once it is written."""
        agent = self._setup.agent("statuses")
        try:
            return unwritten_of(agent.ask(WriteStatus(record), _STATUS_S))
        except Interrupted as error:
            return Unwritten(str(error), passing=self._setup.socket is None)


class ServedOffsets:
    """Writes source offsets to a standalone worker's file: when a write returns, they are on its
    disk."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._worker = setup.agent("offsets")

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Returns True once all are written; logs the reason if not."""
        entries = tuple((record.key, record.value) for record in offsets)
        why_not = None
        if entries:
            request = WriteOffsets(self._setup.topics.offsets, entries)
            try:
                unwritten = unwritten_of(self._worker.ask(request, limit_s))
                why_not = None if unwritten is None else unwritten.why
            except Interrupted as error:
                why_not = str(error)
        if why_not is not None:
            text = "Task %s: offsets were not written; the next commit tries again: %s"
            _log.error(text, self._setup.id, why_not)
        return why_not is None

    def close(self) -> None:
        """Closes nothing."""
