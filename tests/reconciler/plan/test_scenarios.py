"""Every file of scenarios/ is a world and the plan that belongs to it.

`specs` as a user writes them, `live` as observed; `actions` name the fields that matter, in full
order; `errors` and `warnings` are codes, of all of which `places` and parts of their `messages` may
be given; `human` is the whole text where it is given.
`allow_empty` and `max_deletes` are the options. Each law that holds for every plan runs on the
scenarios that could break it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connect_reconciler.actions import Restart
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import check_plan, remaining
from connect_reconciler.render.plan_file import dump_plan, load_plan, plan_document
from connect_reconciler.render.plan_text import render_plan
from connect_reconciler.render.texts import COLOUR
from connect_specs.diagnostics import Location
from support.plans import after
from support.scenarios import (
    Scenario,
    actions_of,
    can_be_applied,
    every_scenario,
    scenarios_where,
)


@every_scenario
def test_plan_is_the_expected_one(scenario: Scenario) -> None:
    plan, expected = scenario.plan, scenario.expected
    actions = plan_document(plan)["actions"]
    for actual, wanted in zip(actions, expected.get("actions", []), strict=False):
        assert _restricted(actual, wanted) == wanted
    assert [each["action"] for each in actions] == [
        each["action"] for each in expected.get("actions", [])
    ]
    assert [each.code for each in plan.errors] == expected.get("errors", [])
    assert [each.code for each in plan.warnings] == expected.get("warnings", [])
    said = (*plan.errors, *plan.warnings)
    if "places" in expected:
        assert [str(each.where) for each in said] == expected["places"]
    if "messages" in expected:
        for each, part in zip(said, expected["messages"], strict=True):
            assert part in each.what


@scenarios_where(lambda expected: "errors" in expected or "warnings" in expected)
def test_diagnostics_say_whether_they_are_errors(scenario: Scenario) -> None:
    assert {each.severity for each in scenario.plan.errors} <= {"error"}
    assert {each.severity for each in scenario.plan.warnings} <= {"warning"}


@scenarios_where(lambda expected: "human" in expected)
def test_text_is_the_expected_one(scenario: Scenario) -> None:
    assert render_plan(scenario.plan) == scenario.expected["human"]


@scenarios_where(lambda expected: actions_of(expected))
def test_plan_is_not_stale_where_it_was_made(scenario: Scenario) -> None:
    assert check_plan(scenario.plan, scenario.live) == ()


@scenarios_where(lambda expected: actions_of(expected))
def test_what_is_left_of_a_plan_that_has_not_begun_is_the_whole_plan(scenario: Scenario) -> None:
    """Else the cluster counts as changed since the plan was shown, and no apply can run it."""
    plan, live = scenario.plan, scenario.live
    assert remaining(plan, plan, live, partly_done=True) == plan


@scenarios_where(lambda expected: can_be_applied(expected) and actions_of(expected))
def test_plan_after_apply_is_empty(scenario: Scenario) -> None:
    applied = after(scenario.live, scenario.desired, scenario.plan.actions)
    assert _plan(scenario, applied).actions == ()


@scenarios_where(lambda expected: can_be_applied(expected) and len(actions_of(expected)) > 1)
def test_every_prefix_converges(scenario: Scenario) -> None:
    desired, actions = scenario.desired, scenario.plan.actions
    whole = after(scenario.live, desired, actions)
    for length in range(1, len(actions)):
        part = after(scenario.live, desired, actions[:length])
        rest = _plan(scenario, part)
        assert check_plan(rest, part) == ()
        end = after(part, desired, rest.actions)
        assert _plan(scenario, end).actions == ()
        assert {name: each.target for name, each in end.connectors.items()} == {
            name: each.target for name, each in whole.connectors.items()
        }
        assert end.ledger.pins == whole.ledger.pins
        assert end.ledger.renames == whole.ledger.renames


@scenarios_where(lambda expected: not expected.keys().isdisjoint(("actions", "errors", "warnings")))
def test_plan_file_holds_all_of_the_plan(scenario: Scenario) -> None:
    loaded = load_plan(dump_plan(scenario.plan))
    bare = replace(scenario.plan, warnings=(), errors=())
    assert replace(loaded, warnings=(), errors=()) == bare
    assert _texts(loaded) == _texts(scenario.plan)


@scenarios_where(lambda expected: "hunter" in str([expected.get("specs"), expected.get("live")]))
def test_no_secret_leaves(scenario: Scenario) -> None:
    for text in (
        dump_plan(scenario.plan),
        render_plan(scenario.plan),
        render_plan(scenario.plan, COLOUR),
        repr(scenario.plan),
    ):
        assert "hunter" not in text


@scenarios_where(lambda expected: "FAILED" in str(expected.get("live")))
def test_a_failed_connector_alone_is_not_restarted(scenario: Scenario) -> None:
    """A plan restarts only what it pauses or resumes; `connect restart` is for the others."""
    for action in scenario.plan.actions:
        if isinstance(action, Restart):
            own = [each for each in scenario.plan.actions if each.connector == action.connector]
            assert len(own) > 1


def _plan(scenario: Scenario, live: Live) -> Plan:
    worker = scenario.expected.get("worker")
    return make_plan(scenario.desired, live, group_id="connect", worker=worker)


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
