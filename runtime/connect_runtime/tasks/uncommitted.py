"""Tracks what a source task sent since its last commit, and calls the task's commit hooks.

It keeps the offsets after the records, their topics, and the records themselves if the task wants
to be told of each. `waiting`: there is something, since `since` (monotonic seconds).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from connect_runtime.api import SourceBatch, SourceOffset, SourcePartition, SourceRecord, SourceTask
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.task_offsets import TaskOffsets

_log = logging.getLogger(__name__)


class Uncommitted:
    """Collects between two commits of one task."""

    def __init__(
        self,
        name: str,
        task: SourceTask,
        offsets: TaskOffsets,
        text: Callable[[BaseException], str],
    ) -> None:
        self._name = name
        self._text = text
        self._task = task
        self._offsets = offsets
        self._moved: dict[str, tuple[SourcePartition, SourceOffset | None]] = {}
        self._sent: list[SourceRecord] = []
        self._to_tell: list[SourceRecord] = []  # committed, and not told of yet
        self._tells_records = type(task).commit_record is not SourceTask.commit_record
        self._untold = False
        self.topics: set[str] = set()
        self.waiting = False
        self.since = 0.0

    def add(self, polled: Sequence[SourceRecord] | SourceBatch) -> None:
        """Adds what the task returned, after what of it is to be sent was sent."""
        if not polled:
            return
        if not self.waiting:
            self.waiting, self.since = True, time.monotonic()
        if isinstance(polled, SourceBatch):
            self._move(polled.source_partition, polled.last_offset)
        else:
            for partition, run in groupby(polled, attrgetter("source_partition")):
                moves = (r.source_offset for r in reversed(list(run)))
                self._move(partition, next((m for m in moves if m is not None), None))
        if self._tells_records:
            self._sent.extend(polled.records() if isinstance(polled, SourceBatch) else polled)

    def _move(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if offset is not None:
            # copies: a commit may come when the task has changed its own maps in its next poll
            self._moved[self._offsets.key(partition)] = (_copy(partition), _copy(offset))

    def aborted(self) -> None:
        """Drops the records of an aborted transaction, of which the task is not told; the offsets
        after them stay."""
        self._sent.clear()
        self.topics.clear()

    def offsets(self, *, asked: bool) -> list[NewRecord]:
        """Returns the offsets to commit. With `asked` the task may change them first (KIP-910):
        offsets that it returns replace ours, and those that it omits stay. Raises what the task
        raises."""
        moved = list(self._moved.values())
        changed = self._task.update_offsets(moved) if asked else None
        for partition, offset in changed or ():
            self._moved[self._offsets.key(partition)] = (_copy(partition), _copy(offset))
        return self._offsets.records(self._moved.values())

    def committed(self, records: Sequence[NewRecord]) -> None:
        """Marks everything as committed, with these offsets."""
        self._offsets.committed(records)
        self._moved.clear()
        self.topics.clear()
        self.waiting = False
        self._to_tell += self._sent
        self._sent = []
        self._untold = True

    def tell(self) -> None:
        """Calls the task's hooks for records committed since the last call. Their errors are
        logged, as in Connect: the records are in Kafka regardless."""
        if not self._untold:
            return
        self._untold = False
        committed, self._to_tell = self._to_tell, []
        failures: list[Exception] = []
        for record in committed:
            try:
                self._task.commit_record(record)
            except Exception as error:
                failures.append(error)
        if failures:
            _log.error(
                "Task %s: commit_record failed for %d of %d records, first: %s",
                self._name,
                len(failures),
                len(committed),
                self._text(failures[0]),
            )
        try:
            self._task.commit()
        except Exception as error:
            _log.error("Task %s: commit failed: %s", self._name, self._text(error))


def _copy(given: Any) -> Any:
    """Returns a copy of a map; what is none is refused later, with Connect's text."""
    return dict(given) if isinstance(given, Mapping) else given
