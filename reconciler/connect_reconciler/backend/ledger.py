"""Writes the ledger topic in transactions: owners, pins, and the journal of one apply.

Opening it fences the apply before, which can then finish at most its actions in flight. Everything
of one step is one transaction: a reader sees all of it or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.backend.lease import LeaseLost, ledger_topic
from connect_reconciler.ledger.journal import (
    Ending,
    Journal,
    JournalEntry,
    journal_record,
    steps_record,
)
from connect_reconciler.ledger.topic import LedgerSnapshot, journal_removal, reduce_all
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.ledger_records import fingerprint_key_record
from connect_runtime.storage.log import (
    Fenced,
    LogReader,
    Logs,
    LogWriter,
    NewRecord,
    WriteFailed,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.names import ledger_transactional_id

_READ_TIMEOUT_S = 30.0
# Of each project, for `history` and `rollback`; the topic must not grow for ever
_JOURNALS_KEPT = 20


class NotRecorded(Failed):
    """The ledger could not be written: an apply must not go on without it."""


@dataclass(slots=True)
class _Write:
    """Records of one thread, and whether they were committed."""

    records: Sequence[NewRecord]
    settled: bool = False
    error: ConnectError | None = None


class Ledger:
    """Raises LeaseLost once a later apply has opened it, NotRecorded where a write failed.

    Used by many threads: records that they write at the same time share a transaction. `snapshot`
    is the current state and the journals, with all records written here.
    """

    def __init__(self, topic: str, writer: LogWriter, snapshot: LedgerSnapshot) -> None:
        self.topic = topic
        self._writer = writer
        self.snapshot = snapshot
        self._journal: Journal | None = None
        self._steps: dict[str, tuple[JournalEntry, ...]] = {}
        self._writing = threading.Lock()
        self._queueing = threading.Lock()
        self._waiting: list[_Write] = []

    @classmethod
    def open(cls, logs: Logs, topic: str, group_id: str) -> Ledger:
        """Creates the topic if it is missing, fences earlier writers and reads their records."""
        logs.ensure_compacted(ledger_topic(topic))
        writer = logs.writer(ledger_transactional_id(group_id))
        try:
            return cls(topic, writer, read_ledger(logs, topic))
        except BaseException:
            writer.close()
            raise

    @property
    def state(self) -> LedgerState:
        """Returns the current state."""
        return self.snapshot.state

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None:
        """Opens the journal of an apply, and closes open ones of the project's earlier applies.

        `new_fingerprint_key` is recorded if the ledger has no key yet.
        """
        records: list[NewRecord] = []
        if new_fingerprint_key is not None and self.state.fingerprint_key is None:
            records.append(fingerprint_key_record(self.topic, new_fingerprint_key))
        records += self._earlier(journal)
        unproven = self.snapshot.unproven(journal.project)
        journal = replace(journal, unproven=tuple(sorted(unproven)))
        self._write(*records, journal_record(self.topic, journal))
        self._journal = journal
        self._steps = {}

    def started(
        self,
        step: JournalEntry,
        records: Sequence[NewRecord] = (),
        *,
        upcoming: Sequence[NewRecord] = (),
    ) -> None:
        """Commits that an action begins, with `records`. `upcoming` is left to `done`."""
        self._advance(step, records)

    def done(self, step: JournalEntry, records: Sequence[NewRecord] = ()) -> None:
        """Commits that an action took place, with `records`."""
        self._advance(replace(step, end="done"), records)

    def failed(self, step: JournalEntry) -> None:
        """Commits that an action failed, or that its outcome is unknown."""
        self._advance(step, ())

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Commits `records` alone, outside any step."""
        if records:
            self._write(*records)

    def finish(
        self, ending: Ending, *, exit_code: int, now_ms: int, proven: Collection[str] = ()
    ) -> None:
        """Closes the journal. `proven` are the connectors that were seen healthy."""
        project = self._current.project
        closed = replace(
            self._current,
            ending=ending,
            exit_code=exit_code,
            ended_ms=now_ms,
            unproven=self._unproven(project, proven),
        )
        self._write(journal_record(self.topic, closed))
        self._journal = closed

    def prove(self, project: str, proven: Collection[str]) -> None:
        """Records that connectors which earlier applies of the project changed are healthy."""
        newest = next(reversed(self.snapshot.of_project(project)), None)
        if newest is not None and newest.unproven != (unproven := self._unproven(project, proven)):
            self._write(journal_record(self.topic, replace(newest, unproven=unproven)))

    def close(self) -> None:
        """Closes the writer. A journal that is still open means that the apply was killed."""
        self._writer.close()

    def _unproven(self, project: str, proven: Collection[str]) -> tuple[str, ...]:
        """Returns the project's connectors that no apply saw healthy, but for those that are
        `proven`."""
        unproven = self.snapshot.unproven(project) & self.state.owned_by(project)
        return tuple(sorted(unproven.difference(proven)))

    @property
    def _current(self) -> Journal:
        assert self._journal is not None, "an apply begins before its first step"
        return self._journal

    def _earlier(self, journal: Journal) -> Iterator[NewRecord]:
        """Closes the journals of the project's earlier applies, and removes the oldest."""
        earlier = self.snapshot.of_project(journal.project)
        first = max(0, len(earlier) - _JOURNALS_KEPT + 1)
        for apply_before in earlier[:first]:
            yield from journal_removal(self.topic, apply_before.id, self.snapshot)
        for apply_before in earlier[first:]:
            if apply_before.ending is None:
                closed = replace(apply_before, ending=Ending.INTERRUPTED, ended_ms=journal.since_ms)
                yield journal_record(self.topic, closed)

    def _advance(self, step: JournalEntry, records: Sequence[NewRecord]) -> None:
        """Commits a connector's step. All steps of one connector come from one thread."""
        name = step.connector
        earlier = (entry for entry in self._steps.get(name, ()) if entry.number != step.number)
        steps = (*earlier, step)
        self._write(*records, steps_record(self.topic, self._current.id, name, steps))
        self._steps[name] = steps

    def _write(self, *records: NewRecord) -> None:
        """Commits the records. The first thread that gets the lock commits for all that queued
        during the transaction before."""
        mine = _Write(records)
        with self._queueing:
            self._waiting.append(mine)
        with self._writing:
            if not mine.settled:
                with self._queueing:
                    together, self._waiting = self._waiting, []
                self._commit(together)
        if mine.error is not None:
            raise mine.error

    def _commit(self, together: Sequence[_Write]) -> None:
        error: ConnectError | None = self._not_recorded("it was interrupted")
        try:
            records = [record for write in together for record in write.records]
            self.snapshot = reduce_all(self.snapshot, self._writer.write(records))
            error = None
        except WriteFailed as failed:
            error = self._not_recorded("; ".join(d.why or d.what for d in failed.diagnostics))
        except Fenced:
            problem = "another apply has taken over; this one starts nothing more"
            hint = "see what the other one did with `connect history`, then plan again"
            error = LeaseLost(Diagnostic("apply.taken-over", problem, self.topic, hint=hint))
        finally:
            for write in together:
                write.error, write.settled = error, True

    def _not_recorded(self, reason: str) -> NotRecorded:
        problem = "the ledger could not be written, and an apply does nothing without it"
        hint = "run apply again: it goes on where this one ended"
        return NotRecorded(Diagnostic("ledger.not-written", problem, self.topic, reason, hint))


def read_ledger(logs: Logs, topic: str) -> LedgerSnapshot:
    """Reads the ledger. The topic must exist. Raises LogBlocked, LedgerUnreadable."""
    reader: LogReader = logs.reader(topic)
    try:
        return reduce_all(LedgerSnapshot(), reader.read_to_end(_READ_TIMEOUT_S))
    finally:
        reader.close()
