"""The ledger in a connector's config: when it is written, and that it says what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from connect_reconciler.backend.rest_only import ConfigKeyLedger
from connect_reconciler.ledger.config_entry import (
    Entry,
    dump_entry,
    entry_of,
    load_entry,
    load_ledger,
    offsets_mark,
    still_held,
    with_configs,
)
from connect_reconciler.ledger.journal import JournalEntry
from connect_reconciler.ledger.topic import LedgerUnreadable
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming
from connect_reconciler.model.ledger_records import owned_record, pin_record
from connect_runtime.herder.verbs import RequestError
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Failed

OWNED = Owned(
    "orders",
    {"name": "a", "db.password": "${file:/secrets:db}", "topic": "t$1"},
    None,
    prevent_delete=True,
    restore_to=TargetState.PAUSED,
    applied_ms=17,
)
PIN = AppliedPin("h", (OffsetEntry({"p": "ü"}, {"o": 2}), OffsetEntry({"p": 1}, None)), 18, True)


AT = (OffsetEntry({"p": 1}, {"o": 5}),)
STATE = LedgerState({"a": OWNED})


def dump(state: LedgerState, name: str = "a") -> str:
    return dump_entry(entry_of(name, state))


@dataclass
class Cluster:
    """One connector; remembers each entry that is written."""

    at: TargetState | None = TargetState.RUNNING
    refuses: bool = False
    gone: bool = False
    written: list[str] = field(default_factory=list)

    def target(self, name: str) -> TargetState | None:
        return self.at

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return AT

    def write_entry(self, name: str, entry: str) -> None:
        if self.refuses:
            raise RequestError(500, "no")
        if self.gone:
            raise RequestError(404, f"Connector {name} not found")
        self.written.append(entry)

    @property
    def last(self) -> Entry:
        return load_entry("a", self.written[-1])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def ledger(cluster: Cluster) -> ConfigKeyLedger:
    return ConfigKeyLedger(STATE, cluster, {"a": dump(STATE)})


def test_what_is_read_is_what_was_written() -> None:
    state = LedgerState({"a": OWNED}, {("a", "p"): PIN, ("b", "q"): PIN})
    assert load_entry("a", dump(state)) == Entry(OWNED, {"p": PIN})
    assert dump(state, "c") == ""


def test_another_connector_that_is_deleted_meanwhile_keeps_nothing(cluster: Cluster) -> None:
    """The old name of a rename is deleted, and by another thread the new one, which tells of it."""
    owned = replace(OWNED, restore_to=None)
    state = LedgerState({"a": owned, "b": owned}, {("a", "p"): PIN})
    ledger = ConfigKeyLedger(state, cluster, {"a": dump(state), "b": dump(state, "b")})
    cluster.at, cluster.gone = TargetState.STOPPED, True
    forgotten = (pin_record(LEDGER_KEY, "a", "p", None), owned_record(LEDGER_KEY, "b", None))
    ledger.done(JournalEntry(1, "b", "Delete"), forgotten)
    assert ledger.state == LedgerState({"a": owned})
    with pytest.raises(Failed):
        ledger.done(JournalEntry(2, "a", "Stop"), (pin_record(LEDGER_KEY, "a", "q", PIN),))


def test_connect_finds_no_reference_in_an_entry() -> None:
    assert "$" not in dump(STATE)


def test_a_target_state_is_not_kept() -> None:
    state = LedgerState({"a": replace(OWNED, state=TargetState.RUNNING)})
    assert load_entry("a", dump(state)).owned.state is None


@pytest.mark.parametrize("text", ["", "****", "[hidden]", "{}", '{"v":2}', '{"v":1,"project":1}'])
def test_what_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(LedgerUnreadable, match=LEDGER_KEY):
        load_entry("a", text)


def test_a_copied_config_makes_nobody_its_owner() -> None:
    entry = dump(LedgerState({"a": replace(OWNED, config={"name": "a"})}, {("a", "p"): PIN}))
    configs = {"a": {LEDGER_KEY: entry}, "copy of a": {LEDGER_KEY: entry}}
    found, unreadable = load_ledger(configs)
    assert not unreadable
    assert found.connectors.keys() == {"a"}
    assert found.pins.keys() == {("a", "p")}


def test_a_rename_is_over_once_the_old_name_is_gone() -> None:
    pins = {("a", "p"): PIN, ("a", "renamed_from:old"): PIN}
    renames = {("a", "old"): Renaming("begun", 7, held=True)}
    entry = dump(LedgerState({"a": OWNED}, pins, renames))
    configs = {"a": {LEDGER_KEY: entry}}
    alone, unreadable = load_ledger(configs)
    assert not unreadable
    assert (alone.pins, alone.renames) == (pins, {})
    both, unreadable = load_ledger(configs | {"old": {}})
    assert not unreadable
    assert (both.pins, both.renames) == (pins, renames)


def test_a_config_holds_what_its_action_is_going_to_record(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    step = JournalEntry(1, "a", "UpdateConfig")
    new = owned_record(LEDGER_KEY, "a", replace(OWNED, config={"name": "a"}))
    ledger.started(step, upcoming=[new])
    assert ledger.state.connectors["a"] == OWNED
    assert load_entry("a", ledger.entry("a")).owned.config == {"name": "a"}
    ledger.done(step, [new])
    assert ledger.state.connectors["a"].config == {"name": "a"}
    assert cluster.written == []


def test_what_brings_a_connector_back_is_written_before_it_is_stopped(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    held = replace(OWNED, restore_to=TargetState.RUNNING)
    ledger.started(JournalEntry(1, "a", "Stop"), [owned_record(LEDGER_KEY, "a", held)])
    assert cluster.last.owned.restore_to is TargetState.RUNNING


def test_what_a_running_connector_owes_is_written_once_it_stopped(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    unprotected = replace(OWNED, prevent_delete=False, restore_to=None)
    ledger.done(JournalEntry(1, "a", "Protect"), [owned_record(LEDGER_KEY, "a", unprotected)])
    ledger.started(JournalEntry(2, "a", "Stop"))
    assert cluster.written == []
    cluster.at = TargetState.STOPPED
    ledger.done(JournalEntry(2, "a", "Stop"))
    assert cluster.last.owned == unprotected


def test_a_pin_is_written_before_its_action_is_done(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.at = TargetState.STOPPED
    step = JournalEntry(1, "a", "AlterOffsets")
    ledger.started(step)
    assert cluster.written == []
    ledger.done(step, [pin_record(LEDGER_KEY, "a", "p", PIN)])
    assert cluster.last.pins == {"p": PIN}


def test_a_resume_is_recorded_before_it_runs(cluster: Cluster, ledger: ConfigKeyLedger) -> None:
    """With the state that it has yet to go back to, and the offsets that tell whether it did."""
    cluster.at = TargetState.STOPPED
    settled = owned_record(LEDGER_KEY, "a", replace(OWNED, restore_to=None, applied_ms=18))
    ledger.started(JournalEntry(1, "a", "Resume"), upcoming=[settled])
    written = cluster.last
    assert (written.owned.restore_to, written.owned.applied_ms) == (TargetState.PAUSED, 18)
    assert written.owned.resuming == offsets_mark(AT)
    cluster.at = TargetState.RUNNING
    ledger.done(JournalEntry(1, "a", "Resume"), [settled])
    assert len(cluster.written) == 1
    assert ledger.state.connectors["a"].restore_to is None


def test_whether_it_went_on_is_asked_of_the_offsets() -> None:
    marked = replace(OWNED, resuming=offsets_mark(AT))
    read, _ = load_ledger({"a": {LEDGER_KEY: dump(LedgerState({"a": marked}))}})
    assert read.connectors["a"] == marked
    asked: list[tuple[str, str]] = []

    def held(*, went_on: bool) -> Owned:
        def ask(name: str, mark: str) -> bool:
            asked.append((name, mark))
            return went_on

        return still_held(read, ask).connectors["a"]

    assert held(went_on=False) == marked
    assert held(went_on=True) == replace(OWNED, restore_to=None)
    assert asked[0] == ("a", offsets_mark(AT))
    assert offsets_mark([OffsetEntry({"p": 1}, {"o": 6})]) != offsets_mark(AT) != offsets_mark([])
    assert offsets_mark([*AT, OffsetEntry({"p": 2}, None)]) == offsets_mark(AT)


def test_a_pause_of_what_was_held_is_recorded_once_it_is_paused(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.at = TargetState.STOPPED
    settled = owned_record(LEDGER_KEY, "a", replace(OWNED, restore_to=None))
    ledger.started(JournalEntry(1, "a", "Pause"), upcoming=[settled])
    assert cluster.written == []
    cluster.at = TargetState.PAUSED
    ledger.done(JournalEntry(1, "a", "Pause"), [settled])
    assert cluster.last.owned.restore_to is None


@pytest.mark.parametrize("at", [None, TargetState.RUNNING])
def test_a_pin_that_cannot_be_recorded_fails_its_connector(
    cluster: Cluster, ledger: ConfigKeyLedger, at: TargetState | None
) -> None:
    """Its status may tell nothing for minutes, while no worker has it."""
    cluster.at = at
    with pytest.raises(Failed, match="could not be kept"):
        ledger.done(JournalEntry(1, "a", "AlterOffsets"), [pin_record(LEDGER_KEY, "a", "p", PIN)])


def test_a_connector_that_is_held_is_not_let_go_unrecorded(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.at = None
    settled = owned_record(LEDGER_KEY, "a", replace(OWNED, restore_to=None))
    with pytest.raises(Failed, match="could not be kept"):
        ledger.started(JournalEntry(1, "a", "Resume"), upcoming=[settled])


def test_a_failed_connector_that_owes_nothing_is_paused(cluster: Cluster) -> None:
    """A status that failed tells no target state."""
    cluster.at = None
    free = LedgerState({"a": replace(OWNED, restore_to=None)})
    ledger = ConfigKeyLedger(free, cluster, {"a": dump(free)})
    settled = owned_record(LEDGER_KEY, "a", replace(OWNED, restore_to=None, applied_ms=18))
    ledger.started(JournalEntry(1, "a", "Pause"), upcoming=[settled])
    ledger.done(JournalEntry(1, "a", "Pause"), [settled])
    assert cluster.written == []


def test_an_entry_that_was_refused_fails_its_connector_alone(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.at, cluster.refuses = TargetState.STOPPED, True
    with pytest.raises(Failed, match="could not be kept"):
        ledger.done(JournalEntry(1, "a", "AlterOffsets"), [pin_record(LEDGER_KEY, "a", "p", PIN)])


def test_a_topic_wins_over_a_config_that_still_has_an_entry() -> None:
    newer = LedgerState({"a": replace(OWNED, applied_ms=19)}, {("a", "new"): PIN})
    both = {(name, "old"): PIN for name in ("a", "b")}
    of_b = replace(OWNED, config={"name": "b"})
    kept = LedgerState({"a": OWNED, "b": of_b}, both)
    configs = {name: {LEDGER_KEY: dump(kept, name)} for name in ("a", "b")} | {
        "c": {LEDGER_KEY: "?"}
    }
    merged = with_configs(newer, configs)
    assert merged.connectors == {**newer.connectors, "b": of_b}
    assert merged.pins.keys() == {("a", "new"), ("b", "old")}
