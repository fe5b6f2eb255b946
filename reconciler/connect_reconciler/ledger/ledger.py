"""The pen of an apply: ownership, pins and its journal, written in transactions.

Opening it fences the apply before it, which can then do at most the actions that are in flight. All
that belongs to one step is one transaction: a reader sees all of it or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.ledger.journal import (
    Ending,
    Journal,
    Step,
    journal_record,
    steps_record,
)
from connect_reconciler.ledger.lease import LeaseLost
from connect_reconciler.ledger.topic import (
    LedgerSnapshot,
    fingerprint_key_record,
    journal_removal,
    reduce_all,
)
from connect_reconciler.plan.live import LedgerState
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

PURPOSE = "what was applied to connectors"

_READ_TIMEOUT_S = 30.0
# Of each project, for people to read and to go back; the topic must not grow for ever.
_JOURNALS_KEPT = 20


class NotRecorded(Failed):
    """The ledger could not be written: an apply must not go on without it."""


@dataclass(slots=True)
class _Write:
    """What one thread wants written, and what became of it."""

    records: Sequence[NewRecord]
    settled: bool = False
    error: ConnectError | None = None


class Ledger:
    """Raises LeaseLost once a later apply has opened it, NotRecorded where a write failed.

    May be used by many threads: what they write at the same time shares a transaction.
    """

    def __init__(self, topic: str, writer: LogWriter, snapshot: LedgerSnapshot) -> None:
        self.topic = topic
        self._writer = writer
        self._snapshot = snapshot
        self._journal: Journal | None = None
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._writing = threading.Lock()
        self._queueing = threading.Lock()
        self._waiting: list[_Write] = []

    @classmethod
    def open(cls, logs: Logs, topic: str, group_id: str) -> Ledger:
        """Creates the topic if need be, fences earlier writers and reads all that they wrote."""
        logs.ensure_compacted(topic, 1, PURPOSE, key="cluster.topics.ledger")
        writer = logs.writer(ledger_transactional_id(group_id))
        try:
            return cls(topic, writer, read_ledger(logs, topic))
        except BaseException:
            writer.close()
            raise

    @property
    def state(self) -> LedgerState:
        """What the ledger says, with all that was written here."""
        return self._snapshot.state

    @property
    def snapshot(self) -> LedgerSnapshot:
        """The same with the journals."""
        return self._snapshot

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None:
        """Opens the journal of an apply; one of its project that did not finish ends here.

        `new_fingerprint_key` is kept if the ledger has no key yet.
        """
        records: list[NewRecord] = []
        if new_fingerprint_key is not None and self.state.fingerprint_key is None:
            records.append(fingerprint_key_record(self.topic, new_fingerprint_key))
        records += self._earlier(journal)
        self._write(*records, journal_record(self.topic, journal))
        self._journal = journal
        self._steps = {}

    def started(
        self, step: Step, records: Sequence[NewRecord] = (), *, then: Sequence[NewRecord] = ()
    ) -> None:
        """Commits that an action begins, and `records` with it. `then` waits for `done`."""
        self._advance(step, records)

    def done(self, step: Step, records: Sequence[NewRecord] = ()) -> None:
        """Commits that an action took place, and `records` with it."""
        self._advance(replace(step, end="done"), records)

    def failed(self, step: Step) -> None:
        """Commits that an action was not done, or may not have been."""
        self._advance(step, ())

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Commits `records` alone, outside any step."""
        if records:
            self._write(*records)

    def finish(self, ending: Ending, *, exit_code: int, now_ms: int) -> None:
        """Closes the journal."""
        ended = replace(self._begun, ending=ending, exit_code=exit_code, ended_ms=now_ms)
        self._write(journal_record(self.topic, ended))
        self._journal = ended

    def close(self) -> None:
        """Closes the writer. A journal that is still open says that the apply was interrupted."""
        self._writer.close()

    @property
    def _begun(self) -> Journal:
        assert self._journal is not None, "an apply begins before its first step"
        return self._journal

    def _earlier(self, journal: Journal) -> Iterator[NewRecord]:
        """Closes the journals of the project's earlier applies, and forgets the oldest."""
        earlier = self._snapshot.of_project(journal.project)
        kept = max(0, len(earlier) - _JOURNALS_KEPT + 1)
        for found in earlier[:kept]:
            yield from journal_removal(self.topic, found.id, self._snapshot)
        for found in earlier[kept:]:
            if found.ending is None:
                ended = replace(found, ending=Ending.INTERRUPTED, ended_ms=journal.since_ms)
                yield journal_record(self.topic, ended)

    def _advance(self, step: Step, records: Sequence[NewRecord]) -> None:
        """A connector's steps come from one thread."""
        name = step.connector
        before = (each for each in self._steps.get(name, ()) if each.number != step.number)
        steps = (*before, step)
        self._write(*records, steps_record(self.topic, self._begun.id, name, steps))
        self._steps[name] = steps

    def _write(self, *records: NewRecord) -> None:
        """Whoever comes first writes for all who came while the transaction before was under
        way."""
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
            self._snapshot = reduce_all(self._snapshot, self._writer.write(records))
            error = None
        except WriteFailed as failed:
            error = self._not_recorded("; ".join(d.why or d.what for d in failed.diagnostics))
        except Fenced:
            what = "another apply has taken over; this one begins nothing more"
            hint = "see what the other one did with `connect history`, then plan again"
            error = LeaseLost(Diagnostic("apply.taken-over", what, self.topic, hint=hint))
        finally:
            for write in together:
                write.error, write.settled = error, True

    def _not_recorded(self, why: str) -> NotRecorded:
        what = "the ledger could not be written, and nothing is done without it"
        hint = "run apply again: it goes on where this one ended"
        return NotRecorded(Diagnostic("ledger.not-written", what, self.topic, why, hint))


def read_ledger(logs: Logs, topic: str) -> LedgerSnapshot:
    """The ledger as it is now. The topic must exist. Raises LogBlocked, LedgerUnreadable."""
    reader: LogReader = logs.reader(topic)
    try:
        return reduce_all(LedgerSnapshot(), reader.read_to_end(_READ_TIMEOUT_S))
    finally:
        reader.close()
