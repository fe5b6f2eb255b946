"""Rollbacks: over a fake cluster, an apply and its rollback leave everything as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from connect_reconciler.apply.report import Health, Outcome
from connect_reconciler.backend.rest.client import OutcomeUnknown
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_reconciler.model.live import LogRange
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.remaining import remaining
from connect_reconciler.plan.rollback import snapshots_in_scope
from connect_reconciler.plan.scope import Scope
from connect_reconciler.render.plan_file import plan_document
from connect_specs.desired import OffsetEntry, Pin
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable
from support.applying import PROJECT, Applying, desired_of, names
from support.dooming import Doom
from support.fake_cluster import TOPICS, FakeCluster, refused
from support.rollbacks import (
    PAUSED,
    RUNNING,
    SINK,
    SOURCE,
    STOPPED,
    apply,
    at,
    back,
    ledger,
    new_world,
    picture,
    roll_back,
    spec,
)

FIRST = desired_of(
    spec("changed", {**SINK, "db.password": "hunter2", "file": "x"}, PAUSED, guard=True),
    spec("deleted", SOURCE),
    spec("moved", SINK, RUNNING),
    spec("untouched", SOURCE),
)
SECOND = desired_of(
    spec("changed", {**SINK, "db.password": "hunter2", "file": "y"}, RUNNING),
    spec("created", SOURCE),
    spec("moved", SINK, RUNNING, Pin("again", (at(3),))),
    spec("untouched", SOURCE),
)


def test_there_and_back_and_there_again(world: Applying) -> None:
    """A rollback takes config, state and offsets back."""
    apply(world, FIRST)
    world.kafka.groups["connect-moved"] = {("t", 0): 70}
    before = picture(world, FIRST)
    second = apply(world, SECOND)
    after = picture(world, SECOND)
    assert after != before
    way, plan = back(world, second, SECOND)
    assert names(plan) == [
        "Delete created",
        "Protect changed",
        "Pause changed",
        "UpdateConfig changed",
        "Stop moved",
        "AlterOffsets moved",
        "Resume moved",
        "Create deleted",
    ]
    assert [action.reason for action in plan.actions] == [
        "it was not there before",
        "it was protected against deletion before",
        "state: running → paused",
        "1 key was different before",
        "offsets move only while it is stopped",
        "its offsets were others before",
        "it was running before",
        "it was there before",
    ]
    assert plan.places == {}
    # a connector without applied pins has none in a plan file either
    assert plan_document(plan)["actions"][-1]["pins"] is None
    assert [warning.code for warning in plan.warnings] == ["rollback.pin-used"]
    third = apply(world, way.desired, plan)
    assert picture(world, FIRST) == before
    # from the files everything differs again, but for the pin, which stays used
    assert {name.split()[1] for name in names(world.plan(SECOND))} == {
        "changed",
        "created",
        "deleted",
    }
    roll_back(world, third, FIRST)
    assert picture(world, SECOND) == after


def test_only_what_the_apply_changed_is_touched(world: Applying) -> None:
    apply(world, FIRST)
    second = apply(world, SECOND)
    FakeCluster(world.kafka).update_config("untouched", {**SOURCE, "file": "by hand"})
    assert not [name for name in names(back(world, second, SECOND)[1]) if "untouched" in name]


def test_a_rollback_leaves_the_environment_as_it_was(
    world: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no --env, and the next apply must not find another environment than its own."""
    with monkeypatch.context() as patch:
        patch.setattr("support.applying.PROJECT", replace(PROJECT, env="prod"))
        apply(world, FIRST, replace(world.plan(FIRST), env="prod"))
        second = apply(world, SECOND, replace(world.plan(SECOND), env="prod"))
    roll_back(world, second, SECOND)
    assert {each.env for each in world.ledger().connectors.values()} == {"prod"}


def test_an_error_names_the_connector_that_cannot_be_rolled_back(world: Applying) -> None:
    """The others are rolled back without it."""
    apply(world, FIRST)
    world.kafka.groups["connect-moved"] = {("t", 0): 70}
    second = apply(world, SECOND)
    shares = {**SINK, "consumer.override.group.id": "connect-moved", "name": "other"}
    FakeCluster(world.kafka).create("other", shares, RUNNING)
    way, plan = back(world, second, SECOND)
    assert [(each.code, each.where) for each in plan.errors] == [("plan.group-in-use", "moved")]
    assert "moved" in way.snapshots


def test_each_rollback_restores_offsets_once(world: Applying) -> None:
    """Moved, rolled back, moved again, rolled back again: a pin that was used is no obstacle."""
    apply(world, desired_of(spec("a")))
    for number in (1, 2):
        world.kafka.groups["connect-a"] = {("t", 0): 70, ("t", 1): 5}
        moved = apply(world, desired_of(spec("a", pin=Pin(f"p{number}", reset=True))))
        assert world.kafka.groups.get("connect-a", {}) == {}
        world.kafka.groups["connect-a"] = {("t", 0): 20, ("t", 7): 1}
        world.kafka.ranges["t", 1] = world.kafka.ranges["t", 7] = LogRange(0, 100)
        roll_back(world, moved, desired_of(spec("a")))
        assert world.kafka.groups["connect-a"] == {("t", 0): 70, ("t", 1): 5}
        assert world.observe(desired_of(spec("a"))).connectors["a"].target is RUNNING


def test_a_secret_that_is_gone_is_an_error_and_one_that_is_known_is_found(world: Applying) -> None:
    old = desired_of(spec("a", {**SINK, "db.password": "hunter2"}), spec("b"))
    new = desired_of(spec("a", {**SINK, "db.password": "other"}), spec("b", {**SINK, "file": "x"}))
    apply(world, old)
    second = apply(world, new)
    _, plan = back(world, second, new)
    assert [error.code for error in plan.errors] == ["rollback.secret-gone"]
    assert "db.password" in plan.errors[0].what
    assert "hunter2" not in repr(plan)
    # it is never taken for one that has to go
    assert names(plan) == ["UpdateConfig b"]
    way, plan = back(world, second, old)
    apply(world, way.desired, plan)
    assert (FakeCluster(world.kafka).config("a") or {})["db.password"] == "hunter2"


def test_what_a_spec_called_sensitive_stays_so_without_the_spec(world: Applying) -> None:
    named = replace(spec("a", {**SINK, "plain": "hunter2"}), sensitive=("plain",))
    apply(world, desired_of(named))
    deleted = apply(world, desired_of())
    assert ledger(world).snapshots(deleted)["a"].config is not None
    kept = world.kafka.records(TOPICS.ledger)
    assert not [record for record in kept if b"hunter2" in (record.value or b"")]
    way, plan = back(world, deleted, desired_of(named))
    apply(world, way.desired, plan)
    assert (FakeCluster(world.kafka).config("a") or {})["plain"] == "hunter2"
    kept = world.kafka.records(TOPICS.ledger)
    assert not [record for record in kept if b"hunter2" in (record.value or b"")]


def test_a_guard_holds(world: Applying) -> None:
    created = apply(world, desired_of(spec("a", guard=True)))
    _, plan = back(world, created, desired_of())
    what = f"a was not there before apply {created}, and is protected against deletion"
    assert [(error.code, error.what) for error in plan.errors] == [("plan.protected", what)]
    assert plan.actions == ()


def test_later_changes_are_warned_of(world: Applying) -> None:
    apply(world, desired_of(spec("a"), spec("b"), spec("c")))
    changed = desired_of(*(spec(name, {**SINK, "file": "x"}) for name in "abc"))
    second = apply(world, changed)
    third = apply(
        world,
        desired_of(spec("a", {**SINK, "file": "y"}), *list(changed.connectors.values())[1:]),
    )
    FakeCluster(world.kafka).update_config("b", {**SINK, "name": "b", "file": "by hand"})
    _, plan = back(world, second, changed)
    assert {(w.code, w.where) for w in plan.warnings} == {
        ("rollback.changed-since", "a"),
        ("rollback.changed-by-hand", "b"),
    }
    assert third in plan.warnings[0].what


def test_a_rename_is_renamed_back(world: Applying) -> None:
    apply(world, desired_of(spec("old")))
    world.kafka.groups["connect-old"] = {("t", 0): 70}
    before = picture(world, desired_of(spec("old")))
    renamed = apply(world, desired_of(spec("new", old="old")))
    assert list(world.observe(desired_of()).connectors) == ["new"]
    roll_back(world, renamed, desired_of(spec("new", old="old")))
    assert picture(world, desired_of(spec("old"))) == before


def test_a_targeted_rollback_has_both_names_of_a_renamed_connector(world: Applying) -> None:
    apply(world, desired_of(spec("old"), spec("b")))
    second = apply(world, desired_of(spec("new", old="old"), spec("b", {**SINK, "file": "x"})))
    before = ledger(world).snapshots(second)
    for chosen in (Scope(targets=("old",)), Scope(targets=("n*",)), Scope(exclude=("b",))):
        assert snapshots_in_scope(before, chosen).keys() == {"old", "new"}
    assert snapshots_in_scope(before, Scope(exclude=("new",))).keys() == {"b"}
    with pytest.raises(Invalid, match="untouched"):
        snapshots_in_scope(before, Scope(targets=("untouched",)))


def test_the_offsets_of_an_old_name_are_kept_before_it_is_deleted(world: Applying) -> None:
    apply(world, desired_of(spec("old")))
    world.kafka.groups["connect-old"] = {("t", 0): 70}
    renamed = apply(world, desired_of(spec("new", old="old")))
    assert ledger(world).snapshots(renamed)["old"].offsets == Offsets((at(70),))


def test_offsets_in_a_group_that_a_rename_keeps_can_be_restored(world: Applying) -> None:
    """Both names, and their group, are deleted manually since."""
    config = {**SINK, "consumer.override.group.id": "mine"}
    apply(world, desired_of(spec("old", config)))
    world.kafka.groups["mine"] = {("t", 0): 70}
    files = desired_of(spec("new", config, old="old"))
    renamed = apply(world, files)
    assert world.kafka.groups["mine"] == {("t", 0): 70}
    assert ledger(world).snapshots(renamed)["old"].offsets == Offsets((at(70),))
    FakeCluster(world.kafka).delete("new")
    del world.kafka.groups["mine"]
    roll_back(world, renamed, files)
    assert list(world.observe(desired_of()).connectors) == ["old"]
    assert world.kafka.groups["mine"] == {("t", 0): 70}


def test_a_resumed_connector_is_awaited(world: Applying) -> None:
    apply(world, desired_of(spec("a", state=PAUSED)))
    report = world.apply(desired_of(spec("a", state=RUNNING)))
    assert [each.health for each in report.connectors] == [Health.LATER]


def test_what_was_nobodys_stays_adopted(world: Applying) -> None:
    FakeCluster(world.kafka).create("a", {**SINK, "name": "a"}, RUNNING)
    adopted = apply(world, desired_of(spec("a", {**SINK, "file": "x"})))
    _, plan = back(world, adopted, desired_of())
    assert names(plan) == ["UpdateConfig a"]
    assert [warning.code for warning in plan.warnings] == ["rollback.stays-adopted"]


def test_an_apply_that_was_cut_short_can_be_rolled_back(world: Applying) -> None:
    """What was held stopped goes back to the state from before."""
    apply(world, desired_of(spec("a", state=RUNNING)))
    world.kafka.groups["connect-a"] = {("t", 0): 70}
    cut = world.apply(
        desired_of(spec("a", state=RUNNING, pin=Pin("p", (at(3),)))),
        stop=lambda: world.kafka.groups["connect-a"] == {("t", 0): 3},
    )
    assert world.observe(desired_of()).connectors["a"].target is STOPPED
    roll_back(world, cut.apply_id, desired_of(spec("a", state=RUNNING)))
    assert world.kafka.groups["connect-a"] == {("t", 0): 70}
    assert world.observe(desired_of()).connectors["a"].target is RUNNING


def test_another_projects_connector_is_left_alone(world: Applying) -> None:
    apply(world, desired_of(spec("a")))
    second = apply(world, desired_of(spec("a", {**SINK, "file": "x"})))
    theirs = Owned("theirs", {**SINK, "name": "a"}, None)
    world.kafka.logs.writer("setup").write([owned_record(TOPICS.ledger, "a", theirs)])
    _, plan = back(world, second, desired_of())
    assert [error.code for error in plan.errors] == ["plan.owned-by-other"]
    assert plan.actions == ()


@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
def test_rollback_of_an_apply_that_finished_a_rename(world: Applying, before: bool) -> None:
    """An apply was killed in the middle of a rename, and the next one ended it: whichever name the
    way back leads to, it is one of the two, and goes on from its offsets."""
    wanted = desired_of(spec("new", old="old"))
    for call in range(1, 100):
        world = new_world()
        apply(world, desired_of(spec("old")))
        world.kafka.groups["connect-old"] = {("t", 0): 20}
        world.time.at += 10
        if not world.killed(wanted, Doom(call, before)):
            assert call > 10
            return
        roll_back(world, apply(world, wanted), wanted)
        live = world.observe(wanted).connectors
        running = [each for each in live.values() if each.target is RUNNING]
        assert [each.offsets for each in running] == [Offsets((at(20),))], call


APPLIES = {
    "changes of all kinds": (FIRST, SECOND),
    "a rename": (desired_of(spec("old")), desired_of(spec("new", old="old"))),
    "a rename with a pin": (
        desired_of(spec("old")),
        desired_of(spec("new", old="old", pin=Pin("p", (at(3),)))),
    ),
}


@pytest.mark.parametrize("case", APPLIES)
@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
def test_a_killed_rollback_is_finished_by_the_next(before: bool, case: str) -> None:
    """It renames back as an apply renames: what was begun goes on, under the same pin."""
    first, files = APPLIES[case]
    for call in range(1, 100):
        world = new_world()
        apply(world, first)
        for name in ("old", "moved"):
            if name in first.connectors:
                world.kafka.groups[f"connect-{name}"] = {("t", 0): 70}
        kept = picture(world, files)
        applied = apply(world, files)
        rollback, plan = back(world, applied, files)
        world.time.at += 10
        if not world.killed(rollback.desired, Doom(call, before), plan):
            assert picture(world, files) == kept
            assert call > 10
            return
        _, left = back(world, applied, files)
        assert remaining(plan, left, world.observe(files), partly_done=True) == left
        roll_back(world, applied, files)
        assert picture(world, files) == kept, call


def test_a_rename_that_both_names_are_left_of_is_taken_back(world: Applying) -> None:
    """The old one gets back the offsets of the new one, which has gone on since; unless someone
    resumed it, so that both have."""
    apply(world, desired_of(spec("old")))
    wanted = desired_of(spec("new", old="old"))
    cluster = FakeCluster(world.kafka)

    def refuse(name: str) -> None:
        raise refused(f"cannot delete {name}")

    cluster.delete = refuse  # type: ignore[method-assign]
    failed = world.apply(wanted, cluster=cluster).apply_id
    world.kafka.groups["connect-new"] = {("t", 0): 90}
    FakeCluster(world.kafka).set_target("old", RUNNING)
    _, plan = back(world, failed, wanted)
    assert [error.code for error in plan.errors] == ["rollback.rename-unfinished"]
    assert plan.actions == ()
    FakeCluster(world.kafka).set_target("old", STOPPED)
    roll_back(world, failed, wanted)
    live = world.observe(wanted).connectors
    assert {name: each.target for name, each in live.items()} == {"old": RUNNING}
    assert world.kafka.groups == {"connect-old": {("t", 0): 90}}


def test_offsets_that_an_apply_could_not_move_stay(world: Applying) -> None:
    """The connector has gone on since: to where it was then would be a rewind of its own."""
    apply(world, desired_of(spec("a")))
    world.kafka.groups["connect-a"] = {("t", 0): 20}
    cluster = FakeCluster(world.kafka)

    def refuse(name: str, offsets: object) -> str:
        raise refused(f"{name} does not take these")

    cluster.alter_offsets = refuse  # type: ignore[method-assign]
    world.time.at += 10
    failed = world.apply(desired_of(spec("a", pin=Pin("p", (at(3),)))), cluster=cluster)
    assert failed.exit_code == 1
    apply(world, desired_of(spec("a")))
    world.kafka.groups["connect-a"] = {("t", 0): 90}
    _, plan = back(world, failed.apply_id, desired_of(spec("a")))
    assert plan.empty


def test_offsets_that_an_apply_may_have_moved_go_back(world: Applying) -> None:
    """The answer to the move was lost, and nothing could be read afterwards."""
    apply(world, desired_of(spec("a")))
    world.kafka.groups["connect-a"] = {("t", 0): 20}
    cluster = FakeCluster(world.kafka)
    alter = cluster.alter_offsets

    def unreadable(name: str) -> list[OffsetEntry]:
        raise Unreachable(Diagnostic("cluster.unreachable", "connection refused"))

    def alter_unseen(name: str, offsets: Sequence[OffsetEntry]) -> str:
        alter(name, offsets)
        cluster.offsets = unreadable  # type: ignore[method-assign]
        raise OutcomeUnknown(Diagnostic("cluster.no-answer", "no answer came"))

    cluster.alter_offsets = alter_unseen  # type: ignore[method-assign]
    world.time.at += 10
    report = world.apply(desired_of(spec("a", pin=Pin("p", (at(3),)))), cluster=cluster)
    assert Outcome.UNKNOWN in [result.outcome for result in report.connectors[0].results]
    apply(world, desired_of(spec("a")))
    world.kafka.groups["connect-a"] = {("t", 0): 90}
    roll_back(world, report.apply_id, desired_of(spec("a")))
    assert world.kafka.groups["connect-a"] == {("t", 0): 20}
