"""What the ledger says before and after each kind of action."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from connect_reconciler.ledger.action_records import Context, records_after, records_before
from connect_reconciler.ledger.records import owned_record, pin_record, rename_record
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    DeleteOld,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    StopOld,
    UpdateConfig,
)
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming
from connect_reconciler.model.reasons import NO_REASON
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
CONFIG = {"name": Plain("a"), "password": Secret("f00d")}
STORED = {"name": "a", "password": "f00d"}
ENTRY = OffsetEntry({"p": 1}, {"at": 2})
PIN = AppliedPin("h", (ENTRY,), 3, True)


def context(state: TargetState | None = RUNNING, live: TargetState | None = RUNNING) -> Context:
    return Context("ledger", "orders", 9, CONFIG, live, state, prevent_delete=True)


def ledger(owned: Owned | None = None, **pins: AppliedPin) -> LedgerState:
    records = [pin_record("ledger", "a", pin, applied) for pin, applied in pins.items()]
    return fold(LedgerState(), [owned_record("ledger", "a", owned), *records])


def fold(state: LedgerState, records: Sequence[NewRecord]) -> LedgerState:
    logged = [LogRecord(r.topic, 0, n, 0, r.key, r.value) for n, r in enumerate(records)]
    return reduce_all(LedgerSnapshot(state), logged).state


def test_what_is_created_is_ours_before_it_is_there() -> None:
    create = Create(
        connector="a",
        reason=NO_REASON,
        config=CONFIG,
        initial_state=STOPPED,
        restore_to=RUNNING,
    )
    owned = Owned("orders", STORED, None, True, RUNNING, 9)
    begun = fold(ledger(), records_before(create, ledger(), context()))
    assert begun.connectors == {"a": replace(owned, applied_ms=0)}
    assert fold(begun, records_after(create, begun, context())).connectors == {"a": owned}


def test_what_is_created_as_the_spec_wants_it_is_settled() -> None:
    create = Create(connector="a", reason=NO_REASON, config=CONFIG, initial_state=PAUSED)
    found = fold(ledger(), records_after(create, ledger(), context(PAUSED)))
    assert found.connectors == {"a": Owned("orders", STORED, PAUSED, True, None, 9)}


@pytest.mark.parametrize(
    ("spec", "live", "state"),
    [(None, RUNNING, None), (PAUSED, RUNNING, None), (PAUSED, PAUSED, PAUSED)],
)
def test_adopting_records_what_is_there(
    spec: TargetState | None, live: TargetState, state: TargetState | None
) -> None:
    adopt = Adopt(connector="a", reason=NO_REASON)
    assert records_before(adopt, ledger(), context(spec, live)) == ()
    found = fold(ledger(), records_after(adopt, ledger(), context(spec, live)))
    assert found.connectors == {"a": Owned("orders", STORED, state, True, None, 9)}


def test_a_hold_is_there_before_the_stop_and_until_the_connector_is_back() -> None:
    state = ledger(Owned("orders", {}, RUNNING), p=PIN)
    stop = Stop(connector="a", reason=NO_REASON, restore_to=RUNNING)
    state = fold(state, records_before(stop, state, context()))
    assert state.connectors["a"].restore_to is RUNNING
    state = fold(state, records_after(stop, state, context()))
    assert state.connectors["a"].restore_to is RUNNING
    resume = Resume(connector="a", reason=NO_REASON)
    state = fold(state, records_before(resume, state, context(None)))
    assert state.connectors["a"].restore_to is RUNNING
    assert not state.pins["a", "p"].held
    state = fold(state, records_after(resume, state, context(None)))
    assert state.connectors["a"] == Owned("orders", {}, None, False, None, 9)


def test_a_stop_for_good_clears_an_earlier_hold() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=RUNNING))
    stop = Stop(connector="a", reason=NO_REASON)
    state = fold(state, records_before(stop, state, context(STOPPED)))
    assert state.connectors["a"].restore_to is None
    state = fold(state, records_after(stop, state, context(STOPPED)))
    assert state.connectors["a"].state is STOPPED


def test_pins_are_recorded_with_what_they_resolved_to() -> None:
    alter = AlterOffsets(
        connector="a",
        reason=NO_REASON,
        pin="p",
        pin_hash="h",
        moves=(OffsetMove(ENTRY, None),),
        held=True,
    )
    reset = ResetOffsets(connector="a", reason=NO_REASON, pin="q", pin_hash="h", moves=())
    state = fold(
        ledger(),
        (*records_after(alter, ledger(), context()), *records_after(reset, ledger(), context())),
    )
    assert state.pins == {
        ("a", "p"): AppliedPin("h", (ENTRY,), 9, True),
        ("a", "q"): AppliedPin("h", None, 9, False),
    }


@pytest.mark.parametrize(
    "action",
    [Delete(connector="a", reason=NO_REASON), Forget(connector="a", reason=NO_REASON)],
)
def test_what_is_gone_leaves_nothing(action: Action) -> None:
    state = ledger(Owned("orders", {}, RUNNING), p=PIN, q=PIN)
    assert records_before(action, state, context(live=STOPPED)) == ()
    assert fold(state, records_after(action, state, context())) == LedgerState()


def test_what_is_deleted_is_held_until_it_is_gone() -> None:
    """It is stopped first, and may get a spec again in between."""
    state, delete = (
        ledger(Owned("orders", {}, RUNNING)),
        Delete(connector="a", reason=NO_REASON),
    )
    running = context(live=PAUSED)
    held = fold(state, records_before(delete, state, running)).connectors["a"]
    assert held == Owned("orders", {}, RUNNING, restore_to=PAUSED)
    assert records_before(delete, state, context(live=STOPPED)) == ()


def test_a_new_config_is_recorded_without_its_secrets() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=PAUSED))
    update = UpdateConfig(connector="a", reason=NO_REASON, config=CONFIG, changes=())
    state = fold(state, records_after(update, state, context()))
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
    update = UpdateConfig(connector="a", reason=NO_REASON, config=CONFIG, changes=())
    after = fold(before, records_after(update, before, context(state, live)))
    assert after.connectors["a"].state is recorded


def test_guards_are_set_and_lifted() -> None:
    state = ledger(Owned("orders", {}, RUNNING, prevent_delete=True))
    lift = Protect(connector="a", reason=NO_REASON, prevent_delete=False)
    assert not fold(state, records_after(lift, state, context())).connectors["a"].prevent_delete


def test_a_pause_settles_and_a_restart_changes_nothing() -> None:
    state = ledger(Owned("orders", {}, RUNNING, restore_to=RUNNING))
    restart, pause = (
        Restart(connector="a", reason=NO_REASON),
        Pause(connector="a", reason=NO_REASON),
    )
    assert (
        records_before(restart, state, context()),
        records_after(restart, state, context()),
    ) == ((), ())
    paused = fold(state, records_after(pause, state, context(PAUSED))).connectors["a"]
    assert (paused.state, paused.restore_to) == (PAUSED, None)


def test_a_rename_is_known_from_before_the_create_until_the_old_one_is_gone() -> None:
    held = Owned("orders", {}, RUNNING, restore_to=RUNNING)
    state = fold(LedgerState(), [owned_record("ledger", "old", Owned("orders", {}, RUNNING))])
    state = fold(state, [pin_record("ledger", "old", "p", PIN)])
    stop = StopOld(connector="a", reason=NO_REASON, old="old", restore_to=RUNNING)
    state = fold(
        state, (*records_before(stop, state, context()), *records_after(stop, state, context()))
    )
    assert state.connectors == {"old": held}
    create = Create(
        connector="a",
        reason=NO_REASON,
        config=CONFIG,
        initial_state=STOPPED,
        renamed_from="old",
    )
    state = fold(state, records_before(create, state, context()))
    assert state.renames == {("a", "old"): Renaming("begun", 9, held=True)}
    moves = (OffsetMove(ENTRY, None),)
    carry = CarryOffsets(connector="a", reason=NO_REASON, old="old", moves=moves)
    state = fold(state, records_after(carry, state, context()))
    assert state.renames == {("a", "old"): Renaming("carried", 9)}
    assert state.pins["a", "p"] == PIN
    delete = DeleteOld(connector="a", reason=NO_REASON, old="old", reset=True)
    state = fold(state, records_after(delete, state, context()))
    assert set(state.connectors) == {"a"}
    assert (state.pins, state.renames) == ({("a", "p"): PIN}, {})


def test_what_nobody_owned_is_ours_once_its_rename_stops_it() -> None:
    stop = StopOld(connector="a", reason=NO_REASON, old="old", restore_to=PAUSED)
    state = fold(LedgerState(), records_before(stop, LedgerState(), context()))
    assert state.connectors == {"old": Owned("orders", STORED, None, True, PAUSED, 9)}


def test_a_plain_create_forgets_a_rename_that_was_given_up() -> None:
    state = fold(ledger(p=PIN), [rename_record("ledger", "a", "old", Renaming("begun"))])
    create = Create(connector="a", reason=NO_REASON, config=CONFIG, initial_state=RUNNING)
    state = fold(state, records_before(create, state, context()))
    assert (set(state.pins), state.renames) == ({("a", "p")}, {})


@pytest.mark.parametrize("stage", ["begun", "carried"])
def test_a_rename_that_an_earlier_version_recorded_ends_for_good(stage: str) -> None:
    """Kafka drops the removals some time after it compacted: nothing may come back then."""
    earlier = pin_record("ledger", "a", "renamed_from:old", AppliedPin(stage, (), 3, True))
    written = [earlier]
    state = fold(ledger(Owned("orders", {}, RUNNING)), written)
    assert {key: each.stage for key, each in state.renames.items()} == {("a", "old"): stage}
    for action in (
        CarryOffsets(connector="a", reason=NO_REASON, old="old", moves=()),
        Resume(connector="a", reason=NO_REASON),
        DeleteOld(connector="a", reason=NO_REASON, old="old", reset=True),
    ):
        written += (
            *records_before(action, state, context()),
            *records_after(action, state, context()),
        )
        state = fold(LedgerState(), written)
    last = {record.key: record for record in written}
    kept = [record for record in last.values() if record.value is not None]
    assert fold(LedgerState(), kept).renames == {}


def test_a_pin_of_a_user_is_no_rename_whatever_its_name() -> None:
    state = fold(ledger(**{"renamed_from:old": PIN}), [])
    assert (set(state.pins), state.renames) == ({("a", "renamed_from:old")}, {})
    resume = Resume(connector="a", reason=NO_REASON)
    state = fold(state, records_before(resume, state, context()))
    assert not state.pins["a", "renamed_from:old"].held
    create = Create(
        connector="a",
        reason=NO_REASON,
        config=CONFIG,
        initial_state=STOPPED,
        renamed_from="old",
    )
    state = fold(state, records_before(create, state, context()))
    assert set(state.pins) == {("a", "renamed_from:old")}
    assert set(state.renames) == {("a", "old")}
