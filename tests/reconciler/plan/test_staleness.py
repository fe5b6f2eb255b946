"""A plan is stale where what it relies on has moved; progress alone does not make it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.actions import (
    AlterOffsets,
    Create,
    Delete,
    Pause,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.actions.connector_state import States, changed, state_of
from connect_reconciler.actions.plan import Plan
from connect_reconciler.actions.preconditions import (
    Exists,
    check,
)
from connect_reconciler.model.ledger import AppliedPin, Owned
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import check_plan, unmet
from connect_specs.desired import Desired, TargetState
from support.plans import desired_of, live_of

CASES = yaml.safe_load(Path(__file__).with_name("stale.yaml").read_text())


@pytest.fixture
def desired(tmp_path: Path) -> Desired:
    return desired_of(CASES["specs"], tmp_path)


@pytest.fixture
def live(desired: Desired) -> Live:
    return live_of(CASES["live"], desired)


@pytest.fixture
def plan(desired: Desired, live: Live) -> Plan:
    plan = make_plan(desired, live, group_id="connect")
    assert [type(action) for action in plan.actions] == [
        Delete,
        Stop,
        UpdateConfig,
        AlterOffsets,
        Resume,
        Create,
    ]
    return plan


def moved(state: Mapping[str, Any], move: Mapping[str, Any]) -> dict[str, Any]:
    """The state with some of its fields changed, at any depth; null: they are gone."""
    found = dict(state)
    for key, value in move.items():
        if value is None:
            del found[key]
        else:
            found[key] = moved(found.get(key, {}), value) if isinstance(value, dict) else value
    return found


@pytest.mark.parametrize(
    ("move", "codes"), [pytest.param(move, codes, id=name) for name, move, codes in CASES["moves"]]
)
def test_stale(plan: Plan, desired: Desired, move: dict[str, Any], codes: list[str]) -> None:
    found = check_plan(plan, live_of(moved(CASES["live"], move), desired))
    assert [each.code for each in found] == codes
    assert "hunter" not in str(found)


@pytest.mark.parametrize(
    ("name", "changed", "key"),
    [
        ("archive", {"a": "3"}, "a"),
        ("archive", {"password": "x"}, "password"),
        ("old", {"b": "3"}, "b"),
    ],
)
def test_a_config_that_moved_is_named_by_its_keys(
    plan: Plan, desired: Desired, name: str, changed: dict[str, str], key: str
) -> None:
    """From the values that the plan changes, else from those that were applied last."""
    move = {"connectors": {name: {"config": changed}}}
    live = live_of(moved(CASES["live"], move), desired)
    applied = {**CASES["live"]["connectors"]["old"]["config"], "name": "old"}
    owners = {**live.ledger.connectors, "old": Owned("orders", applied, None)}
    known = replace(live, ledger=replace(live.ledger, connectors=owners))
    (found,) = check_plan(plan, known)
    assert found.what == f"its config is not the one that the plan relies on: {key}"


def test_each_action_is_checked_again_on_what_is_there_then(plan: Plan, live: Live) -> None:
    states: States = {"archive": state_of("archive", live, project="orders")}
    stop, update, alter, resume = (
        action for action in plan.actions if action.connector == "archive"
    )
    assert unmet(stop, states) == ()
    assert [each.code for each in unmet(update, states)] == ["stale.state"]
    for action in (stop, update):
        states = action.predict(states)
    assert [each.code for each in unmet(resume, states)] == ["stale.pin-missing"]
    someone_resumed = changed(states, "archive", target=TargetState.RUNNING)
    assert [each.code for each in unmet(alter, someone_resumed)] == ["stale.state"]
    assert states["archive"].target is not None
    assert unmet(resume, alter.predict(states)) == ()


def test_config_is_not_told_in_what_is_stale(live: Live) -> None:
    states = {"archive": state_of("archive", live, project="orders")}
    problem = check(Exists(config_fingerprint="00"), states, "archive")
    assert problem is not None
    assert problem.where == "archive"
    assert "hunter" not in repr(problem)
    assert "hunter" not in repr(state_of("archive", live, project="orders"))
    assert live.ledger.fingerprint_key is not None
    assert repr(live.ledger.fingerprint_key) not in repr(
        state_of("archive", live, project="orders")
    )


@pytest.mark.parametrize("action", [Pause, Resume])
def test_a_connector_that_is_let_go_is_held_to_nothing(
    live: Live, action: type[Pause] | type[Resume]
) -> None:
    """Its offsets move on from its pin, and there is no state left to restore."""
    stopped = replace(
        state_of("archive", live, project="orders"),
        target=TargetState.STOPPED,
        restore_to=TargetState.RUNNING,
        pins={"rewind": AppliedPin("x", None, held=True)},
    )
    let_go = action(connector="archive").predict({"archive": stopped})["archive"]
    assert let_go.restore_to is None
    assert not let_go.pins["rewind"].held
