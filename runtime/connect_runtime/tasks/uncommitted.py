"""What a source task sent since its last commit, and what the task hears of it.

Offsets after the records, the topics they went to, and the records themselves where the task wants
to be told of each.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connect_runtime.api import SourceBatch, SourceOffset, SourcePartition, SourceRecord, SourceTask
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.source_offsets import SourceOffsets
from connect_runtime.tasks.traces import ErrorTexts

_log = logging.getLogger(__name__)


class Uncommitted:
    """Collects between two commits of one task."""

    def __init__(
        self, name: str, task: SourceTask, offsets: SourceOffsets, text: ErrorTexts
    ) -> None:
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
        """This batch was sent."""
        self.topics.add(batch.topic)
        if batch.last_offset is not None:
            place = self._offsets.place(batch.source_partition)
            self._moved[place] = (batch.source_partition, batch.last_offset)
        if self._tells_records:
            self._sent.extend(batch.records())

    def offsets(self, *, asked: bool) -> list[NewRecord]:
        """The offsets to commit. With `asked` the task may change them before (KIP-910): what it
        returns counts, and what it leaves out stays as it is. Raises what the task raises."""
        moved = list(self._moved.values())
        changed = self._task.update_offsets(moved) if asked else None
        for partition, offset in changed or ():
            self._moved[self._offsets.place(partition)] = (partition, offset)
        return self._offsets.records(self._moved.values())

    def committed(self, records: Sequence[NewRecord]) -> None:
        """All of it is in Kafka, with these offsets."""
        self._offsets.committed(records)
        self._moved.clear()
        self.topics.clear()
        self._untold = True

    def tell(self) -> None:
        """Calls the task's hooks for what was committed since the last time. What they raise is
        logged, as in Connect: the records are in Kafka whatever they say."""
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
