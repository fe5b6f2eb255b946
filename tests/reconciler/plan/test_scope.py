"""A plan about some connectors only: what is left out is neither changed nor deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.scope import Scope
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_reconciler.render.plan_text import render_plan
from connect_specs.desired import DeleteLimits, Desired
from connect_specs.diagnostics import ExitCode, Invalid
from support.plans import desired_of, live_of

SPECS = """
name: orders-in
config: {connector.class: FileStreamSource, topic: t}
---
name: orders-out
config: {connector.class: FileStreamSink, topics: t}
---
name: billing
renamed_from: invoices
config: {connector.class: FileStreamSink, topics: t}
"""
SINK = {"config": {"connector.class": "FileStreamSink", "topics": "t"}}
OLD_NAME_IN_USE = """
name: invoices
config: {connector.class: FileStreamSink, topics: u}
"""
LIVE = {
    "connectors": {"invoices": SINK, "orders-old": SINK, "audit": SINK},
    "ledger": {
        "connectors": {"invoices": {}, "orders-old": {}, "audit": {"project": "other"}},
        "unfinished": ["a1"],
    },
}


@pytest.fixture
def world(tmp_path: Path) -> tuple[Desired, Live]:
    desired = desired_of(SPECS, tmp_path)
    return desired, live_of(LIVE, desired)


def plan_of(world: tuple[Desired, Live], *targets: str, exclude: tuple[str, ...] = ()) -> Plan:
    return make_plan(*world, group_id="g", scope=Scope(targets, exclude))


def touched(plan: Plan) -> list[str]:
    return sorted({action.group for action in plan.actions})


@pytest.mark.parametrize(
    ("targets", "exclude", "expected"),
    [
        ((), (), ["billing", "orders-in", "orders-old", "orders-out"]),
        (("orders-*",), (), ["orders-in", "orders-old", "orders-out"]),
        (("orders-*",), ("*-old",), ["orders-in", "orders-out"]),
        (("orders-in", "billing"), (), ["billing", "orders-in"]),
        (("orders-old",), (), ["orders-old"]),
        ((), ("orders-*",), ["billing"]),
        (("invoices",), (), ["billing"]),
        ((), ("invoices",), ["orders-in", "orders-old", "orders-out"]),
        (("ORDERS-*", "billing"), (), None),
        (("billing",), ("billing",), []),
    ],
)
def test_names_choose(
    world: tuple[Desired, Live],
    targets: tuple[str, ...],
    exclude: tuple[str, ...],
    expected: list[str] | None,
) -> None:
    """`--target` and `--exclude`, with globs."""
    if expected is None:
        with pytest.raises(Invalid):
            plan_of(world, *targets, exclude=exclude)
    else:
        assert touched(plan_of(world, *targets, exclude=exclude)) == expected


def test_a_rename_stays_whole(world: tuple[Desired, Live]) -> None:
    kinds = [type(each).__name__ for each in plan_of(world, "bill*").actions]
    assert kinds == ["Stop", "Create", "CopyOffsets", "Resume", "Delete"]


def test_the_first_line_says_that_it_is_partial(world: tuple[Desired, Live]) -> None:
    plan = plan_of(world, "orders-*", exclude=("*-old",))
    text = render_plan(plan)
    assert text.splitlines()[0] == (
        "orders, group g: 2 to create; targeted: 2 of 4 connectors,"
        " by --target orders-*, --exclude *-old"
    )
    assert text.count("--target") == 1
    assert render_plan(load_plan(dump_plan(plan))) == text
    nothing = render_plan(plan_of(world, "billing", exclude=("billing",)))
    head = "orders, group g: no changes; targeted: 0 of 4 connectors, by --target billing"
    assert nothing.splitlines()[0].startswith(head)


def test_a_whole_plan_says_nothing_of_it(world: tuple[Desired, Live]) -> None:
    assert plan_of(world) == make_plan(*world, group_id="g")
    assert "partial" not in render_plan(plan_of(world))


def test_a_target_whose_spec_is_gone_is_no_project_without_specs(
    world: tuple[Desired, Live],
) -> None:
    codes = [each.code for each in plan_of(world, "orders-old").warnings]
    assert codes == ["plan.partial", "plan.unfinished-apply"]


@pytest.mark.parametrize(
    ("specs", "targets", "expected"),
    [
        ("", ("orders-old",), ["specs.empty"]),
        ("name: a\nconfig: {connector.class: C}", ("orders-old",), ["specs.disjoint"]),
        ("name: a\nconfig: {connector.class: C}", ("a",), []),
        ("name: invoices\nconfig: {connector.class: C}", ("orders-old",), []),
    ],
    ids=["no specs", "none of its own", "removes nothing", "another one of its own"],
)
def test_all_specs_count_for_a_part_of_the_project(
    tmp_path: Path, specs: str, targets: tuple[str, ...], expected: list[str]
) -> None:
    desired = desired_of(specs, tmp_path)
    live, scope = live_of(LIVE, desired), Scope(targets)
    plan = make_plan(desired, live, group_id="g", scope=scope, deletes=DeleteLimits())
    assert [each.code for each in plan.errors] == expected


@pytest.mark.parametrize("option", ["--target", "--exclude"])
def test_a_glob_without_a_match_names_what_is_near(
    world: tuple[Desired, Live], option: str
) -> None:
    globs = ("oders-in*", "audit")
    with pytest.raises(Invalid) as caught:
        if option == "--target":
            plan_of(world, *globs)
        else:
            plan_of(world, exclude=globs)
    assert caught.value.exit_code is ExitCode.INVALID
    near, foreign = caught.value.diagnostics
    assert near.what == f"{option} oders-in* matches no connector of the project"
    assert near.hint.startswith("there are: orders-in")
    assert foreign.what == f"{option} audit matches no connector of the project"


def test_a_name_with_a_globs_characters_is_matched_as_it_is(tmp_path: Path) -> None:
    desired = desired_of(
        "name: a[1]\nconfig: {connector.class: FileStreamSink, topics: t}", tmp_path
    )
    plan = make_plan(desired, live_of({}, desired), group_id="g", scope=Scope(("a[1]",)))
    assert touched(plan) == ["a[1]"]


def test_an_old_name_with_a_spec_of_its_own_is_not_part_of_the_rename(tmp_path: Path) -> None:
    desired = desired_of(f"{SPECS}---\n{OLD_NAME_IN_USE}", tmp_path)
    done = {"connectors": {"billing": SINK}, "ledger": {"connectors": {"billing": {}}}}
    live = live_of(done, desired)
    plan = make_plan(desired, live, group_id="g", scope=Scope(("invoices",), ()))
    assert touched(plan) == ["invoices"]
    assert touched(make_plan(desired, live, group_id="g", scope=Scope(("billing",), ()))) == []
