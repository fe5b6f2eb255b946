"""A saved plan whose apply was killed: the same file again does what is left, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.actions import AlterOffsets, ResetOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.ledger.journal import Ending
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_specs.desired import Desired, Pin
from connect_specs.diagnostics import Stale
from support.applying import Applying, desired_of, names
from support.dooming import Doom
from support.fake_cluster import FakeCluster
from support.plan_sources import planned_again, source_of
from support.rollbacks import (
    PAUSED,
    RUNNING,
    SINK,
    SOURCE,
    STOPPED,
    apply,
    at,
    ledger,
    new_world,
    picture,
    spec,
)

FIRST = desired_of(
    spec("changed", {**SINK, "db.password": "hunter2"}, RUNNING),
    spec("deleted", SOURCE, pin=Pin("d", reset=True)),
    spec("ended", SOURCE, RUNNING),
    spec("old", SINK, RUNNING),
)
FILES = desired_of(
    spec("changed", {**SINK, "db.password": "hunter3"}, PAUSED, Pin("p", (at(3),)), guard=True),
    spec("created", SINK, RUNNING, Pin("c", (at(4),)), guard=True),
    spec("ended", SOURCE, STOPPED),
    spec("new", SINK, RUNNING, Pin("r", (at(5),)), old="old"),
)


def planned(world: Applying, saved: Plan, files: Desired) -> Plan:
    """As `connect apply FILE` plans. Raises Stale."""
    return source_of(files, world.observe, lambda: ledger(world), saved=saved).plan().plan


def before() -> tuple[Applying, Plan]:
    world = new_world()
    apply(world, FIRST)
    for name in ("changed", "old"):
        world.kafka.groups[f"connect-{name}"] = {("t", 0): 70}
    return world, load_plan(dump_plan(world.plan(FILES)))


def killed(world: Applying, plan: Plan, doom: Doom) -> bool:
    world.time.at += 10
    return world.killed(FILES, doom, plan)


def ended(world: Applying) -> bool:
    """Whether it was killed after its very last record."""
    _, *begun = ledger(world).of_project("orders")
    return bool(begun) and begun[-1].ending is Ending.DONE


@pytest.mark.parametrize("effect", [True, False], ids=["before its effect", "after its effect"])
def test_a_killed_apply_of_a_file_goes_on(effect: bool) -> None:
    """Killed at any point, and once more on the way: it converges, and no pin moves offsets
    twice."""
    world, saved = before()
    apply(world, FILES, planned(world, saved, FILES))
    wanted = picture(world, FILES)
    with pytest.raises(Stale):
        planned(world, saved, FILES)  # it is done
    for call in range(1 + effect, 200, 3):
        world, saved = before()
        if not killed(world, planned(world, saved, FILES), Doom(call, before=effect)):
            break
        if not ended(world):
            again = Doom(4 + call % 9, before=effect)
            if killed(world, planned(world, saved, FILES), again) and not ended(world):
                apply(world, FILES, planned(world, saved, FILES))
        assert picture(world, FILES) == wanted, call
        assert names(world.plan(FILES)) == [], call
    assert call > 50


def halfway() -> tuple[Applying, Plan]:
    world, saved = before()
    assert killed(world, planned(world, saved, FILES), Doom(12, before=True))
    return world, saved


def test_what_is_left_is_said() -> None:
    world, saved = halfway()
    left = planned(world, saved, FILES)
    begun = ledger(world).of_project("orders")[-1]
    assert left.warnings[0].what == (
        f"apply {begun.id} did not end this plan:"
        f" {len(left.actions)} of its {len(saved.actions)} actions are left to do"
    )
    assert 0 < len(left.actions) < len(saved.actions)


def test_what_is_not_left_of_it_is_refused() -> None:
    """Other specs, another hand, another plan, another apply since."""
    world, saved = halfway()
    specs = {**FILES.connectors, "created": spec("created", {**SINK, "file": "x"}, RUNNING)}
    with pytest.raises(Stale, match="not what is left of this plan"):
        planned(world, saved, Desired("orders", specs))
    world, saved = halfway()
    FakeCluster(world.kafka).create("created", {**SINK, "name": "created"}, RUNNING)
    with pytest.raises(Stale, match="not what is left of this plan"):
        planned(world, saved, FILES)
    world, saved = halfway()
    fewer = load_plan(dump_plan(replace(saved, actions=saved.actions[1:])))
    with pytest.raises(Stale):
        planned(world, fewer, FILES)
    world, saved = halfway()
    apply(
        world, desired_of(*(each for each in FILES.connectors.values() if each.name != "created"))
    )
    with pytest.raises(Stale):
        planned(world, saved, FILES)


HOTFIXES = {
    "a value that the plan changes": ({"a": "3"}, "its config was changed since the plan .*: a"),
    "a key that the plan does not show": (
        {"b": "9"},
        "its config was changed since the plan .*: b",
    ),
    "a key that is new": ({"c": "9"}, "its config was changed since the plan .*: c"),
}


@pytest.mark.parametrize("fix", HOTFIXES)
def test_a_manual_hotfix_is_not_undone_by_what_is_left_of_a_plan(fix: str) -> None:
    """The trap: the plan runs again after it failed, and writes over what nobody approved."""
    changed, told = HOTFIXES[fix]
    world, before = new_world(), {**SINK, "a": "1", "b": "1"}
    apply(world, desired_of(spec("x", before, RUNNING), spec("y", before, RUNNING)))
    after = {**before, "a": "2"}
    files = desired_of(spec("x", after, RUNNING), spec("y", after, RUNNING))
    saved = load_plan(dump_plan(world.plan(files)))
    assert world.killed(files, Doom(6, before=True), planned(world, saved, files))
    assert names(planned(world, saved, files)) == ["UpdateConfig y"]
    FakeCluster(world.kafka).update_config("x", {**after, **changed, "name": "x"})
    with pytest.raises(Stale, match=told) as refused:
        planned(world, saved, files)
    assert refused.value.exit_code == 5


@pytest.mark.parametrize("action", ["delete", "stop"])
def test_what_is_left_relies_on_the_configs_that_the_plan_relied_on(action: str) -> None:
    world, config = new_world(), {**SINK, "a": "1"}
    apply(world, desired_of(spec("x", config, RUNNING), spec("y", config, RUNNING)))
    x = spec("x", {**config, "a": "2"}, RUNNING)
    files = desired_of(x) if action == "delete" else desired_of(x, spec("y", config, STOPPED))
    saved = load_plan(dump_plan(world.plan(files)))
    assert world.killed(files, Doom(2, before=True), planned(world, saved, files))
    assert any(name.endswith(" y") for name in names(planned(world, saved, files)))
    FakeCluster(world.kafka).update_config("y", {**config, "a": "7", "name": "y"})
    with pytest.raises(Stale, match=r"not the one that the plan relies on: a$|not what is"):
        planned(world, saved, files)


def pinned(pin: Pin | None) -> Desired:
    return desired_of(spec("a", pin=pin))


def redelivered(plan: Plan) -> int:
    """How many offsets it delivers again, in all."""
    moves = [
        move
        for action in plan.actions
        if isinstance(action, AlterOffsets | ResetOffsets)
        for move in action.moves
    ]
    assert moves
    return sum(move.counts.redelivered for move in moves if move.counts is not None)


def test_a_rewind_is_counted_from_where_the_connector_is_now() -> None:
    """Else a policy on how much may be delivered again would be asked about old numbers."""
    for pin, counts in ((Pin("p", (at(3),)), (2, 87)), (Pin("p", reset=True), (5, 90))):
        world = new_world()
        assert world.apply(pinned(None)).exit_code == 0
        world.kafka.groups["connect-a"] = {("t", 0): 5}
        wanted = pinned(pin)
        saved = load_plan(dump_plan(world.plan(wanted)))
        assert redelivered(saved) == counts[0]
        world.kafka.groups["connect-a"] = {("t", 0): 90}
        now = planned_again(saved, wanted, world.observe(wanted))
        assert redelivered(now) == counts[1]
        assert now == world.plan(wanted)
        assert world.apply(wanted, now).exit_code == 0
