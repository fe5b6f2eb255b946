"""The journal of an apply, as records of the ledger.

`apply/<id>` holds the author, the times and the ending; `apply/<id>/<connector>` the actions that
began and their ends; `before/<id>/<connector>/<n>` is the connector's snapshot from before the
apply, in parts that Kafka accepts: offsets have the numbers above 0, pins those below, and part 0
is the rest. Each connector has a record of its own, so that several can be in progress at a time
and no record grows with the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final, Literal, NotRequired, TypeAlias

import orjson
from pydantic import StrictBool, TypeAdapter
from typing_extensions import TypedDict

from connect_reconciler.actions import ACTIONS, CopyOffsets
from connect_reconciler.model.config_values import Plain, Secret, Value, recorded
from connect_reconciler.model.ledger import (
    ConnectorSnapshot,
    LedgerState,
    Owned,
    TimeMs,
    renaming_of,
)
from connect_reconciler.model.ledger_records import (
    decode,
    encode,
    entries_from_json,
    entries_to_json,
    key_of,
    pin_from_json,
    pin_to_json,
    read,
    text,
)
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import ConfigRedactor, fingerprint
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry, TargetState

APPLY = "apply"
BEFORE = "before"

# Kafka takes 1 MB a record, key and all.
_CHUNK_BYTES = 500_000


StepEnd: TypeAlias = Literal["done", "failed", "unknown"]


class Ending(StrEnum):
    """The end of an apply. `interrupted` also when a later apply found it unfinished."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One action of a journal. `number` is its place in the plan, from 1. `end` None: it began and
    has not ended.

    `detail` is the reason of a failure, and holds no secret.
    """

    number: int
    connector: str
    action: str
    started_ms: TimeMs = 0
    end: StepEnd | None = None
    ended_ms: TimeMs = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Journal:
    """Ledger key `apply/<id>`: one apply. `by` is the user, host, process and start, as text.

    `rolls_back` is the apply that it reverses, `saved_as` the hash of the plan file that it
    applies. `unproven` are the connectors that it or an apply before it changed, and that none saw
    healthy since; of an apply that has not ended, only those of the applies before it. `partial`:
    it rolls back only some of that apply's connectors.
    """

    id: str
    project: str
    by: str
    since_ms: TimeMs
    actions: int
    ending: Ending | None = None
    ended_ms: TimeMs = 0
    exit_code: int | None = None
    rolls_back: str | None = None
    saved_as: str = ""
    partial: bool = False
    unproven: tuple[str, ...] = ()


class _SnapshotHead(TypedDict):
    """A connector's snapshot without its offsets and pins."""

    config: dict[str, str] | None
    secrets: dict[str, str] | None
    target: TargetState | None
    owner: str | None
    prevent_delete: StrictBool
    renamed_from: str | None
    # Older records lack it
    ignore: NotRequired[list[str]]


_ENTRY: Final = TypeAdapter(JournalEntry)
_JOURNAL: Final = TypeAdapter(Journal)
_HEAD: Final = TypeAdapter(_SnapshotHead)


def journal_record(topic: str, journal: Journal) -> NewRecord:
    """Records that an apply began, or how it ended."""
    value = asdict(journal)
    key = key_of(APPLY, value.pop("id"))
    for name in ("partial", "unproven"):
        if not value[name]:
            del value[name]
    return NewRecord(topic, key, encode(value))


def read_journal(apply_id: str, value: bytes) -> Journal:
    """Reads what `journal_record` wrote. Raises ValueError, KeyError."""
    # Without its ending a journal would be one of an apply that was interrupted
    return read(_JOURNAL, {**decode(value), "id": apply_id}, "ending")


def steps_record(
    topic: str, apply_id: str, connector: str, steps: Sequence[JournalEntry]
) -> NewRecord:
    """Records which of a connector's actions began, and what became of them."""
    value = [asdict(step) for step in steps]
    for step in value:
        del step["connector"]
    return NewRecord(topic, key_of(APPLY, apply_id, connector), encode({"steps": value}))


def read_steps(connector: str, value: bytes) -> tuple[JournalEntry, ...]:
    """Reads what `steps_record` wrote. Raises ValueError, KeyError, TypeError."""
    # Without its end a step would be one that was interrupted
    steps = ({**step, "connector": connector} for step in decode(value)["steps"])
    return tuple(read(_ENTRY, step, "end") for step in steps)


def unfinished_steps(connector: str, value: bytes) -> tuple[JournalEntry, ...]:
    """Returns the connector's steps that began and did not end. Fast where there are none."""
    if b'"end":null' not in value:
        return ()
    return tuple(step for step in read_steps(connector, value) if step.end is None)


def begun_changes(steps: Sequence[JournalEntry]) -> frozenset[str]:
    """Returns the connectors whose health is checked after what an apply began to do with them."""
    actions = ((step.connector, ACTIONS.get(step.action)) for step in steps)
    return frozenset(name for name, action in actions if action is not None and action.settles)


def unmoved(steps: Sequence[JournalEntry]) -> frozenset[str]:
    """Returns the connectors whose own offsets an apply did not move, although it recorded them:
    the cluster refused, or it only copied them to another connector."""
    ends: dict[str, set[bool]] = {}
    for step in steps:
        action = ACTIONS.get(step.action)
        if action is not None and action.moves_offsets:
            # The cluster may have granted a request whose end is unknown
            refused, carried = step.end == "failed", action is CopyOffsets
            ends.setdefault(step.connector, set()).add(refused or carried)
    return frozenset(name for name, refused in ends.items() if refused == {True})


def snapshot_of(
    name: str,
    config: Mapping[str, str] | None,
    target: TargetState | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
    *,
    renamed_from: str | None,
    ignore: tuple[str, ...],
) -> ConnectorSnapshot:
    """Returns the connector before the apply's first action on it, secrets as fingerprints.

    A rollback returns to it. `config` None: it is not there. `ignore` holds the globs that its spec
    ignores.
    """
    owned = ledger.connectors.get(name)
    if owned is not None and config is not None:
        secret = _recorded_as_secret(owned, config, redactor)
        redactor = replace(redactor, named=redactor.named | secret)
    # If another connector has its offsets by now, it must not run again
    if target is TargetState.STOPPED and not ledger.carried_to(name):
        target = ledger.restore_to(name) or target
    return ConnectorSnapshot(
        config=None if config is None else redactor.values(config),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        pins=ledger.pins_of(name),
        renamed_from=renamed_from,
        ignore=ignore,
    )


def _recorded_as_secret(
    owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> frozenset[str]:
    """Returns keys that an earlier spec called sensitive; the spec may be gone or changed."""
    return frozenset(
        key
        for key, text in config.items()
        if redactor.key is not None
        and owned.config.get(key) == fingerprint(redactor.key, redactor.connector, key, text)
    )


def snapshot_records(
    topic: str, apply_id: str, connector: str, snapshot: ConnectorSnapshot
) -> Iterator[NewRecord]:
    """Records a connector's snapshot without its offsets."""
    config = snapshot.config
    head: _SnapshotHead = {
        "config": None if config is None else _values(config, Plain),
        "secrets": None if config is None else _values(config, Secret),
        "target": snapshot.target,
        "owner": snapshot.owner,
        "prevent_delete": snapshot.prevent_delete,
        "renamed_from": snapshot.renamed_from,
        "ignore": list(snapshot.ignore),
    }
    yield NewRecord(topic, key_of(BEFORE, apply_id, connector, "0"), encode({**head}))
    for number, (pin, applied) in enumerate(sorted(snapshot.pins.items()), 1):
        key = key_of(BEFORE, apply_id, connector, str(-number))
        yield NewRecord(topic, key, encode({"pin": pin} | pin_to_json(applied)))


def offsets_records(
    topic: str,
    apply_id: str,
    connector: str,
    offsets: Sequence[OffsetEntry],
    result: Sequence[OffsetEntry] | None = None,
) -> Iterator[NewRecord]:
    """Records offsets that an apply is about to move, with the `result` once it has moved them."""
    chunks = _in_chunks(entries_to_json(offsets))
    result_chunks = () if result is None else _in_chunks(entries_to_json(result))
    for number, (chunk, result_chunk) in enumerate(zip_longest(chunks, result_chunks), 1):
        key = key_of(BEFORE, apply_id, connector, str(number))
        addition = {} if result_chunk is None else {"after": result_chunk}
        yield NewRecord(topic, key, encode({"offsets": chunk or []} | addition))


def read_snapshot(values: Mapping[int, bytes]) -> ConnectorSnapshot | None:
    """Reads the values that both wrote, by their numbers; None if number 0 is missing."""
    if 0 not in values:
        return None
    head = _HEAD.validate_python(decode(values[0]))
    config: dict[str, Value] | None = None
    if head["config"] is not None:
        config = {key: Plain(value) for key, value in head["config"].items()}
        config |= {key: Secret(mark) for key, mark in (head["secrets"] or {}).items()}
    chunks = [decode(values[number]) for number in sorted(values) if number > 0]
    offsets = [entry for chunk in chunks for entry in entries_from_json(chunk["offsets"])]
    # Older records, and those of a move that did not end, lack it
    results = [chunk["after"] for chunk in chunks if "after" in chunk]
    result = [entry for entries in results for entry in entries_from_json(entries)]
    pin_records = (decode(value) for number, value in values.items() if number < 0)
    pins = {text(record["pin"]): pin_from_json(record) for record in pin_records}
    return ConnectorSnapshot(
        config=config,
        target=head["target"],
        owner=head["owner"],
        prevent_delete=head["prevent_delete"],
        # Earlier versions recorded a rename as a pin
        pins={pin: applied for pin, applied in pins.items() if renaming_of(pin, applied) is None},
        offsets=Offsets(offsets) if chunks else None,
        offsets_after=Offsets(result) if results else None,
        renamed_from=head["renamed_from"],
        ignore=tuple(head.get("ignore", ())),
    )


def _values(config: Mapping[str, Value], kind: type[Plain] | type[Secret]) -> dict[str, str]:
    return recorded({key: value for key, value in config.items() if isinstance(value, kind)})


def _in_chunks(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Returns at least one chunk, to distinguish empty offsets from offsets that were not
    recorded."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        length = len(orjson.dumps(entry)) + 1
        if chunk and size + length > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += length
    yield chunk
