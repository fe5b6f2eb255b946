"""What the ledger says before and after each kind of action."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from connect_reconciler.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CopyOffsets,
    Create,
    Delete,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.actions.records import RecordContext
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming
from connect_reconciler.model.ledger_records import owned_record, pin_record, rename_record
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import OffsetEntry, TargetState

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
CONFIG = {"name": Plain("a"), "password": Secret("f00d")}
STORED = {"name": "a", "password": "f00d"}
ENTRY = OffsetEntry({"p": 1}, {"at": 2})
PIN = AppliedPin("h", (ENTRY,), 3, True)


def context(
    state: TargetState | None = RUNNING, live: TargetState | None = RUNNING
) -> RecordContext:
    return RecordContext("ledger", "orders", 9, CONFIG, live, state, prevent_delete=True)


def ledger(owned: Owned | None = None, **pins: AppliedPin) -> LedgerState:
    records = [pin_record("ledger", "a", pin, applied) for pin, applied in pins.items()]
    return fold(LedgerState(), [owned_record("ledger", "a", owned), *records])


def fold(state: LedgerState, records: Iterable[NewRecord]) -> LedgerState:
    logged = [LogRecord(r.topic, 0, n, 0, r.key, r.value) for n, r in enumerate(records)]
    return reduce_all(LedgerSnapshot(state), logged).state


def test_what_is_created_is_ours_before_it_is_there() -> None:
    create = Create(
        connector="a",
        config=CONFIG,
        initial_state=STOPPED,
        restore_to=RUNNING,
    )
    owned = Owned("orders", STORED, None, True, RUNNING, 9)
    begun = fold(ledger(), create.records_before(ledger(), context()))
    assert begun.connectors == {"a": replace(owned, applied_ms=0)}
    assert fold(begun, create.records_after(begun, context())).connectors == {"a": owned}


def test_what_is_created_as_the_spec_wants_it_is_settled() -> None:
    create = Create(connector="a", config=CONFIG, initial_state=PAUSED)
    found = fold(ledger(), create.records_after(ledger(), context(PAUSED)))
    assert found.connectors == {"a": Owned("orders", STORED, PAUSED, True, None, 9)}


@pytest.mark.parametrize(
    ("spec", "live", "state"),
    [(None, RUNNING, None), (PAUSED, RUNNING, None), (PAUSED, PAUSED, PAUSED)],
)
def test_adopting_records_what_is_there(
    spec: TargetState | None, live: TargetState, state: TargetState | None
) -> None:
    adopt = Adopt(connector="a")
    assert adopt.records_before(ledger(), context(spec, live)) == ()
    found = fold(ledger(), adopt.records_after(ledger(), context(spec, live)))
    assert found.connectors == {"a": Owned("orders", STORED, state, True, None, 9)}


def test_a_hold_is_there_before_the_stop_and_until_the_connector_is_back() -> None:
    state = ledger(Owned("orders", {}, RUNNING), p=PIN)
    stop = Stop(connector="a", restore_to=RUNNING)
    state = fold(state, stop.records_before(state, context()))
    assert state.connectors["a"].restore_to is RUNNING
    state = fold(state, stop.records_after(state, context()))
    assert state.connectors["a"].restore_to is RUNNING
    resume = Resume(connector="a")
    state = fold(state, resume.records_before(state, context(None)))
    assert state.connectors["a"].restore_to is RUNNING
    assert not state.pins["a", "p"].held
    state = fold(state, resume.records_after(state, context(None)))
    assert state.connectors["a"] == Owned("orders", {}, None, False, None, 9)


def test_a_stop_for_good_clears_an_earlier_hold() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=RUNNING))
    stop = Stop(connector="a")
    state = fold(state, stop.records_before(state, context(STOPPED)))
    assert state.connectors["a"].restore_to is None
    state = fold(state, stop.records_after(state, context(STOPPED)))
    assert state.connectors["a"].state is STOPPED


def test_pins_are_recorded_with_what_they_resolved_to() -> None:
    alter = AlterOffsets(
        connector="a",
        pin="p",
        pin_hash="h",
        moves=(OffsetMove(ENTRY, None),),
        held=True,
    )
    reset = ResetOffsets(connector="a", pin="q", pin_hash="h", moves=())
    state = fold(
        ledger(),
        (*alter.records_after(ledger(), context()), *reset.records_after(ledger(), context())),
    )
    assert state.pins == {
        ("a", "p"): AppliedPin("h", (ENTRY,), 9, True),
        ("a", "q"): AppliedPin("h", None, 9, False),
    }


@pytest.mark.parametrize(
    "action",
    [Delete(connector="a"), Forget(connector="a")],
)
def test_what_is_gone_leaves_nothing(action: Action) -> None:
    state = ledger(Owned("orders", {}, RUNNING), p=PIN, q=PIN)
    assert action.records_before(state, context(live=STOPPED)) == ()
    assert fold(state, action.records_after(state, context())) == LedgerState()


def test_what_is_deleted_is_held_until_it_is_gone() -> None:
    """It is stopped first, and may get a spec again in between."""
    state, delete = (
        ledger(Owned("orders", {}, RUNNING)),
        Delete(connector="a"),
    )
    running = context(live=PAUSED)
    held = fold(state, delete.records_before(state, running)).connectors["a"]
    assert held == Owned("orders", {}, RUNNING, restore_to=PAUSED)
    assert delete.records_before(state, context(live=STOPPED)) == ()


def test_a_new_config_is_recorded_without_its_secrets() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=PAUSED))
    update = UpdateConfig(connector="a", config=CONFIG, changes=())
    state = fold(state, update.records_after(state, context()))
    assert state.connectors["a"] == Owned("orders", STORED, RUNNING, False, PAUSED, 9)


@pytest.mark.parametrize(
    ("state", "live", "recorded"),
    [(RUNNING, RUNNING, RUNNING), (RUNNING, PAUSED, None), (None, RUNNING, None)],
)
def test_a_state_that_the_spec_manages_by_now_is_recorded(
    state: TargetState | None, live: TargetState, recorded: TargetState | None
) -> None:
    """Else drift could not tell a later change of it from one in the spec."""
    before = ledger(Owned("orders", {}, None))
    update = UpdateConfig(connector="a", config=CONFIG, changes=())
    after = fold(before, update.records_after(before, context(state, live)))
    assert after.connectors["a"].state is recorded


def test_guards_are_set_and_lifted() -> None:
    state = ledger(Owned("orders", {}, RUNNING, prevent_delete=True))
    lift = Protect(connector="a", prevent_delete=False)
    assert not fold(state, lift.records_after(state, context())).connectors["a"].prevent_delete


def test_a_pause_settles_and_a_restart_changes_nothing() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=RUNNING))
    restart, pause = (
        Restart(connector="a"),
        Pause(connector="a"),
    )
    assert (
        restart.records_before(state, context()),
        restart.records_after(state, context()),
    ) == ((), ())
    paused = fold(state, pause.records_after(state, context(PAUSED))).connectors["a"]
    assert (paused.state, paused.restore_to) == (PAUSED, None)


def test_a_rename_is_known_from_before_the_create_until_the_old_one_is_gone() -> None:
    held = Owned("orders", {}, RUNNING, restore_to=RUNNING)
    state = fold(LedgerState(), [owned_record("ledger", "old", Owned("orders", {}, RUNNING))])
    state = fold(state, [pin_record("ledger", "old", "p", PIN)])
    stop = Stop(connector="old", renamed_to="a", restore_to=RUNNING)
    state = fold(
        state, (*stop.records_before(state, context()), *stop.records_after(state, context()))
    )
    assert state.connectors == {"old": held}
    create = Create(
        connector="a",
        config=CONFIG,
        initial_state=STOPPED,
        renamed_from="old",
    )
    state = fold(state, create.records_before(state, context()))
    assert state.renames == {("a", "old"): Renaming("begun", 9, held=True)}
    moves = (OffsetMove(ENTRY, None),)
    carry = CopyOffsets(connector="a", source="old", moves=moves)
    state = fold(state, carry.records_after(state, context()))
    assert state.renames == {("a", "old"): Renaming("carried", 9)}
    assert state.pins["a", "p"] == PIN
    delete = Delete(connector="old", renamed_to="a", reset_offsets=True)
    state = fold(state, delete.records_after(state, context()))
    assert set(state.connectors) == {"a"}
    assert (state.pins, state.renames) == ({("a", "p"): PIN}, {})


def test_what_nobody_owned_is_ours_once_its_rename_stops_it() -> None:
    stop = Stop(connector="old", renamed_to="a", restore_to=PAUSED)
    state = fold(LedgerState(), stop.records_before(LedgerState(), context()))
    assert state.connectors == {"old": Owned("orders", STORED, None, True, PAUSED, 9)}


def test_a_plain_create_forgets_a_rename_that_was_given_up() -> None:
    state = fold(ledger(p=PIN), [rename_record("ledger", "a", "old", Renaming("begun"))])
    create = Create(connector="a", config=CONFIG, initial_state=RUNNING)
    state = fold(state, create.records_before(state, context()))
    assert (set(state.pins), state.renames) == ({("a", "p")}, {})


@pytest.mark.parametrize("stage", ["begun", "carried"])
def test_a_rename_that_an_earlier_version_recorded_ends_for_good(stage: str) -> None:
    """Kafka drops the removals some time after it compacted: nothing may come back then."""
    earlier = pin_record("ledger", "a", "renamed_from:old", AppliedPin(stage, (), 3, True))
    written = [earlier]
    state = fold(ledger(Owned("orders", {}, RUNNING)), written)
    assert {key: each.stage for key, each in state.renames.items()} == {("a", "old"): stage}
    for action in (
        CopyOffsets(connector="a", source="old", moves=()),
        Resume(connector="a"),
        Delete(connector="old", renamed_to="a", reset_offsets=True),
    ):
        written += (
            *action.records_before(state, context()),
            *action.records_after(state, context()),
        )
        state = fold(LedgerState(), written)
    last = {record.key: record for record in written}
    kept = [record for record in last.values() if record.value is not None]
    assert fold(LedgerState(), kept).renames == {}


def test_a_pin_of_a_user_is_no_rename_whatever_its_name() -> None:
    state = fold(ledger(**{"renamed_from:old": PIN}), [])
    assert (set(state.pins), state.renames) == ({("a", "renamed_from:old")}, {})
    resume = Resume(connector="a")
    state = fold(state, resume.records_before(state, context()))
    assert not state.pins["a", "renamed_from:old"].held
    create = Create(
        connector="a",
        config=CONFIG,
        initial_state=STOPPED,
        renamed_from="old",
    )
    state = fold(state, create.records_before(state, context()))
    assert set(state.pins) == {("a", "renamed_from:old")}
    assert set(state.renames) == {("a", "old")}
