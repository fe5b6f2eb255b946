"""A plan file is believed in nothing: it is applied if the specs and the cluster give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.model.actions import (
    Action,
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    Pause,
    Protect,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.live import Live, LogRange
from connect_reconciler.model.plan import Plan
from connect_reconciler.model.reasons import NO_REASON, as_reason
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.verification import planned_again
from connect_reconciler.render.effects import move_text
from connect_reconciler.render.plan_file.file import dump_plan, load_plan
from connect_specs.desired import Desired, OffsetEntry
from connect_specs.diagnostics import Stale
from support.plans import KEY, desired_of, live_of
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
    lies = tuple(replace(each, reason=as_reason("harmless"), effects=()) for each in plan.actions)
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
        _more(a=Protect(connector="fresh", reason=NO_REASON, prevent_delete=True)),
        "it does `create, protect`",
    ),
    "a connector of others": (
        _more(a=Delete(connector="others", reason=NO_REASON)),
        "neither a spec nor the ledger has it",
    ),
    "a connector that is there": (
        _more(a=Pause(connector="nowhere", reason=NO_REASON)),
        "neither a spec nor the ledger has it",
    ),
    "an action twice": (
        _more(a=Stop(connector="gone", reason=NO_REASON)),
        "it does `delete, stop`",
    ),
    "offsets of another": (
        _more(a=CarryOffsets(connector="fresh", reason=NO_REASON, old="archive", moves=())),
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
    for before, after in ((live, knowing), (knowing, live)):
        saved = make_plan(desired, before, group_id="connect")
        assert planned_again(saved, desired, after).actions == (
            make_plan(desired, after, group_id="connect").actions
        )
    other = desired_of("name: a\nconfig: {connector.class: X, pin: hunter3}\n", tmp_path)
    with pytest.raises(Stale):
        planned_again(make_plan(other, live, group_id="connect"), desired, knowing)


@pytest.mark.parametrize(
    ("to", "planned", "here", "log", "taken"),
    [
        ("latest", 600, 450, (100, 900), True),  # it grew since
        ("latest", 600, None, (100, 900), True),
        ("latest", 600, 700, (100, 900), False),  # the sink has read past it: it would go back
        ("latest", 400, 450, (100, 900), False),  # crafted: further back than it is
        ("latest", 901, 450, (100, 900), False),
        ("earliest", 100, 450, (100, 900), True),
        ("earliest", 100, 450, (101, 900), False),  # gone since
        ("earliest", 500, 450, (100, 900), False),  # crafted: ahead
    ],
)
def test_the_numbers_of_a_place_are_the_plans(
    to: str, planned: int, here: int | None, log: tuple[int, int], taken: bool, tmp_path: Path
) -> None:
    """`to` was resolved in the plan: as long as that lies on the way, its numbers are applied."""
    config = "config: {connector.class: FileStreamSink, topics: orders}"
    desired = desired_of(f"name: a\n{config}\noffsets: {{pin: p, to: {to}}}\n", tmp_path)
    world: dict[str, Any] = {
        "connectors": {"a": {"config": {"connector.class": "FileStreamSink", "topics": "orders"}}},
        "logs": {"orders-0": list(log)},
        "ledger": {"connectors": {"a": {}}},
    }
    if here is not None:
        world["connectors"]["a"]["offsets"] = {"orders-0": here}
    live = live_of(world, desired)

    def numbered(action: Action) -> Action:
        if not isinstance(action, AlterOffsets):
            return action
        (move,) = action.moves
        entry = OffsetEntry(move.entry.partition, {"kafka_offset": planned})
        return replace(action, moves=(replace(move, entry=entry),))

    saved = _of(make_plan(desired, live, group_id="connect"), numbered)
    if not taken:
        with pytest.raises(Stale, match="another offset"):
            planned_again(saved, desired, live)
        return
    again = planned_again(saved, desired, live)
    (moved,) = (each for each in again.actions if isinstance(each, AlterOffsets))
    (move,) = moved.moves
    assert move.entry.offset == {"kafka_offset": planned}
    assert f"{here if here is not None else 'none'} → {planned}" in move_text(move)
    assert live.logs.ranges["orders", 0] == LogRange(*log)
