"""Reads the ledger topic's records into a snapshot. Pure.

A record that this version does not understand stops the reader: skipping an owner or a pin would
mean to apply it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from connect_reconciler.ledger import journal as journals
from connect_reconciler.ledger.journal import (
    APPLY,
    BEFORE,
    Ending,
    Journal,
    JournalEntry,
    begun_changes,
    read_journal,
    read_snapshot,
    read_steps,
    unfinished_steps,
    unmoved,
)
from connect_reconciler.model import ledger_records as kinds
from connect_reconciler.model.ledger import (
    ConnectorSnapshot,
    HalfDone,
    Later,
    LedgerState,
    Unfinished,
    old_name_in,
    renaming_of,
)
from connect_reconciler.model.ledger_records import (
    decode,
    key_of,
    owned_from_json,
    parts_of,
    pin_from_json,
    rename_from_json,
    text,
)
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.diagnostics import Diagnostic, Failed

K = TypeVar("K")
V = TypeVar("V")

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError)


class LedgerUnreadable(Failed):
    """A record that this version does not understand; nothing may be applied on top of it."""


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The ledger topic up to a point: the state that planning uses, and the journals by apply id.

    Few readers need details of the journals, so these are decoded on demand.
    """

    state: LedgerState = field(default_factory=LedgerState)
    applies: Mapping[str, Journal] = field(default_factory=dict)
    raw_steps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    raw_snapshots: Mapping[str, Mapping[str, Mapping[int, bytes]]] = field(default_factory=dict)

    def steps(self, apply_id: str) -> tuple[JournalEntry, ...]:
        """Returns the actions of an apply that began, in the plan's order."""
        raw = self.raw_steps.get(apply_id, {})
        with _readable(apply_id):
            entries = [step for name, value in raw.items() for step in read_steps(name, value)]
        return tuple(sorted(entries, key=lambda step: step.number))

    def snapshots(self, apply_id: str) -> dict[str, ConnectorSnapshot]:
        """Returns the connectors that an apply touched, as they were before it, by name; with
        offsets where it moved them, or may have."""
        unchanged = unmoved(self.steps(apply_id))
        with _readable(apply_id):
            snapshots = {
                name: read_snapshot(_without_offsets(values) if name in unchanged else values)
                for name, values in self.raw_snapshots.get(apply_id, {}).items()
            }
        return {
            name: snapshot for name, snapshot in sorted(snapshots.items()) if snapshot is not None
        }

    def later(self, apply_id: str) -> dict[str, Later]:
        """Returns what applies after this one did to its connectors, by name."""
        names = self.raw_snapshots.get(apply_id, {}).keys()
        later: dict[str, Later] = {}
        in_order = self._in_order()
        for journal in in_order[in_order.index(self.applies[apply_id]) + 1 :]:
            if names.isdisjoint(self.raw_snapshots.get(journal.id, {})):
                continue
            snapshots = self.snapshots(journal.id)
            new_names = {snapshot.renamed_from: name for name, snapshot in snapshots.items()}
            for name in names & snapshots.keys():
                first = later.get(name) or Later((), snapshots[name])
                renamed = {new_names[name]: journal.id} if name in new_names else {}
                later[name] = Later(
                    (*first.applies, journal.id),
                    first.snapshot,
                    first.moved or snapshots[name].offsets is not None,
                    {**first.renamed, **renamed},
                )
        return later

    def begun(self, project: str, saved_as: str) -> Journal | None:
        """Returns the project's newest apply, if it carried out that plan file and did not end
        it."""
        newest = next(reversed(self.of_project(project)), None)
        if newest is None or newest.saved_as != saved_as or newest.ending is Ending.DONE:
            return None
        return newest

    def unproven(self, project: str) -> frozenset[str]:
        """Returns the connectors that the project's applies changed, and that none saw healthy
        since."""
        newest = next(reversed(self.of_project(project)), None)
        if newest is None:
            return frozenset()
        changed = frozenset[str]() if newest.ending else begun_changes(self.steps(newest.id))
        return changed | frozenset(newest.unproven)

    def rolled_back(self, apply_id: str) -> int:
        """Returns how often an apply was rolled back completely."""
        return sum(
            journal.rolls_back == apply_id and journal.ending is Ending.DONE and not journal.partial
            for journal in self.applies.values()
        )

    def of_project(self, project: str) -> list[Journal]:
        """Returns the project's applies, oldest first."""
        return [journal for journal in self._in_order() if journal.project == project]

    def _in_order(self) -> list[Journal]:
        """Returns all applies in the topic's order, since one apply at a time writes there: clocks
        of two machines may differ."""
        return list(self.applies.values())


def reduce_all(snapshot: LedgerSnapshot, records: Iterable[LogRecord]) -> LedgerSnapshot:
    """Returns the snapshot after `records`. Raises LedgerUnreadable naming the record's place."""
    fold = _Fold(snapshot)
    for record in records:
        fold.apply(record)
    return fold.snapshot()


class _Fold:
    """Builds a snapshot: copies the one it starts with once, then changes that copy in place."""

    def __init__(self, start: LedgerSnapshot) -> None:
        self._connectors = dict(start.state.connectors)
        self._pins = dict(start.state.pins)
        self._renames = dict(start.state.renames)
        self._applies = dict(start.applies)
        self._steps = dict(start.raw_steps)
        self._snapshots = dict(start.raw_snapshots)
        # The journals that were copied already, and may be changed
        self._own: set[tuple[str, str]] = set()
        self._fingerprint_key = start.state.fingerprint_key

    def snapshot(self) -> LedgerSnapshot:
        snapshot = LedgerSnapshot(
            LedgerState(
                connectors=self._connectors,
                pins=self._pins,
                renames=self._renames,
                fingerprint_key=self._fingerprint_key,
            ),
            self._applies,
            self._steps,
            self._snapshots,
        )
        early = sorted(j.id for j in self._applies.values() if j.ending is None)
        if not early:
            return snapshot
        return replace(
            snapshot,
            state=replace(
                snapshot.state,
                unfinished=tuple(_unfinished(snapshot, apply_id) for apply_id in early),
            ),
        )

    def apply(self, record: LogRecord) -> None:
        try:
            self._apply(parts_of(record.key), record.value)
        except _MALFORMED as error:
            key = "none" if record.key is None else record.key.decode(errors="replace")
            place = f"{record.topic}-{record.partition}, offset {record.offset}"
            raise _unreadable(key, error, place) from None

    def _apply(self, names: list[str], value: bytes | None) -> None:
        match names:
            case [kinds.CONNECTOR, name]:
                _put(self._connectors, name, value, lambda text: owned_from_json(decode(text)))
            case [kinds.PIN, name, pin]:
                self._on_pin(name, pin, value)
            case [kinds.RENAME, name, old_name]:
                _put(self._renames, (name, old_name), value, lambda t: rename_from_json(decode(t)))
            case [journals.APPLY, apply_id]:
                _put(self._applies, apply_id, value, partial(read_journal, apply_id))
            case [journals.APPLY, apply_id, name]:
                steps = self._copied(self._steps, APPLY, apply_id)
                _put(steps, name, value, bytes)
                if not steps:
                    del self._steps[apply_id]
            case [journals.BEFORE, apply_id, name, number]:
                self._on_snapshot(apply_id, name, int(number), value)
            case [kinds.META, kinds.FINGERPRINT_KEY]:
                self._fingerprint_key = None if value is None else _key(value)
            case _:
                # A newer version may delete a record of a kind that is unknown here
                if value is not None:
                    raise ValueError("its key is of no known kind")

    def _on_pin(self, name: str, pin: str, value: bytes | None) -> None:
        if value is None:
            self._pins.pop((name, pin), None)
            self._renames.pop((name, old_name_in(pin) or ""), None)
            return
        applied = pin_from_json(decode(value))
        # Earlier versions recorded a rename as a pin
        rename = renaming_of(pin, applied)
        if rename is None:
            self._pins[name, pin] = applied
        else:
            old_name, renaming = rename
            self._renames[name, old_name] = renaming

    def _on_snapshot(self, apply_id: str, name: str, number: int, value: bytes | None) -> None:
        of_apply = self._copied(self._snapshots, BEFORE, apply_id)
        values = dict(of_apply.get(name, {}))
        _put(values, number, value, bytes)
        of_apply[name] = values
        if not values:
            del of_apply[name]
        if not of_apply:
            del self._snapshots[apply_id]

    def _copied(
        self, journals: dict[str, Mapping[str, V]], kind: str, apply_id: str
    ) -> dict[str, V]:
        """Returns the records of one apply, as a copy that may be changed."""
        records = journals.get(apply_id)
        if not isinstance(records, dict) or (kind, apply_id) not in self._own:
            records = dict(records or {})
            self._own.add((kind, apply_id))
        journals[apply_id] = records
        return records


def _put(contents: dict[K, V], key: K, value: bytes | None, parse: Callable[[bytes], V]) -> None:
    """Stores what a record holds; a tombstone removes it."""
    if value is None:
        contents.pop(key, None)
    else:
        contents[key] = parse(value)


def _key(value: bytes) -> bytes:
    return bytes.fromhex(text(decode(value)["key"]))


def journal_removal(topic: str, apply_id: str, snapshot: LedgerSnapshot) -> Iterator[NewRecord]:
    """Forgets an apply and all that belongs to it."""
    yield NewRecord(topic, key_of(APPLY, apply_id), None)
    for name in snapshot.raw_steps.get(apply_id, ()):
        yield NewRecord(topic, key_of(APPLY, apply_id, name), None)
    for name, values in snapshot.raw_snapshots.get(apply_id, {}).items():
        for number in values:
            yield NewRecord(topic, key_of(BEFORE, apply_id, name, str(number)), None)


def with_fingerprint_key(snapshot: LedgerSnapshot, key: bytes | None) -> LedgerSnapshot:
    """Returns the snapshot with `key` in place of its own, if there is one."""
    if key is None:
        return snapshot
    return replace(snapshot, state=replace(snapshot.state, fingerprint_key=key))


def _unfinished(snapshot: LedgerSnapshot, apply_id: str) -> Unfinished:
    raw = snapshot.raw_snapshots.get(apply_id, {})
    with _readable(apply_id):
        steps = [
            HalfDone(step.connector, step.action, read_snapshot(raw.get(step.connector, {})))
            for name, value in snapshot.raw_steps.get(apply_id, {}).items()
            for step in unfinished_steps(name, value)
        ]
    in_order = tuple(sorted(steps, key=lambda step: step.connector))
    journal = snapshot.applies[apply_id]
    return Unfinished(apply_id, journal.by, in_order, journal.project)


def _without_offsets(values: Mapping[int, bytes]) -> dict[int, bytes]:
    """Returns the values of a connector's snapshot without its offsets."""
    return {number: value for number, value in values.items() if number <= 0}


@contextmanager
def _readable(apply_id: str) -> Iterator[None]:
    """Raises LedgerUnreadable for records of an apply that this version does not understand."""
    try:
        yield
    except _MALFORMED as error:
        raise _unreadable(f"{APPLY}/{apply_id}", error, "") from None


def _unreadable(key: str, error: Exception, place: str) -> LedgerUnreadable:
    reason = str(error) if type(error) is ValueError else "a field is missing or of a wrong type"
    return LedgerUnreadable(
        Diagnostic(
            "ledger.unreadable",
            f"the ledger's record with key {key} cannot be read: {reason}",
            where=place,
            hint="use a version of connect at least as new as the one that wrote it",
        )
    )
