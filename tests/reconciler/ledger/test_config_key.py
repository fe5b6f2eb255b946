"""The ledger in a connector's config: when it is written, and that it says what was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from connect_reconciler.ledger.config_key import (
    ConfigKeyLedger,
    dump_entry,
    load_entry,
    load_ledger,
)
from connect_reconciler.ledger.journal import Step
from connect_reconciler.ledger.topic import LedgerUnreadable, owned_record, pin_record
from connect_reconciler.plan.live import AppliedPin, LedgerState, Owned
from connect_reconciler.plan.rename import rename_pin
from connect_reconciler.plan.reserved import LEDGER_KEY
from connect_runtime.herder.errors import RequestError
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Failed
from connect_specs.states import TargetState

OWNED = Owned(
    "orders",
    {"name": "a", "db.password": "${file:/secrets:db}", "topic": "t$1"},
    None,
    prevent_delete=True,
    held_from=TargetState.PAUSED,
    applied_ms=17,
)
PIN = AppliedPin("h", (OffsetEntry({"p": "ü"}, {"o": 2}), OffsetEntry({"p": 1}, None)), 18, True)


@dataclass
class Cluster:
    """One connector; remembers each entry that is written."""

    stopped: bool = False
    refuses: bool = False
    written: list[str] = field(default_factory=list)

    def is_stopped(self, name: str) -> bool:
        return self.stopped

    def keep(self, name: str, entry: str) -> None:
        if self.refuses:
            raise RequestError(500, "no")
        self.written.append(entry)

    @property
    def last(self) -> tuple[Owned, dict[str, AppliedPin]]:
        return load_entry("a", self.written[-1])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def ledger(cluster: Cluster) -> ConfigKeyLedger:
    return ConfigKeyLedger(LedgerState({"a": OWNED}), cluster)


def test_what_is_read_is_what_was_written() -> None:
    state = LedgerState({"a": OWNED}, {("a", "p"): PIN, ("b", "q"): PIN})
    assert load_entry("a", dump_entry("a", state)) == (OWNED, {"p": PIN})
    assert dump_entry("c", state) == ""


def test_connect_finds_no_reference_in_an_entry() -> None:
    assert "$" not in dump_entry("a", LedgerState({"a": OWNED}))


def test_a_target_state_is_not_kept() -> None:
    state = LedgerState({"a": replace(OWNED, state=TargetState.RUNNING)})
    assert load_entry("a", dump_entry("a", state))[0].state is None


@pytest.mark.parametrize("text", ["", "****", "[hidden]", "{}", '{"v":2}', '{"v":1,"project":1}'])
def test_what_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(LedgerUnreadable, match=LEDGER_KEY):
        load_entry("a", text)


def test_a_rename_is_over_once_the_old_name_is_gone() -> None:
    record = rename_pin("old")
    entry = dump_entry("a", LedgerState({"a": OWNED}, {("a", record): PIN, ("a", "p"): PIN}))
    configs = {"a": {LEDGER_KEY: entry}}
    assert load_ledger(configs, pytest.fail).pins.keys() == {("a", "p")}  # type: ignore[arg-type]
    both = load_ledger(configs | {"old": {}}, pytest.fail)  # type: ignore[arg-type]
    assert both.pins.keys() == {("a", "p"), ("a", record)}


def test_a_config_holds_what_its_action_is_going_to_record(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    step = Step(1, "a", "UpdateConfig")
    new = owned_record(LEDGER_KEY, "a", replace(OWNED, config={"name": "a"}))
    ledger.started(step, then=[new])
    assert ledger.state.connectors["a"] == OWNED
    assert load_entry("a", ledger.entry("a"))[0].config == {"name": "a"}
    ledger.done(step, [new])
    assert ledger.state.connectors["a"].config == {"name": "a"}
    assert cluster.written == []


def test_what_brings_a_connector_back_is_written_before_it_is_stopped(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    held = replace(OWNED, held_from=TargetState.RUNNING)
    ledger.started(Step(1, "a", "Stop"), [owned_record(LEDGER_KEY, "a", held)])
    assert cluster.last[0].held_from is TargetState.RUNNING


def test_what_a_running_connector_owes_is_written_once_it_stopped(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    unprotected = replace(OWNED, prevent_delete=False, held_from=None)
    ledger.done(Step(1, "a", "Protect"), [owned_record(LEDGER_KEY, "a", unprotected)])
    ledger.started(Step(2, "a", "Stop"))
    assert cluster.written == []
    cluster.stopped = True
    ledger.done(Step(2, "a", "Stop"))
    assert cluster.last[0] == unprotected


def test_a_pin_is_written_before_its_action_is_done(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.stopped = True
    step = Step(1, "a", "AlterOffsets")
    ledger.started(step)
    assert cluster.written == []
    ledger.done(step, [pin_record(LEDGER_KEY, "a", "p", PIN)])
    assert cluster.last[1] == {"p": PIN}


def test_a_resume_is_recorded_before_it_runs(cluster: Cluster, ledger: ConfigKeyLedger) -> None:
    cluster.stopped = True
    settled = owned_record(LEDGER_KEY, "a", replace(OWNED, held_from=None))
    ledger.started(Step(1, "a", "Resume"), then=[settled])
    assert cluster.last[0].held_from is None
    cluster.stopped = False
    ledger.done(Step(1, "a", "Resume"), [settled])
    assert len(cluster.written) == 1


def test_an_entry_that_was_refused_fails_its_connector_alone(
    cluster: Cluster, ledger: ConfigKeyLedger
) -> None:
    cluster.stopped = cluster.refuses = True
    with pytest.raises(Failed, match="could not be kept"):
        ledger.done(Step(1, "a", "AlterOffsets"), [pin_record(LEDGER_KEY, "a", "p", PIN)])
