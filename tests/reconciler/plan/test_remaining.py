"""A plan file is believed in nothing: it is applied if the specs and the cluster give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.actions import (
    Action,
    AlterOffsets,
    CopyOffsets,
    Create,
    Delete,
    Forget,
    Pause,
    Protect,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import remaining, scope_of
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_specs.desired import Desired, OffsetEntry
from connect_specs.diagnostics import Stale
from support.plan_sources import planned_again
from support.plans import KEY, after, desired_of, live_of
from support.scenarios import Scenario, actions_of, can_be_applied, scenarios_where

SPECS = """
name: archive
config: {connector.class: FileStreamSink, topics: orders, password: hunter2, tasks.max: 2}
offsets:
  pin: rewind
  set:
    - partition: {kafka_topic: orders, kafka_partition: 0}
      offset: {kafka_offset: 200}
---
name: fresh
config: {connector.class: FileStreamSink, topics: orders, file: /data/fresh}
"""
LIVE: Mapping[str, Any] = {
    "connectors": {
        "archive": {
            "config": {"connector.class": "FileStreamSink", "topics": "orders", "tasks.max": "1"},
            "offsets": {"orders-0": 450},
        },
        "gone": {"config": {"connector.class": "FileStreamSink", "topics": "orders"}},
        "others": {"config": {"connector.class": "FileStreamSink", "topics": "orders"}},
    },
    "logs": {"orders-0": [100, 600]},
    "ledger": {"connectors": {"archive": {}, "gone": {}}},
}


@pytest.fixture
def world(tmp_path: Path) -> tuple[Desired, Live, Plan]:
    desired = desired_of(SPECS, tmp_path)
    live = live_of(LIVE, desired)
    return desired, live, make_plan(desired, live, group_id="connect")


@scenarios_where(lambda expected: can_be_applied(expected) and actions_of(expected))
def test_what_the_specs_give_is_taken(scenario: Scenario) -> None:
    worker = scenario.expected.get("worker")
    saved = load_plan(dump_plan(scenario.plan))
    again = planned_again(saved, scenario.desired, scenario.live, worker)
    assert again.actions == scenario.plan.actions


def test_words_of_the_file_are_not_shown(world: tuple[Desired, Live, Plan]) -> None:
    desired, live, plan = world
    lies = tuple(replace(each, reason="harmless", effects=()) for each in plan.actions)
    assert planned_again(replace(plan, actions=lies), desired, live).actions == plan.actions


def _of(plan: Plan, change: Callable[[Action], Action | None]) -> Plan:
    changed = (change(each) for each in plan.actions)
    return replace(plan, actions=tuple(each for each in changed if each is not None))


def _config(action: Action) -> Action:
    if isinstance(action, Create):
        return replace(action, config={**action.config, "file": Plain("/etc/passwd")})
    return action


def _secret(action: Action) -> Action:
    if isinstance(action, UpdateConfig):
        mark = Secret(fingerprint(KEY, "archive", "password", "hunter3"))
        return replace(action, config={**action.config, "password": mark})
    return action


def _offset(action: Action) -> Action:
    if isinstance(action, AlterOffsets):
        (move,) = action.moves
        entry = replace(move.entry, offset={"kafka_offset": 100})
        return replace(action, moves=(replace(move, entry=entry),))
    return action


def _more(**actions: Action) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, actions=(*plan.actions, *actions.values()))


CRAFTED: Mapping[str, tuple[Callable[[Plan], Plan], str]] = {
    "another value": (lambda plan: _of(plan, _config), "in `create` it has another file"),
    "another secret": (
        lambda plan: _of(plan, _secret),
        "in `change config` it has another password",
    ),
    "another offset": (lambda plan: _of(plan, _offset), "it has another offset of"),
    "another state": (
        lambda plan: _of(plan, lambda a: None if isinstance(a, Resume) else a),
        "they give `stop, change config, set offsets, resume`",
    ),
    "another guard": (
        _more(a=Protect(connector="fresh", prevent_delete=True)),
        "it does `create, protect`",
    ),
    "a connector of others": (
        _more(a=Delete(connector="others")),
        "neither a spec nor the ledger has it",
    ),
    "a connector that is there": (
        _more(a=Pause(connector="nowhere")),
        "neither a spec nor the ledger has it",
    ),
    "an action twice": (
        _more(a=Stop(connector="gone")),
        "it does `delete, stop`",
    ),
    "offsets of another": (
        _more(a=CopyOffsets(connector="fresh", source="archive", moves=())),
        "it does `create, carry offsets`",
    ),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_what_the_specs_do_not_give_is_refused(
    world: tuple[Desired, Live, Plan], what: str
) -> None:
    """What was approved is what is applied, whoever wrote the file and its hash."""
    desired, live, plan = world
    craft, said = CRAFTED[what]
    crafted = load_plan(dump_plan(craft(plan)))
    with pytest.raises(Stale) as refused:
        planned_again(crafted, desired, live)
    assert said in str(refused.value)
    assert {each.code for each in refused.value.diagnostics} == {"stale.specs"}
    assert all(each.hint for each in refused.value.diagnostics)


def test_a_plan_about_a_part_is_taken(world: tuple[Desired, Live, Plan]) -> None:
    """One that was made with --target; but all that happens to a connector, or nothing."""
    desired, live, plan = world
    part = _of(plan, lambda action: action if action.connector == "fresh" else None)
    again = planned_again(part, desired, live)
    assert again.actions == part.actions and again.warnings == ()
    assert planned_again(replace(plan, actions=()), desired, live).actions == ()


def test_who_planned_may_not_have_known_what_is_secret(tmp_path: Path) -> None:
    """A job that may only read cannot always ask which keys hold passwords."""
    desired = desired_of("name: a\nconfig: {connector.class: X, pin: hunter2}\n", tmp_path)
    live = live_of({}, desired)
    knowing = replace(live, password_keys={"a": frozenset({"pin"})})
    for planned, applied in ((live, knowing), (knowing, live)):
        saved = make_plan(desired, planned, group_id="connect")
        assert planned_again(saved, desired, applied).actions == (
            make_plan(desired, applied, group_id="connect").actions
        )
    other = desired_of("name: a\nconfig: {connector.class: X, pin: hunter3}\n", tmp_path)
    with pytest.raises(Stale):
        planned_again(make_plan(other, live, group_id="connect"), desired, knowing)


@pytest.mark.parametrize("to", ["latest", "earliest"])
def test_the_numbers_of_a_place_are_never_the_files(to: str, tmp_path: Path) -> None:
    """Where `to` leads is read when the sink is stopped: what a file says of that is an estimate,
    or crafted."""
    config = "config: {connector.class: FileStreamSink, topics: orders}"
    desired = desired_of(f"name: a\n{config}\noffsets: {{pin: p, to: {to}}}\n", tmp_path)
    sink = {"config": {"connector.class": "FileStreamSink", "topics": "orders"}}
    world: dict[str, Any] = {
        "connectors": {"a": {**sink, "offsets": {"orders-0": 450}}},
        "logs": {"orders-0": [100, 600]},
        "ledger": {"connectors": {"a": {}}},
    }
    plan = make_plan(desired, live_of(world, desired), group_id="connect")

    def crafted(action: Action) -> Action:
        if not isinstance(action, AlterOffsets):
            return action
        (move,) = action.moves
        entry = OffsetEntry(move.entry.partition, {"kafka_offset": 333})
        return replace(action, moves=(replace(move, entry=entry),))

    later = live_of({**world, "logs": {"orders-0": [200, 900]}}, desired)
    now = make_plan(desired, later, group_id="connect")
    # Earlier programs did not write the place itself
    for saved in (plan, _of(plan, crafted), _of(plan, lambda a: _without_to(a))):
        assert planned_again(saved, desired, later).actions == now.actions
    other = {"latest": "earliest", "earliest": "latest"}[to]
    elsewhere = desired_of(f"name: a\n{config}\noffsets: {{pin: p, to: {other}}}\n", tmp_path)
    with pytest.raises(Stale):
        planned_again(plan, elsewhere, later)


def _without_to(action: Action) -> Action:
    return replace(action, to=None) if isinstance(action, AlterOffsets) else action


def test_the_delete_of_a_rename_does_not_stand_for_forgetting_its_new_name(tmp_path: Path) -> None:
    """The trap: an apply is killed, its spec and the new connector go, and the plan is applied
    again: what it does then was never approved."""
    config = "config: {connector.class: FileStreamSink, topics: orders}"
    desired = desired_of(f"name: new\nrenamed_from: old\n{config}\n", tmp_path)
    sink = {"config": {"connector.class": "FileStreamSink", "topics": "orders"}}
    live = live_of({"connectors": {"old": sink}, "ledger": {"connectors": {"old": {}}}}, desired)
    agreed = make_plan(desired, live, group_id="connect")
    begun = after(live, desired, agreed.actions[:2])
    gone = replace(begun, connectors={"old": begun.connectors["old"]})
    without = desired_of("", tmp_path)
    scope = scope_of(agreed, without, gone)
    current = make_plan(without, gone, group_id="connect", scope=scope)
    assert [type(each) for each in current.actions] == [Forget]
    with pytest.raises(Stale):
        remaining(agreed, current, gone, partly_done=True)
