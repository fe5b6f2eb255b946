"""What do the ledger topic's records say, and which records change it?

Keys are `connector/<name>`, `pin/<name>/<id>`, `apply/<id>` and `meta/fingerprint-key`; in a part,
`%` and `/` are written %25 and %2F, so that no name can be taken for two. Values are JSON with a
format version. No I/O. A record that cannot be understood stops the reader: to skip an ownership or
a pin would mean to apply it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from connect_reconciler.plan.live import AppliedPin, LedgerState, Owned
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState

FORMAT = 1

_CONNECTOR = "connector"
_PIN = "pin"
_APPLY = "apply"
_META = "meta"
_FINGERPRINT_KEY = "fingerprint-key"


class LedgerUnreadable(Failed):
    """A record that this version does not understand; nothing may be applied on top of it."""


class Ending(StrEnum):
    """How an apply ended. `interrupted` also when a later apply found it unfinished."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Step:
    """The action that a journal stands at: `number` counts from 1."""

    number: int
    connector: str
    action: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """Ledger key `apply/<id>`: one apply, by whom, and the newest step of it.

    Earlier steps are earlier records of the same key, until Kafka compacts them away.
    """

    id: str
    project: str
    by: str
    since_ms: int
    actions: int
    step: Step | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The ledger topic up to a point: what planning uses, and the journals."""

    state: LedgerState = field(default_factory=LedgerState)
    applies: Mapping[str, Journal] = field(default_factory=dict)


# --- records to write ---


def owned_record(topic: str, name: str, owned: Owned | None) -> NewRecord:
    """Says who manages a connector and what was applied; None: nobody does."""
    value = None
    if owned is not None:
        value = _encode(
            {
                "project": owned.project,
                "config": dict(owned.config),
                "state": owned.state,
                "prevent_delete": owned.prevent_delete,
                "held_from": owned.held_from,
                "applied_ms": owned.applied_ms,
            }
        )
    return NewRecord(topic, _key(_CONNECTOR, name), value)


def pin_record(topic: str, name: str, pin: str, applied: AppliedPin | None) -> NewRecord:
    """Says that a pin was applied; None forgets it."""
    value = None
    if applied is not None:
        value = _encode(
            {
                "content_hash": applied.content_hash,
                "resolved": _entries_to_json(applied.resolved),
                "applied_ms": applied.applied_ms,
                "held": applied.held,
            }
        )
    return NewRecord(topic, _key(_PIN, name, pin), value)


def journal_record(topic: str, journal: Journal) -> NewRecord:
    """Says how far an apply is."""
    step = journal.step
    value: dict[str, Any] = {
        "project": journal.project,
        "by": journal.by,
        "since_ms": journal.since_ms,
        "actions": journal.actions,
        "step": None,
        "ending": journal.ending,
    }
    if step is not None:
        value["step"] = {
            "number": step.number,
            "connector": step.connector,
            "action": step.action,
            "done": step.done,
        }
    return NewRecord(topic, _key(_APPLY, journal.id), _encode(value))


def journal_removal(topic: str, apply_id: str) -> NewRecord:
    """Forgets an apply."""
    return NewRecord(topic, _key(_APPLY, apply_id), None)


def fingerprint_key_record(topic: str, key: bytes) -> NewRecord:
    """Keeps the key of the fingerprints."""
    return NewRecord(topic, _key(_META, _FINGERPRINT_KEY), _encode({"key": key.hex()}))


# --- reading ---


def reduce_all(snapshot: LedgerSnapshot, records: Iterable[LogRecord]) -> LedgerSnapshot:
    """The snapshot after `records`. Raises LedgerUnreadable naming the record's place."""
    fold = _Fold(snapshot)
    for record in records:
        fold.apply(record)
    return fold.snapshot()


class _Fold:
    """The snapshot in the making: copied once, then changed in place."""

    def __init__(self, start: LedgerSnapshot) -> None:
        self._connectors = dict(start.state.connectors)
        self._pins = dict(start.state.pins)
        self._applies = dict(start.applies)
        self._fingerprint_key = start.state.fingerprint_key
        self._kinds: Mapping[tuple[str, int], Callable[[list[str], LogRecord], None]] = {
            (_CONNECTOR, 1): self._on_connector,
            (_PIN, 2): self._on_pin,
            (_APPLY, 1): self._on_apply,
            (_META, 1): self._on_meta,
        }

    def snapshot(self) -> LedgerSnapshot:
        unfinished = tuple(sorted(j.id for j in self._applies.values() if j.ending is None))
        state = LedgerState(
            connectors=self._connectors,
            pins=self._pins,
            unfinished=unfinished,
            fingerprint_key=self._fingerprint_key,
        )
        return LedgerSnapshot(state, self._applies)

    def apply(self, record: LogRecord) -> None:
        try:
            kind, *parts = _parts(record.key)
            handle = self._kinds.get((kind, len(parts)))
            if handle is None:
                raise ValueError("its key is of no known kind")
            handle(parts, record)
        except (ValueError, KeyError, TypeError) as error:
            why = (
                str(error) if type(error) is ValueError else "a field is missing or of a wrong type"
            )
            raise _unreadable(record, why) from None

    def _on_connector(self, parts: list[str], record: LogRecord) -> None:
        (name,) = parts
        if record.value is None:
            self._connectors.pop(name, None)
            return
        value = _decode(record.value)
        self._connectors[name] = Owned(
            project=_text(value["project"]),
            config={_text(k): _text(v) for k, v in value["config"].items()},
            state=_target(value["state"]),
            prevent_delete=value["prevent_delete"] is True,
            held_from=_target(value["held_from"]),
            applied_ms=int(value["applied_ms"]),
        )

    def _on_pin(self, parts: list[str], record: LogRecord) -> None:
        name, pin = parts
        if record.value is None:
            self._pins.pop((name, pin), None)
            return
        value = _decode(record.value)
        self._pins[name, pin] = AppliedPin(
            content_hash=_text(value["content_hash"]),
            resolved=_entries_from_json(value["resolved"]),
            held=value["held"] is True,
            applied_ms=int(value["applied_ms"]),
        )

    def _on_apply(self, parts: list[str], record: LogRecord) -> None:
        (apply_id,) = parts
        if record.value is None:
            self._applies.pop(apply_id, None)
            return
        value = _decode(record.value)
        step = value["step"]
        self._applies[apply_id] = Journal(
            id=apply_id,
            project=_text(value["project"]),
            by=_text(value["by"]),
            since_ms=int(value["since_ms"]),
            actions=int(value["actions"]),
            step=None if step is None else _step(step),
            ending=None if value["ending"] is None else Ending(value["ending"]),
        )

    def _on_meta(self, parts: list[str], record: LogRecord) -> None:
        if parts != [_FINGERPRINT_KEY]:
            raise ValueError("its key is of no known kind")
        if record.value is None:
            self._fingerprint_key = None
        else:
            self._fingerprint_key = bytes.fromhex(_text(_decode(record.value)["key"]))


def with_fingerprint_key(snapshot: LedgerSnapshot, key: bytes | None) -> LedgerSnapshot:
    """The snapshot with `key` in place of its own, if there is one."""
    if key is None:
        return snapshot
    return replace(snapshot, state=replace(snapshot.state, fingerprint_key=key))


# --- keys and values ---


def _key(*parts: str) -> bytes:
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts).encode()


def _parts(key: bytes | None) -> list[str]:
    if key is None:
        raise ValueError("it has no key")
    return [part.replace("%2F", "/").replace("%25", "%") for part in key.decode().split("/")]


def _encode(value: dict[str, Any]) -> bytes:
    return orjson.dumps({"v": FORMAT, **value})


def _decode(value: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("its value is not JSON") from None
    version = found.get("v") if isinstance(found, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, this version of connect reads {FORMAT}")
    assert isinstance(found, dict)
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _target(value: object) -> TargetState | None:
    return None if value is None else TargetState(_text(value))


def _step(value: Mapping[str, Any]) -> Step:
    return Step(
        number=int(value["number"]),
        connector=_text(value["connector"]),
        action=_text(value["action"]),
        done=value["done"] is True,
    )


def _entries_to_json(entries: tuple[OffsetEntry, ...] | None) -> list[dict[str, Any]] | None:
    if entries is None:
        return None
    return [
        {
            "partition": dict(entry.partition),
            "offset": None if entry.offset is None else dict(entry.offset),
        }
        for entry in entries
    ]


def _entries_from_json(value: list[dict[str, Any]] | None) -> tuple[OffsetEntry, ...] | None:
    if value is None:
        return None
    return tuple(OffsetEntry(entry["partition"], entry["offset"]) for entry in value)


def _unreadable(record: LogRecord, why: str) -> LedgerUnreadable:
    key = "none" if record.key is None else record.key.decode(errors="replace")
    return LedgerUnreadable(
        Diagnostic(
            "ledger.unreadable",
            f"the ledger's record with key {key} cannot be read: {why}",
            where=f"{record.topic}-{record.partition}, offset {record.offset}",
            hint="use a version of connect at least as new as the one that wrote it",
        )
    )
