"""The pen of an apply: ownership, pins and its journal, written in transactions.

Opening it fences the apply before it, which can then do at most the action that is in flight. All
that belongs to one step is one transaction: a reader sees all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connect_reconciler.ledger.lease import LeaseLost
from connect_reconciler.ledger.topic import (
    Ending,
    Journal,
    LedgerSnapshot,
    Step,
    fingerprint_key_record,
    journal_record,
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
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.names import ledger_transactional_id

PURPOSE = "what was applied to connectors"

_READ_TIMEOUT_S = 30.0
# Journals of applies that ended are kept for people to read; the topic must not grow for ever.
_JOURNALS_KEPT = 20


class NotRecorded(Failed):
    """The ledger could not be written: an apply must not go on without it."""


class Ledger:
    """Raises LeaseLost once a later apply has opened it, NotRecorded where a write failed."""

    def __init__(self, topic: str, writer: LogWriter, snapshot: LedgerSnapshot) -> None:
        self.topic = topic
        self._writer = writer
        self._snapshot = snapshot
        self._journal: Journal | None = None

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
        """Opens the journal of an apply; an earlier one that did not finish ends here.

        `new_fingerprint_key` is kept if the ledger has no key yet.
        """
        records: list[NewRecord] = []
        if new_fingerprint_key is not None and self.state.fingerprint_key is None:
            records.append(fingerprint_key_record(self.topic, new_fingerprint_key))
        earlier = sorted(self._snapshot.applies.values(), key=lambda j: (j.since_ms, j.id))
        for found in earlier[: max(0, len(earlier) - _JOURNALS_KEPT + 1)]:
            records.append(journal_removal(self.topic, found.id))
        for found in earlier[max(0, len(earlier) - _JOURNALS_KEPT + 1) :]:
            if found.ending is None:
                ended = replace(found, ending=Ending.INTERRUPTED)
                records.append(journal_record(self.topic, ended))
        self._write(*records, journal_record(self.topic, journal))
        self._journal = journal

    def started(
        self, step: Step, records: Sequence[NewRecord] = (), *, then: Sequence[NewRecord] = ()
    ) -> None:
        """Commits that an action begins, and `records` with it. `then` waits for `done`."""
        self._advance(replace(self._begun, step=replace(step, done=False)), records)

    def done(self, step: Step, records: Sequence[NewRecord] = ()) -> None:
        """Commits that an action took place, and `records` with it."""
        self._advance(replace(self._begun, step=replace(step, done=True)), records)

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Commits `records` alone, outside any step."""
        if records:
            self._write(*records)

    def finish(self, ending: Ending) -> None:
        """Closes the journal."""
        self._advance(replace(self._begun, ending=ending), ())

    def close(self) -> None:
        """Closes the writer. A journal that is still open says that the apply was interrupted."""
        self._writer.close()

    @property
    def _begun(self) -> Journal:
        assert self._journal is not None, "an apply begins before its first step"
        return self._journal

    def _advance(self, journal: Journal, records: Sequence[NewRecord]) -> None:
        self._write(*records, journal_record(self.topic, journal))
        self._journal = journal

    def _write(self, *records: NewRecord) -> None:
        try:
            written = self._writer.write(records)
        except WriteFailed as error:
            what = "the ledger could not be written, and nothing is done without it"
            hint = "run apply again: it goes on where this one ended"
            why = str(error)
            raise NotRecorded(
                Diagnostic("ledger.not-written", what, self.topic, why, hint)
            ) from error
        except Fenced as error:
            what = "another apply has taken over the ledger; this one did nothing after that"
            hint = "see what the other one did, then plan again"
            raise LeaseLost(Diagnostic("apply.taken-over", what, self.topic, hint=hint)) from error
        self._snapshot = reduce_all(self._snapshot, written)


def read_ledger(logs: Logs, topic: str) -> LedgerSnapshot:
    """The ledger as it is now. The topic must exist. Raises LogBlocked, LedgerUnreadable."""
    reader: LogReader = logs.reader(topic)
    try:
        return reduce_all(LedgerSnapshot(), reader.read_to_end(_READ_TIMEOUT_S))
    finally:
        reader.close()
