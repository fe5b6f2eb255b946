"""Rollbacks after later changes: the plan lists what it undoes too, or is refused with a hint."""

from __future__ import annotations

import pytest

from connect_specs.desired import Desired, Pin, TargetState
from support.applying import Applying, desired_of, names
from support.dooming import Doom
from support.fake_cluster import FakeCluster
from support.rollbacks import (
    PAUSED,
    RUNNING,
    SINK,
    SOURCE,
    apply,
    at,
    back,
    ledger,
    new_world,
    picture,
    roll_back,
    spec,
)


def told(world: Applying, apply_id: str, files: Desired) -> list[str]:
    return [warning.what for warning in back(world, apply_id, files)[1].warnings]


def test_what_later_applies_changed_is_said_key_by_key(world: Applying) -> None:
    """A rollback undoes that, too."""
    apply(world, desired_of(spec("a")))
    world.kafka.groups["connect-a"] = {("t", 0): 70}
    second = apply(world, desired_of(spec("a", {**SINK, "x": "1"}, pin=Pin("p", (at(3),)))))
    third = apply(
        world,
        desired_of(spec("a", {**SINK, "x": "1", "y": "1", "db.password": "one"})),
    )
    now = desired_of(
        spec("a", {**SINK, "x": "1", "y": "1", "db.password": "two"}, PAUSED, Pin("q", (at(9),)))
    )
    fourth = apply(world, now)
    assert told(world, second, now)[0] == (
        f"a was changed since by apply {third} and {fourth}; that is undone too:"
        " db.password, y; running → paused; its offsets"
    )
    # offsets that the third did not move stay where the fourth put them
    _, plan = back(world, third, now)
    assert names(plan) == ["UpdateConfig a", "Resume a"]
    assert plan.warnings[0].what == (
        f"a was changed since by apply {fourth}; that is undone too: db.password; running → paused"
    )


def test_manual_changes_are_listed_key_by_key(world: Applying) -> None:
    apply(world, desired_of(spec("a", state=RUNNING), spec("gone")))
    files = desired_of(spec("a", {**SINK, "x": "1"}, RUNNING), spec("gone", {**SINK, "x": "1"}))
    second = apply(world, files)
    cluster = FakeCluster(world.kafka)
    cluster.update_config("a", {**SINK, "x": "2", "name": "a", "z": "1"})
    cluster.set_target("a", TargetState.STOPPED)
    cluster.delete("gone")
    assert told(world, second, files) == [
        "a was changed manually since; that is undone too: x, z; running → stopped",
        "gone was deleted manually since",
    ]


def test_deleted_and_created_since(world: Applying) -> None:
    apply(world, desired_of(spec("a"), spec("c")))
    second = apply(world, desired_of(spec("a", {**SINK, "x": "1"})))
    files = desired_of(spec("c", SOURCE))
    third = apply(world, files)
    assert told(world, second, files) == [
        f"a was changed since by apply {third}; that is undone too: its deletion",
        f"c was changed since by apply {third}; that is undone too: its creation",
    ]


def test_a_rollback_of_a_rollback_of_a_rollback(world: Applying) -> None:
    first = desired_of(spec("a", state=RUNNING), spec("gone", pin=Pin("p", (at(3),))))
    apply(world, first)
    world.kafka.groups["connect-gone"] = {("t", 0): 40}
    files = desired_of(spec("b", {**SINK, "x": "1"}, PAUSED, old="a"))
    pictures = [picture(world, files)]
    apply_id = apply(world, files)
    pictures.append(picture(world, files))
    for number in range(3):
        apply_id = roll_back(world, apply_id, files)
        assert picture(world, files) == pictures[number % 2]
    # rolling back what was rolled back already changes nothing
    second = ledger(world).of_project("orders")[1].id
    _, plan = back(world, second, files)
    assert plan.empty, plan.errors


@pytest.mark.parametrize("created", [True, False], ids=["it created", "it changed"])
def test_what_was_renamed_since_is_refused(world: Applying, created: bool) -> None:
    """It would run twice, under both names."""
    if not created:
        apply(world, desired_of(spec("a")))
    second = apply(world, desired_of(spec("a", {**SINK, "x": "1"})))
    files = desired_of(spec("b", {**SINK, "x": "1"}, old="a"))
    third = apply(world, files)
    _, plan = back(world, second, files)
    assert [(error.code, error.what) for error in plan.errors] == [
        ("rollback.renamed-since", f"a is b since apply {third}")
    ]
    assert f"connect rollback {third}" in plan.errors[0].hint
    assert plan.actions == ()
    roll_back(world, third, files)
    roll_back(world, second, desired_of(spec("a", {**SINK, "x": "1"})))
    assert "x" not in (FakeCluster(world.kafka).config("a") or {})


WISH = desired_of(
    spec("changed", {**SINK, "file": "y"}, RUNNING),
    spec("created", SOURCE),
    spec("moved", SINK, RUNNING, Pin("again", (at(3),))),
)


@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
def test_rollback_of_a_killed_apply_undoes_what_it_did(before: bool) -> None:
    """Killed at each of its points, and with no other apply in between."""
    for call in range(1, 100):
        world = new_world()
        apply(
            world,
            desired_of(
                spec("changed", {**SINK, "file": "x"}, PAUSED, guard=True),
                spec("deleted", SOURCE, pin=Pin("d", reset=True)),
                spec("moved", SINK, RUNNING),
            ),
        )
        world.kafka.groups["connect-moved"] = {("t", 0): 70}
        kept = picture(world, WISH)
        world.time.at += 10
        if not world.killed(WISH, Doom(call, before)):
            break
        _, *begun = ledger(world).of_project("orders")
        if begun:
            roll_back(world, begun[0].id, WISH)
        assert picture(world, WISH) == kept, call
    assert call > 16


@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
def test_rollback_of_a_killed_rename(before: bool) -> None:
    """Until the new name was let run, the old one is as it was; from then on both are there, and
    the rename has to be ended first."""
    files = desired_of(spec("new", old="old", pin=Pin("p", (at(3),))))
    refused = 0
    for call in range(1, 100):
        world = new_world()
        apply(world, desired_of(spec("old", state=RUNNING)))
        world.kafka.groups["connect-old"] = {("t", 0): 70}
        kept = picture(world, files)
        world.time.at += 10
        if not world.killed(files, Doom(call, before)):
            break
        _, *begun = ledger(world).of_project("orders")
        if begun and back(world, begun[0].id, files)[1].errors:
            refused += 1
            world.kafka.groups["connect-new"] = {("t", 0): 9}
            apply(world, files)
        elif begun and call % 2:
            # ended by another apply, which is rolled back first
            newest = apply(world, files)
            world.kafka.groups["connect-new"] = {("t", 0): 9}
            roll_back(world, newest, files)
        if begun:
            roll_back(world, begun[0].id, files)
        assert picture(world, files) == kept, call
    assert call > 15
    assert refused < 5
