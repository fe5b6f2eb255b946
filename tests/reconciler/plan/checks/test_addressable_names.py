"""Names that a cluster's REST API cannot address: an error of the plan, and nothing is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Desired, DesiredConnector, TargetState
from connect_specs.diagnostics import Location
from support.applying import names

ODD = ("a/b", "a%b", "a\\b", "a%2Fb")
FINE = ("a b", "a?b", "a#b", "a;b", "a+b", "a&b=c", "aéb", "a日b", "a|b", "a.b")


def spec(name: str) -> DesiredConnector:
    config = {"name": name, "connector.class": "FileStreamSink", "topics": "t"}
    return DesiredConnector(name, config, Location("a.yaml", 1, 7))


def live_with(name: str, *, owned: bool) -> Live:
    there = LiveConnector(name, "sink", spec(name).config, TargetState.RUNNING)
    ledger = LedgerState({name: Owned("orders", spec(name).config, None)} if owned else {})
    return Live(connectors={name: there}, ledger=ledger)


def plan_of(live: Live, *specs: DesiredConnector) -> Plan:
    return make_plan(Desired("orders", {each.name: each for each in specs}), live, group_id="g")


@pytest.mark.parametrize("name", [*ODD, "a{b", "a}b"])
def test_none_is_created(name: str) -> None:
    plan = plan_of(Live(), spec(name), spec("fine"))
    (error,) = plan.errors
    assert (error.code, str(error.where)) == ("plan.name-not-addressable", "a.yaml:1:7")
    assert names(plan) == ["Create fine"]


@pytest.mark.parametrize("name", FINE)
def test_every_other_name_is(name: str) -> None:
    assert plan_of(Live(), spec(name)).errors == ()


@pytest.mark.parametrize("name", ODD)
def test_none_is_adopted_changed_stopped_or_deleted(name: str) -> None:
    changed = replace(spec(name), config={**spec(name).config, "topics": "u"})
    stopped = replace(spec(name), state=TargetState.STOPPED)
    owned = live_with(name, owned=True)
    for plan in (
        plan_of(live_with(name, owned=False), spec(name)),
        plan_of(owned, changed),
        plan_of(owned, stopped),
        plan_of(owned),
        plan_of(owned, replace(spec("new"), renamed_from=name)),
    ):
        assert [each.code for each in plan.errors] == ["plan.name-not-addressable"]
        assert plan.actions == ()


@pytest.mark.parametrize("name", ODD)
def test_one_that_is_as_its_spec_says_stays(name: str) -> None:
    plan = plan_of(live_with(name, owned=True), spec(name))
    assert (plan.errors, plan.empty) == ((), True)
    gone = replace(live_with(name, owned=True), connectors={})
    assert names(plan_of(gone)) == [f"Forget {name}"]


@pytest.mark.parametrize(("version", "refused"), [("3.9.1", 0), ("7.6.1-ccs", 0), ("4.0.0", 4)])
def test_before_4_0_workers_address_slashes(version: str, refused: int) -> None:
    plan = plan_of(Live(version=version), *map(spec, ODD))
    assert len(plan.errors) == refused
    assert len(plan_of(Live(version=version), spec("a{b")).errors) == 1


def test_our_runtime_addresses_all_that_it_creates() -> None:
    ours = Live(ours=True)
    assert plan_of(ours, spec("a%b"), spec("a\\b"), spec("a{b")).errors == ()
    (error,) = plan_of(ours, spec("a/b")).errors
    assert "our runtime's" in error.what
    existing = replace(live_with("a/b", owned=True), ours=True)
    assert names(plan_of(existing)) == ["Delete a/b"]
