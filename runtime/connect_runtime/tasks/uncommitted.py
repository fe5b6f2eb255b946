"""Tracks what a source task sent since its last commit, and calls the task's commit hooks.

It keeps the offsets after the records, their topics, and the records themselves if the task wants
to be told of each.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connect_runtime.api import SourceBatch, SourceOffset, SourcePartition, SourceRecord, SourceTask
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.task_offsets import TaskOffsets
from connect_runtime.tasks.traces import ErrorTexts

_log = logging.getLogger(__name__)


class Uncommitted:
    """Collects between two commits of one task."""

    def __init__(self, name: str, task: SourceTask, offsets: TaskOffsets, text: ErrorTexts) -> None:
        self._name = name
        self._text = text
        self._task = task
        self._offsets = offsets
        self._moved: dict[str, tuple[SourcePartition, SourceOffset | None]] = {}
        self._sent: list[SourceRecord] = []
        self._tells_records = type(task).commit_record is not SourceTask.commit_record
        self._untold = False
        self.topics: set[str] = set()

    def add(self, batch: SourceBatch) -> None:
        """Adds a sent batch."""
        self.topics.add(batch.topic)
        if batch.last_offset is not None:
            place = self._offsets.key(batch.source_partition)
            self._moved[place] = (batch.source_partition, batch.last_offset)
        if self._tells_records:
            self._sent.extend(batch.records())

    def offsets(self, *, asked: bool) -> list[NewRecord]:
        """Returns the offsets to commit. With `asked` the task may change them first (KIP-910):
        offsets that it returns replace ours, and those that it omits stay. Raises what the task
        raises."""
        moved = list(self._moved.values())
        changed = self._task.update_offsets(moved) if asked else None
        for partition, offset in changed or ():
            self._moved[self._offsets.key(partition)] = (partition, offset)
        return self._offsets.records(self._moved.values())

    def committed(self, records: Sequence[NewRecord]) -> None:
        """Marks everything as committed, with these offsets."""
        self._offsets.committed(records)
        self._moved.clear()
        self.topics.clear()
        self._untold = True

    def tell(self) -> None:
        """Calls the task's hooks for records committed since the last call. Their errors are
        logged, as in Connect: the records are in Kafka regardless."""
        if not self._untold:
            return
        self._untold = False
        sent, self._sent = self._sent, []
        failures: list[Exception] = []
        for record in sent:
            try:
                self._task.commit_record(record)
            except Exception as error:
                failures.append(error)
        if failures:
            _log.error(
                "Task %s: commit_record failed for %d of %d records, first: %s",
                self._name,
                len(failures),
                len(sent),
                self._text(failures[0]),
            )
        try:
            self._task.commit()
        except Exception as error:
            _log.error("Task %s: commit failed: %s", self._name, self._text(error))
