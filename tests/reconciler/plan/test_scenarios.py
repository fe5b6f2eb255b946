"""Every file of scenarios/ is a world and the plan that belongs to it.

`specs` as a user writes them, `live` as observed; `actions` name the fields that matter, in full
order; `errors` and `warnings` are codes; `human` is the whole text where it is given.
`allow_empty` and `max_deletes` are the options. What holds for every plan is asserted on every
scenario too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.plan.actions import Restart
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.plan_file.actions import action_to
from connect_reconciler.plan.plan_file.file import dump_plan, load_plan
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.predict import check_plan
from connect_reconciler.render.human import render_plan
from connect_reconciler.render.style import COLOUR
from connect_specs.desired import DeleteLimits, Desired
from connect_specs.diagnostics import Location
from support.plans import after, desired_of, live_of

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))
FIELDS = {
    "about",
    "specs",
    "live",
    "worker",
    "actions",
    "errors",
    "warnings",
    "places",
    "human",
} | {
    "allow_empty",
    "max_deletes",
}


@dataclass(frozen=True)
class Scenario:
    expected: dict[str, Any]
    desired: Desired
    live: Live
    plan: Plan


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Scenario:
    expected = yaml.safe_load(request.param.read_text())
    assert expected.keys() <= FIELDS
    desired = desired_of(expected.get("specs", ""), tmp_path)
    live = live_of(expected.get("live", {}), desired)
    limits = DeleteLimits(expected.get("max_deletes"), expected.get("allow_empty", False))
    worker = expected.get("worker")
    plan = make_plan(desired, live, group_id="connect", worker=worker, deletes=limits)
    return Scenario(expected, desired, live, plan)


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 50


def test_plan_is_the_expected_one(scenario: Scenario) -> None:
    plan, expected = scenario.plan, scenario.expected
    actions = [action_to(action).model_dump(mode="json") for action in plan.actions]
    for actual, wanted in zip(actions, expected.get("actions", []), strict=False):
        assert _restricted(actual, wanted) == wanted
    assert [each["action"] for each in actions] == [
        each["action"] for each in expected.get("actions", [])
    ]
    assert [each.code for each in plan.errors] == expected.get("errors", [])
    assert [each.code for each in plan.warnings] == expected.get("warnings", [])
    if "places" in expected:
        places = [str(each.where) for each in (*plan.errors, *plan.warnings)]
        assert places == expected["places"]


def test_text_is_the_expected_one(scenario: Scenario) -> None:
    text = render_plan(scenario.plan)
    assert text == scenario.expected.get("human", text)


def test_plan_is_not_stale_where_it_was_made(scenario: Scenario) -> None:
    assert check_plan(scenario.plan, scenario.live) == ()


def test_plan_after_apply_is_empty(scenario: Scenario) -> None:
    if scenario.plan.errors:
        return  # never applied
    applied = after(scenario.live, scenario.desired, scenario.plan.actions)
    worker = scenario.expected.get("worker")
    assert make_plan(scenario.desired, applied, group_id="connect", worker=worker).actions == ()


def test_every_prefix_converges(scenario: Scenario) -> None:
    if scenario.plan.errors:
        return  # never applied
    desired, actions = scenario.desired, scenario.plan.actions
    whole = after(scenario.live, desired, actions)
    for length in range(len(actions)):
        part = after(scenario.live, desired, actions[:length])
        rest = make_plan(desired, part, group_id="connect")
        assert check_plan(rest, part) == ()
        end = after(part, desired, rest.actions)
        assert make_plan(desired, end, group_id="connect").actions == ()
        assert {name: each.target for name, each in end.connectors.items()} == {
            name: each.target for name, each in whole.connectors.items()
        }
        assert end.ledger.pins == whole.ledger.pins
        assert end.ledger.renames == whole.ledger.renames


def test_plan_file_holds_all_of_the_plan(scenario: Scenario) -> None:
    loaded = load_plan(dump_plan(scenario.plan))
    assert replace(loaded, warnings=(), errors=()) == replace(scenario.plan, warnings=(), errors=())
    assert _texts(loaded) == _texts(scenario.plan)


def test_no_secret_leaves(scenario: Scenario) -> None:
    for text in (
        dump_plan(scenario.plan),
        render_plan(scenario.plan),
        render_plan(scenario.plan, COLOUR),
        repr(scenario.plan),
    ):
        assert "hunter" not in text


def test_restart_is_no_part_of_a_plan_for_a_failed_connector_alone(scenario: Scenario) -> None:
    actions = scenario.plan.actions
    if any(isinstance(action, Restart) for action in actions):
        assert len(actions) > 1


def _texts(plan: Plan) -> list[str]:
    return [
        f"{each.where if isinstance(each.where, Location | str) else ''} {each.what} {each.hint}"
        for each in (*plan.errors, *plan.warnings)
    ]


def _restricted(actual: Any, wanted: Any) -> Any:
    """`actual` without the fields that `wanted` does not name; `secret: any` fits any secret."""
    if wanted == {"secret": "any"}:
        is_secret = isinstance(actual, dict) and actual.keys() == {"secret"} and actual["secret"]
        return wanted if is_secret else actual
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return {key: _restricted(actual.get(key), value) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(actual, list) and len(actual) == len(wanted):
        return [_restricted(*pair) for pair in zip(actual, wanted, strict=True)]
    return actual
