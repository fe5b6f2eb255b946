"""The ledger of a cluster that is reached by REST alone: a key in each connector's own config.

Written together with a config, while its connector is stopped, or right before a stop that serves
another action: a config that is written restarts the tasks, and those are about to end. What an
action is going to record is written before a connector runs again, with the offsets that it has
then, which tell whether it did. There is no journal and no lease. Implements `LedgerWriter`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from connect_reconciler.ledger.config_entry import (
    Entry,
    dump_entry,
    entry_of,
    load_entry,
    offsets_mark,
)
from connect_reconciler.ledger.journal import Ending, Journal, Step
from connect_reconciler.ledger.topic import PIN, RENAME, LedgerSnapshot, reduce_all
from connect_reconciler.ledger.values import parts_of
from connect_reconciler.plan.actions import (
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    Pause,
    ResetOffsets,
    Resume,
    Stop,
    StopOld,
    UpdateConfig,
)
from connect_reconciler.plan.live import LedgerState
from connect_reconciler.plan.reserved import LEDGER_KEY
from connect_runtime.herder.errors import RequestError
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState

_WRITES_CONFIG = (Create.__name__, UpdateConfig.__name__)
_LETS_GO = (Pause.__name__, Resume.__name__)
_STOPS = (Stop.__name__, StopOld.__name__)
# After these the connector is stopped, and what they record must not be lost
_WHILE_STOPPED = (
    *_STOPS,
    AlterOffsets.__name__,
    CarryOffsets.__name__,
    ResetOffsets.__name__,
)


_NOT_FOUND = 404
_UNTOLD = "its status does not tell whether it is stopped"


class Keeper(Protocol):
    """The cluster, as far as a ledger in its configs needs it."""

    def target(self, name: str) -> TargetState | None:
        """The target state; None where it is not known, or nothing is there."""
        ...

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        """The offsets that it has. Raises RequestError."""
        ...

    def keep(self, name: str, entry: str) -> None:
        """Writes the entry into the connector's config. Raises RequestError, OutcomeUnknown."""
        ...


class ConfigKeyLedger:
    """Raises Failed where a connector's entry could not be written: the others can go on.

    `kept` is what the configs hold now, by connector.
    """

    topic = LEDGER_KEY

    def __init__(self, state: LedgerState, keeper: Keeper, kept: Mapping[str, str]) -> None:
        self._snapshot = LedgerSnapshot(state)
        self._then: dict[str, LedgerSnapshot] = {}
        self._kept = dict(kept)
        self._keeper = keeper
        self._lock = threading.Lock()

    @property
    def state(self) -> LedgerState:
        return self._snapshot.state

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None:
        """Nothing: there is no journal, and no place for a key."""

    def started(
        self, step: Step, records: Sequence[NewRecord] = (), *, then: Sequence[NewRecord] = ()
    ) -> None:
        self.correct(records)
        with self._lock:
            self._then |= dict.fromkeys(_named(step, then), _folded(self._snapshot, then))
        name = step.connector
        if step.action in _STOPS and self._held_from(name) is not None:
            self._write(name, self._entry(name))
        elif step.action == Delete.__name__ and self._held_from(name) is not None:
            # One that cannot be written goes all the same
            with contextlib.suppress(Failed):
                self._write(name, entry_of(name, self.state))
        elif step.action in _LETS_GO:
            told = any(map(_is_pin_or_rename, records))
            self._let_go(step, must=told or self._held_from(name) is not None)

    def done(self, step: Step, records: Sequence[NewRecord] = ()) -> None:
        self.correct(records)
        names = _named(step, records)
        with self._lock:
            for name in names:
                self._then.pop(name, None)
            if step.action in _WRITES_CONFIG:
                self._kept[step.connector] = dump_entry(self._entry(step.connector))
        for name in names:
            if self._owes(name) and self._can_be_written(name, step):
                self._write(name, self._entry(name), may_be_gone=name != step.connector)

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Takes note; it is written with the connector's next change."""
        with self._lock:
            self._snapshot = _folded(self._snapshot, records)

    def failed(self, step: Step) -> None:
        with self._lock:
            self._then.pop(step.connector, None)

    def finish(self, ending: Ending, *, exit_code: int, now_ms: int) -> None:
        """Nothing: there is no journal."""

    def entry(self, name: str) -> str:
        """What a config that is written now says of its connector: what the step will record."""
        with self._lock:
            return dump_entry(self._entry(name))

    def _entry(self, name: str) -> Entry | None:
        return entry_of(name, self._then.get(name, self._snapshot).state)

    def _let_go(self, step: Step, *, must: bool) -> None:
        """Writes what the step will record, and the state that it has yet to go back to."""
        name = step.connector
        target = self._keeper.target(name)
        if target is None and must:
            raise _not_written(name, _UNTOLD)
        if target is not TargetState.STOPPED:
            return
        entry, held_from = self._entry(name), self._held_from(name)
        if entry is not None and held_from is not None:
            # A paused connector is written again, and moves no offsets that could tell
            mark = self._mark(name) if step.action == Resume.__name__ else None
            owned = replace(entry.owned, held_from=held_from, resuming=mark)
            entry = replace(entry, owned=owned)
        self._write(name, entry)

    def _mark(self, name: str) -> str:
        try:
            return offsets_mark(self._keeper.offsets(name))
        except RequestError as error:
            raise _not_written(name, error.message) from error

    def _held_from(self, name: str) -> TargetState | None:
        owned = self.state.connectors.get(name)
        return None if owned is None else owned.held_from

    def _owes(self, name: str) -> bool:
        """Whether the config does not say what it is to say."""
        entry = self.entry(name)
        return bool(entry) and self._kept.get(name) != entry

    def _can_be_written(self, name: str, step: Step) -> bool:
        """Whether that restarts nothing. Raises Failed where it has to be, and is not known."""
        if step.action == Resume.__name__ or (
            step.action == Pause.__name__ and not self._holds(name)
        ):
            return False
        target = self._keeper.target(name)
        if target is TargetState.STOPPED:
            return True
        if step.action == Pause.__name__ and target is TargetState.PAUSED:
            return True
        if step.action in _WHILE_STOPPED and name == step.connector:
            why = _UNTOLD if target is None else f"it is {target.value}, not stopped"
            raise _not_written(name, why)
        return False

    def _holds(self, name: str) -> bool:
        """Whether its config says that an apply holds it."""
        kept = self._kept.get(name)
        return kept is not None and load_entry(name, kept).owned.held_from is not None

    def _write(self, name: str, entry: Entry | None, *, may_be_gone: bool = False) -> None:
        """`may_be_gone`: another thread of this apply may delete it meanwhile."""
        text = dump_entry(entry)
        if not text or self._kept.get(name) == text:
            return
        try:
            self._keeper.keep(name, text)
        except RequestError as error:
            if may_be_gone and error.status == _NOT_FOUND:
                return
            raise _not_written(name, error.message) from error
        with self._lock:
            self._kept[name] = text


def _not_written(name: str, why: str) -> Failed:
    what = f"what was applied to {name} could not be kept in its config"
    hint = "run apply again: it goes on where this one ended"
    return Failed(Diagnostic("ledger.not-written", what, name, why, hint))


class NoLease:
    """Over REST alone nothing keeps two applies apart. Implements `Holding`."""

    def keep(self) -> None:
        """Nothing can be lost."""


def _named(step: Step, records: Sequence[NewRecord]) -> tuple[str, ...]:
    """The connectors that a step is about: its own, and those of its records."""
    return tuple(dict.fromkeys([step.connector, *(parts_of(each.key)[1] for each in records)]))


def _is_pin_or_rename(record: NewRecord) -> bool:
    return parts_of(record.key)[0] in (PIN, RENAME)


def _folded(snapshot: LedgerSnapshot, records: Sequence[NewRecord]) -> LedgerSnapshot:
    return reduce_all(
        snapshot, (LogRecord(each.topic, 0, 0, 0, each.key, each.value) for each in records)
    )
