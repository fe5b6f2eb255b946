"""The ledger topic's codec: what is written is read again, and nothing is guessed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_reconciler.ledger.journal import (
    Ending,
    Journal,
    JournalEntry,
    journal_record,
    offsets_records,
    snapshot_records,
    steps_record,
)
from connect_reconciler.ledger.topic import (
    LedgerSnapshot,
    LedgerUnreadable,
    journal_removal,
    reduce_all,
    with_fingerprint_key,
)
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import (
    AppliedPin,
    ConnectorSnapshot,
    HalfDone,
    Owned,
    Unfinished,
)
from connect_reconciler.model.ledger_records import fingerprint_key_record, owned_record, pin_record
from connect_reconciler.model.offsets import Offsets
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import OffsetEntry, TargetState

TOPIC = "orders-ledger"
OWNED = Owned(
    project="orders",
    config={"name": "a", "connector.class": "X"},
    state=TargetState.PAUSED,
    prevent_delete=True,
    restore_to=TargetState.RUNNING,
    applied_ms=7,
    env="prod",
)
SET = AppliedPin(
    "hash", (OffsetEntry({"p": 1}, {"at": 2.5}), OffsetEntry({"p": "2"}, None)), 5, True
)
RESET = AppliedPin("hash", None, 5)
JOURNAL = Journal("id-1", "orders", "me@here pid 1", 9, 3, rolls_back="id-0")
STEPS = (JournalEntry(1, "a/b", "Stop", 5, "failed", 6, "no"), JournalEntry(2, "a/b", "Resume", 7))
BEFORE = ConnectorSnapshot(
    {"name": Plain("a"), "db.password": Secret("f00")},
    TargetState.PAUSED,
    "orders",
    True,
    {"p": SET, "q": RESET},
)


def read(*records: NewRecord, start: LedgerSnapshot | None = None) -> LedgerSnapshot:
    return reduce_all(start or LedgerSnapshot(), logged(*records))


def logged(*records: NewRecord) -> list[LogRecord]:
    return [LogRecord(r.topic, 0, n, 0, r.key, r.value) for n, r in enumerate(records)]


def test_everything_is_read_as_it_was_written() -> None:
    found = read(
        owned_record(TOPIC, "a", OWNED),
        pin_record(TOPIC, "a", "set", SET),
        pin_record(TOPIC, "a", "reset", RESET),
        journal_record(TOPIC, JOURNAL),
        steps_record(TOPIC, "id-1", "a/b", STEPS),
        *snapshot_records(TOPIC, "id-1", "a/b", BEFORE),
        *snapshot_records(TOPIC, "id-1", "new", ConnectorSnapshot(None)),
        fingerprint_key_record(TOPIC, b"\x00\xff"),
    )
    assert found.state.connectors == {"a": OWNED}
    assert found.state.pins == {("a", "set"): SET, ("a", "reset"): RESET}
    assert found.state.unfinished == (
        Unfinished("id-1", JOURNAL.by, (HalfDone("a/b", "Resume", BEFORE),), "orders"),
    )
    assert found.steps("id-1") == STEPS
    assert found.snapshots("id-1") == {"a/b": BEFORE, "new": ConnectorSnapshot(None)}
    assert found.state.fingerprint_key == b"\x00\xff"
    assert found.applies == {"id-1": JOURNAL}


def test_tombstones_remove() -> None:
    full = read(
        owned_record(TOPIC, "a", OWNED),
        pin_record(TOPIC, "a", "p", SET),
        journal_record(TOPIC, JOURNAL),
        steps_record(TOPIC, "id-1", "a", STEPS),
        *snapshot_records(TOPIC, "id-1", "a", BEFORE),
    )
    empty = read(
        owned_record(TOPIC, "a", None),
        pin_record(TOPIC, "a", "p", None),
        *journal_removal(TOPIC, "id-1", full),
        start=full,
    )
    assert empty == LedgerSnapshot()
    assert full.snapshots("id-1") == {"a": BEFORE}


def test_many_offsets_are_kept_in_records_that_kafka_takes() -> None:
    offsets = tuple(
        OffsetEntry({"file": "x" * 2000, "n": number}, {"at": number}) for number in range(1000)
    )
    records = [
        *snapshot_records(TOPIC, "id-1", "a", BEFORE),
        *offsets_records(TOPIC, "id-1", "a", offsets),
    ]
    assert max(len(record.value or b"") for record in records) < 1_000_000
    assert read(*records).snapshots("id-1") == {"a": replace(BEFORE, offsets=Offsets(offsets))}
    none = [records[0], *offsets_records(TOPIC, "id-1", "a", ())]
    assert read(*none).snapshots("id-1")["a"].offsets == Offsets()


def test_an_ended_apply_is_not_unfinished() -> None:
    ended = Journal("id-1", "orders", "me", 9, 3, Ending.INTERRUPTED)
    assert read(journal_record(TOPIC, JOURNAL), journal_record(TOPIC, ended)).state.unfinished == ()


@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_no_two_names_share_a_key(names: list[tuple[str, str]]) -> None:
    printable = [(a, b) for a, b in names if (a + b).encode("utf-8", "ignore").decode() == a + b]
    for name, pin in printable:
        assert read(pin_record(TOPIC, name, pin, RESET)).state.pins == {(name, pin): RESET}
    keys = {pin_record(TOPIC, name, pin, RESET).key for name, pin in printable}
    assert len(keys) == len(printable)


def _with(record: NewRecord, old: bytes, new: bytes) -> NewRecord:
    assert record.value is not None and old in record.value
    return replace(record, value=record.value.replace(old, new))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (NewRecord(TOPIC, b"other/a", b'{"v":1}'), "known kind"),
        (NewRecord(TOPIC, b"pin/a", b'{"v":1}'), "known kind"),
        (NewRecord(TOPIC, b"meta/other", b'{"v":1}'), "known kind"),
        (NewRecord(TOPIC, b"connector/a", b"{"), "not JSON"),
        (NewRecord(TOPIC, b"connector/a", b"[]"), "format is None"),
        (NewRecord(TOPIC, b"connector/a", b'{"v":2,"project":"p"}'), "format is 2"),
        (NewRecord(TOPIC, b"connector/a", b'{"v":1}'), "a field"),
        (NewRecord(TOPIC, b"pin/a/p", b'{"v":1,"content_hash":1}'), "a field"),
        (_with(owned_record(TOPIC, "a", OWNED), b'"config":{', b'"config":[],"x":{'), "a field"),
        (_with(owned_record(TOPIC, "a", OWNED), b'delete":true', b'delete":"true"'), "a field"),
        (_with(pin_record(TOPIC, "a", "p", SET), b'{"p":1}', b'"p"'), "a field"),
    ],
)
def test_what_cannot_be_read_is_never_skipped(record: NewRecord, why: str) -> None:
    with pytest.raises(LedgerUnreadable, match=why) as error:
        read(owned_record(TOPIC, "b", OWNED), record)
    assert error.value.diagnostics[0].where == "orders-ledger-0, offset 1"


def test_a_record_of_before_says_nothing_of_its_environment() -> None:
    older = _with(owned_record(TOPIC, "a", OWNED), b',"env":"prod"', b"")
    assert read(older).state.connectors == {"a": replace(OWNED, env=None, env_known=False)}


@pytest.mark.parametrize(
    "record",
    [
        _with(steps_record(TOPIC, "id-1", "a/b", STEPS), b'"v":1', b'"v":2'),
        NewRecord(TOPIC, b"before/id-1/a%2Fb/0", b'{"v":2}'),
    ],
)
def test_what_an_early_end_left_is_never_guessed(record: NewRecord) -> None:
    steps = steps_record(TOPIC, "id-1", "a/b", STEPS)
    with pytest.raises(LedgerUnreadable, match=r"id-1.*format is 2"):
        read(journal_record(TOPIC, JOURNAL), steps, record)


WRONG = [
    (b"steps", b'"end":"done"', b'"end":[]'),
    (b"steps", b'"end":"done",', b""),
    (b"journal", b'"ending":null,', b""),
    (b"steps", b'"started_ms":1', b'"started_ms":1e300,"x":1'),
    (b"journal", b'"rolls_back":', b'"rolls_back":{},"x":'),
    (b"journal", b'"since_ms":', b'"since_ms":-'),
    (b"before", b'"owner":', b'"owner":[],"x":'),
    (b"before", b'"renamed_from":', b'"renamed_from":[],"x":'),
]


@pytest.mark.parametrize(("kind", "old", "new"), WRONG, ids=lambda each: each.decode())
def test_a_journal_of_wrong_types_is_refused_and_no_bug(
    kind: bytes, old: bytes, new: bytes
) -> None:
    steps = replace(STEPS[0], started_ms=1, end="done", ended_ms=2)
    good = {
        b"journal": journal_record(TOPIC, replace(JOURNAL, since_ms=5)),
        b"steps": steps_record(TOPIC, JOURNAL.id, "c", [steps]),
        b"before": next(snapshot_records(TOPIC, JOURNAL.id, "c", BEFORE)),
    }
    with pytest.raises(LedgerUnreadable):
        found = read(*(good | {kind: _with(good[kind], old, new)}).values())
        found.steps(JOURNAL.id)
        found.snapshots(JOURNAL.id)


def test_applies_are_in_the_order_of_the_topic_whatever_the_clocks_say() -> None:
    ahead = replace(JOURNAL, id="z", since_ms=900, ending=Ending.DONE)
    behind = replace(JOURNAL, id="a", since_ms=100, ending=Ending.DONE)
    past = [record for each in ("z", "a") for record in snapshot_records(TOPIC, each, "c", BEFORE)]
    found = read(journal_record(TOPIC, ahead), journal_record(TOPIC, behind), *past)
    assert found.of_project("orders") == [ahead, behind]
    assert found.later("z")["c"].applies == ("a",)
    assert found.later("a") == {}


def test_a_given_fingerprint_key_wins() -> None:
    held = read(fingerprint_key_record(TOPIC, b"held"))
    assert with_fingerprint_key(held, b"given").state.fingerprint_key == b"given"
    assert with_fingerprint_key(held, None) == held
