"""A rollback leaves to others what `lifecycle.ignore` names, now or at the apply that it undoes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from connect_specs.desired import DesiredConnector, TargetState
from support.applying import Applying, desired_of, names
from support.fake_cluster import FakeCluster
from support.rollbacks import SINK, SOURCE, apply, back, roll_back, spec

RUNNING, STOPPED = TargetState.RUNNING, TargetState.STOPPED
IGNORED = ("config.tasks.max", "config.db.*")


def leaving(made: DesiredConnector, *globs: str) -> DesiredConnector:
    return replace(made, ignore=globs)


def config(world: Applying, name: str) -> Mapping[str, str]:
    return FakeCluster(world.kafka).config(name) or {}


def by_others(world: Applying, name: str, **more: str) -> None:
    """As an autoscaler does, or who rotates passwords."""
    now = config(world, name)
    FakeCluster(world.kafka).update_config(name, {**now, **more})


@pytest.mark.parametrize(
    ("then", "now"), [(IGNORED, IGNORED), (IGNORED, ()), ((), IGNORED)], ids=["both", "then", "now"]
)
def test_values_of_others_stay_and_the_rest_goes_back(
    world: Applying, then: tuple[str, ...], now: tuple[str, ...]
) -> None:
    old = {**SOURCE, "file": "x", "tasks.max": "1", "db.password": "hunter2"}
    apply(world, desired_of(leaving(spec("a", old), *then)))
    new = {**old, "file": "y"}
    second = apply(world, desired_of(leaving(spec("a", new), *then)))
    by_others(world, "a", **{"tasks.max": "8", "db.password": "hunter3"})
    files = desired_of(leaving(spec("a", {**SOURCE, "file": "y"}), *now))
    way, plan = back(world, second, files)
    assert plan.errors == ()
    (update,) = plan.actions
    assert [change.key for change in update.changes] == ["file"]  # type: ignore[union-attr]
    assert [each.code for each in plan.warnings] == ["rollback.ignored"]
    assert plan.warnings[0].what.endswith("of a as they are now: db.password, tasks.max")
    assert "hunter" not in repr(plan)
    apply(world, way.desired, plan)
    assert config(world, "a") == {**old, "name": "a", "tasks.max": "8", "db.password": "hunter3"}


def test_what_is_not_ignored_goes_back(world: Applying) -> None:
    old = {**SINK, "file": "x", "tasks.max": "1"}
    apply(world, desired_of(leaving(spec("a", old), "config.other")))
    second = apply(world, desired_of(leaving(spec("a", {**old, "file": "y"}), "config.other")))
    by_others(world, "a", **{"tasks.max": "8"})
    roll_back(world, second, desired_of(spec("a", old)))
    assert config(world, "a") == {**old, "name": "a"}


def test_a_key_that_others_added_or_removed_stays_so(world: Applying) -> None:
    old = {**SINK, "file": "x", "db.user": "me"}
    apply(world, desired_of(leaving(spec("a", old), "config.db.*")))
    second = apply(world, desired_of(leaving(spec("a", {**old, "file": "y"}), "config.db.*")))
    left = {key: text for key, text in config(world, "a").items() if key != "db.user"}
    FakeCluster(world.kafka).update_config("a", {**left, "db.pool": "9"})
    roll_back(world, second, desired_of())
    assert config(world, "a") == {**SINK, "name": "a", "file": "x", "db.pool": "9"}


def test_a_state_of_others_stays(world: Applying) -> None:
    old = {**SINK, "file": "x"}
    apply(world, desired_of(leaving(spec("a", old), "state")))
    second = apply(world, desired_of(leaving(spec("a", {**old, "file": "y"}), "state")))
    FakeCluster(world.kafka).set_target("a", TargetState.STOPPED)
    _, plan = back(world, second, desired_of(spec("a", old)))
    assert names(plan) == ["UpdateConfig a"]
    assert plan.warnings[0].what.endswith("of a as they are now: the state")
    roll_back(world, second, desired_of(spec("a", old)))
    assert world.observe(desired_of()).connectors["a"].target is STOPPED


def test_what_was_deleted_is_created_as_it_was(world: Applying) -> None:
    """Nothing live is left that could stay."""
    made = leaving(spec("a", {**SINK, "tasks.max": "1"}), "config.tasks.max", "state")
    apply(world, desired_of(made))
    by_others(world, "a", **{"tasks.max": "8"})
    FakeCluster(world.kafka).set_target("a", TargetState.STOPPED)
    deleted = apply(world, desired_of())
    roll_back(world, deleted, desired_of(made))
    assert config(world, "a")["tasks.max"] == "8"
    assert world.observe(desired_of()).connectors["a"].target is STOPPED


def test_what_was_renamed_takes_it_along(world: Applying) -> None:
    old = {**SINK, "file": "x", "tasks.max": "1", "db.password": "hunter2"}
    apply(world, desired_of(leaving(spec("old", old), *IGNORED)))
    renamed = desired_of(leaving(spec("new", {**SINK, "file": "x"}, old="old"), *IGNORED))
    second = apply(world, renamed)
    by_others(world, "new", **{"tasks.max": "8", "db.password": "hunter3"})
    roll_back(world, second, desired_of())
    back_again = {**old, "name": "old", "tasks.max": "8", "db.password": "hunter3"}
    assert config(world, "old") == back_again
    assert [*world.observe(desired_of()).connectors] == ["old"]


def test_a_rollback_of_a_rollback_leaves_it_too(world: Applying) -> None:
    old = {**SINK, "file": "x", "tasks.max": "1"}
    apply(world, desired_of(leaving(spec("a", old), *IGNORED)))
    second = apply(world, desired_of(leaving(spec("a", {**old, "file": "y"}), *IGNORED)))
    third = roll_back(world, second, desired_of())
    by_others(world, "a", **{"tasks.max": "8"})
    roll_back(world, third, desired_of())
    assert config(world, "a") == {**old, "name": "a", "file": "y", "tasks.max": "8"}


def test_a_value_that_stays_is_no_change_by_hand(world: Applying) -> None:
    old = {**SINK, "file": "x", "tasks.max": "1"}
    apply(world, desired_of(leaving(spec("a", old), *IGNORED)))
    second = apply(world, desired_of(leaving(spec("a", {**old, "file": "y"}), *IGNORED)))
    by_others(world, "a", **{"tasks.max": "8", "more": "1"})
    _, plan = back(world, second, desired_of())
    told = {each.code: each.what for each in plan.warnings}
    assert told["rollback.changed-by-hand"].endswith("that is undone too: more")


def test_a_secret_that_stays_is_not_shown(world: Applying) -> None:
    """Only the spec of now calls it sensitive, and it was not there then."""
    old, new = {**SINK, "file": "x"}, {**SINK, "file": "y"}
    apply(world, desired_of(leaving(spec("a", old), "config.plain.*")))
    second = apply(world, desired_of(leaving(spec("a", new), "config.plain.*")))
    by_others(world, "a", **{"plain.key": "hunter2"})
    now = replace(leaving(spec("a", old), "config.plain.*"), sensitive=("plain.key",))
    _, plan = back(world, second, desired_of(now))
    assert names(plan) == ["UpdateConfig a"]
    assert "hunter" not in repr(plan)
