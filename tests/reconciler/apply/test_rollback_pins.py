"""Rollbacks of offsets and pins: nothing stays at a pin, and no pin is applied twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connect_reconciler.actions import Create
from connect_reconciler.plan.remaining import remaining
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_specs.desired import OffsetEntry, Pin, TargetState
from support.applying import Applying, desired_of, names
from support.fake_cluster import FakeCluster, refused
from support.rollbacks import (
    RUNNING,
    STOPPED,
    apply,
    at,
    back,
    picture,
    roll_back,
    spec,
)


@pytest.mark.parametrize("saved", [False, True], ids=["at once", "from a file"])
@pytest.mark.parametrize("pin", [Pin("p", (at(3),)), Pin("p", reset=True)], ids=["set", "reset"])
def test_a_rename_with_a_pin_goes_back_to_where_it_was(
    world: Applying, pin: Pin, saved: bool
) -> None:
    apply(world, desired_of(spec("old")))
    world.kafka.groups["connect-old"] = {("t", 0): 70}
    before = picture(world, desired_of())
    files = desired_of(spec("new", old="old", pin=pin))
    renamed = apply(world, files)
    world.kafka.groups["connect-new"] = {("t", 0): 9}
    way, plan = back(world, renamed, files)
    assert names(plan) == [
        "Stop new",
        "Create old",
        "CopyOffsets old",
        "AlterOffsets old",
        "Resume old",
        "Delete new",
    ]
    if saved:
        assert remaining(load_plan(dump_plan(plan)), plan, world.observe(files)) == plan
    apply(world, way.desired, plan)
    assert picture(world, desired_of()) == before


def test_a_rename_alone_rewinds_nothing(world: Applying) -> None:
    apply(world, desired_of(spec("old")))
    world.kafka.groups["connect-old"] = {("t", 0): 70}
    files = desired_of(spec("new", old="old"))
    renamed = apply(world, files)
    world.kafka.groups["connect-new"] = {("t", 0): 90}
    roll_back(world, renamed, files)
    assert world.kafka.groups["connect-old"] == {("t", 0): 90}
    world.kafka.groups["connect-old"] = {("t", 0): 95}
    assert back(world, renamed, files)[1].empty


@pytest.mark.parametrize("state", [RUNNING, STOPPED])
def test_a_deleted_connector_comes_back_with_its_pins(world: Applying, state: TargetState) -> None:
    """Its file, put back, moves no offsets again."""
    stopped = state is STOPPED
    files = desired_of(spec("a", state=STOPPED if stopped else None, pin=Pin("p", (at(3),))))
    apply(world, files)
    if not stopped:
        world.kafka.groups["connect-a"] = {("t", 0): 50}
    pins = {pin: applied for (_, pin), applied in world.ledger().pins.items()}
    deleted = apply(world, desired_of())
    assert world.ledger().pins == {}
    _, plan = back(world, deleted, desired_of())
    (create,) = (each for each in plan.actions if isinstance(each, Create))
    assert create.pins == pins
    roll_back(world, deleted, desired_of())
    assert names(world.plan(files)) == []
    assert world.kafka.groups["connect-a"] == {("t", 0): 3 if stopped else 50}
    assert {pin: each.held for (_, pin), each in world.ledger().pins.items()} == {"p": stopped}


def test_a_pin_does_not_hold_a_connector_that_was_created_running(world: Applying) -> None:
    """Stopped again later, it keeps the offsets that it has by then."""
    pin = Pin("p", (at(3),))
    apply(world, desired_of(spec("a", state=STOPPED, pin=pin)))
    FakeCluster(world.kafka).delete("a")
    apply(world, desired_of(spec("a", state=RUNNING, pin=pin)))
    world.kafka.groups["connect-a"] = {("t", 0): 50}
    assert names(world.plan(desired_of(spec("a", state=STOPPED, pin=pin)))) == ["Stop a"]


def test_a_rollback_that_failed_half_way_rewinds_nothing_twice(world: Applying) -> None:
    """The connector that is back already has gone on since."""
    files = desired_of(*(spec(name, pin=Pin("p", (at(3),))) for name in "ab"))
    apply(world, desired_of(spec("a"), spec("b")))
    for name in "ab":
        world.kafka.groups[f"connect-{name}"] = {("t", 0): 70}
    moved = apply(world, files)
    cluster = FakeCluster(world.kafka)
    alter = cluster.alter_offsets

    def refuse(name: str, offsets: Sequence[OffsetEntry]) -> str:
        if name == "b":
            raise refused("b does not take these now")
        return alter(name, offsets)

    cluster.alter_offsets = refuse  # type: ignore[method-assign]
    way, plan = back(world, moved, files)
    world.time.at += 10
    assert world.apply(way.desired, plan, cluster=cluster).exit_code == 1
    assert world.kafka.groups["connect-a"] == {("t", 0): 70}
    world.kafka.groups["connect-a"] = {("t", 0): 80}
    apply(world, files)
    roll_back(world, moved, files)
    assert world.kafka.groups["connect-a"] == {("t", 0): 80}
    assert world.kafka.groups["connect-b"] == {("t", 0): 70}
    # once more, on purpose
    roll_back(world, moved, files)
    assert world.kafka.groups["connect-a"] == {("t", 0): 70}
