"""A reader gets the warnings about what changes, those of one kind together; a program gets all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.render.plan_file import dump_plan, load_plan, render_plan_json
from connect_reconciler.render.plan_html import render_html
from connect_reconciler.render.plan_markdown import render_markdown
from connect_reconciler.render.plan_text import render_plan
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic, Location
from support.plans import desired_of, live_of

SPECS = """\
name: archive
config:
  connector.class: FileStreamSink
  topics: orders
  a: 2
  b: 1
  c: 1
---
name: other
config: {connector.class: FileStreamSink, topics: orders}
---
name: fresh
config: {connector.class: FileStreamSink, topics: orders, x: 1}
"""
LIVE = {
    "connectors": {
        "archive": {
            "config": {
                "connector.class": "FileStreamSink",
                "topics": "orders",
                "a": "1",
                "b": "1",
                "c": "1",
            }
        },
        "other": {"config": {"connector.class": "FileStreamSink", "topics": "orders"}},
    },
    "ledger": {"connectors": {"archive": {}, "other": {}}},
}


@pytest.fixture
def world(tmp_path: Path) -> tuple[Desired, Live]:
    desired = desired_of(SPECS, tmp_path)
    return desired, live_of(LIVE, desired)


def at(desired: Desired, name: str, key: str) -> Location:
    return desired.connectors[name].key_locations[key]


def warned(world: tuple[Desired, Live], *warnings: Diagnostic) -> Plan:
    desired, live = world
    return make_plan(desired, replace(live, warnings=warnings), group_id="connect")


@pytest.mark.parametrize(
    ("name", "key", "shown"),
    [
        ("archive", "a", True),
        ("archive", "b", False),
        # what is said at the class may be about any key of it
        ("archive", "connector.class", True),
        ("other", "topics", False),
        ("fresh", "x", True),
    ],
)
def test_a_warning_is_shown_if_its_key_changes(
    world: tuple[Desired, Live], name: str, key: str, shown: bool
) -> None:
    plan = warned(world, Diagnostic("config.slip", "is odd", at(world[0], name, key)))
    assert ("is odd" in render_plan(plan)) is shown
    assert ("is odd" in render_markdown(plan)) is shown
    rest = "1 more warning concerns what stays unchanged: --warnings all shows it"
    assert (rest in render_plan(plan)) is not shown
    for text in (render_plan(plan, all_warnings=True), render_html(plan)):
        assert text.count("is odd") == 1
    assert rest not in render_plan(plan, all_warnings=True)
    assert "is odd" in render_markdown(plan, all_warnings=True)


@pytest.mark.parametrize("where", [None, "archive", "elsewhere", Location("connect.yaml", 3, 1)])
def test_what_cannot_be_attributed_is_shown(
    world: tuple[Desired, Live], where: Location | str | None
) -> None:
    assert "is odd" in render_plan(warned(world, Diagnostic("x.y", "is odd", where)))


def test_what_is_said_of_an_unchanged_connector_is_not_shown(world: tuple[Desired, Live]) -> None:
    assert "is odd" not in render_plan(warned(world, Diagnostic("x.y", "is odd", "other")))


def test_what_an_apply_left_half_done_is_shown(world: tuple[Desired, Live]) -> None:
    half = Diagnostic("plan.unfinished-apply", "in the middle", "other")
    assert "in the middle" in render_plan(warned(world, half))


def test_errors_are_never_hidden(world: tuple[Desired, Live]) -> None:
    desired, live = world
    error = Diagnostic("x.y", "is wrong", at(desired, "other", "topics"))
    plan = make_plan(desired, replace(live, errors=(error,)), group_id="connect")
    assert "is wrong" in render_plan(plan)


def test_programs_get_all_and_which_are_about_changes(world: tuple[Desired, Live]) -> None:
    found = [Diagnostic("x.y", "is odd", at(world[0], "archive", key)) for key in ("a", "b", "c")]
    plan = warned(world, *found)
    document = json.loads(json.dumps(render_plan_json(plan)))
    assert [each["unchanged"] for each in document["plan"]["warnings"]] == [False, True, True]
    assert render_plan(load_plan(dump_plan(plan))) == render_plan(plan)


def test_warnings_of_one_kind_about_one_spec_are_one_group(world: tuple[Desired, Live]) -> None:
    desired, _ = world
    hint = "see docs"
    slips = [
        Diagnostic("config.slip", f"{key} is odd", at(desired, "archive", key), hint=hint)
        for key in ("a", "b", "c")
    ]
    other = Diagnostic("config.other", "alone", at(desired, "archive", "a"), why="so", hint=hint)
    text = render_plan(warned(world, slips[0], other, *slips[1:]), all_warnings=True)
    file = at(desired, "archive", "a").file
    assert text.endswith(f"""
warning[config.slip]: {file}
  5:3 a is odd
  6:3 b is odd
  7:3 c is odd
  hint: see docs
warning[config.other]: {file}:5:3: alone
  why: so
  hint: see docs
""")


def test_a_hint_of_one_stands_beside_it(world: tuple[Desired, Live]) -> None:
    slips = [
        Diagnostic("config.slip", f"{key} is odd", at(world[0], "archive", key), hint=f"not {key}")
        for key in ("a", "b")
    ]
    text = render_plan(warned(world, *slips), all_warnings=True)
    assert text.endswith("  5:3 a is odd\n    hint: not a\n  6:3 b is odd\n    hint: not b\n")


def test_the_same_warning_twice_is_one(world: tuple[Desired, Live]) -> None:
    slip = Diagnostic("config.slip", "is odd", at(world[0], "archive", "a"))
    assert render_plan(warned(world, slip, slip)).count("is odd") == 1


def test_a_diagnostic_of_several_lines_is_shown_as_lines(world: tuple[Desired, Live]) -> None:
    """Messages of plugins and policies can have several; a line break is not shown as `\\n`."""
    text = "first\nsecond"
    problems = (Diagnostic("p.a", text, "archive"), Diagnostic("p.b", text, "other"))
    desired, live = world
    plan = make_plan(desired, replace(live, errors=problems), group_id="g")
    shown = render_plan(plan)
    assert "error[p.a]: archive: first\n    second\n" in shown
    assert "\\n" not in shown + render_markdown(plan)
    assert "first second" in render_markdown(plan)
