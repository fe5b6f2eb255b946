"""Every action has words, a place in the summary and a twin in the plan file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from connect_reconciler.actions import (
    ACTIONS,
    Delete,
    FieldChange,
    UpdateConfig,
)
from connect_reconciler.actions.plan import KINDS, Plan, grouped, kinds, summarize
from connect_reconciler.actions.preconditions import (
    Precondition,
)
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.render.blocks import NO_CHANGES, summary_line
from connect_reconciler.render.plan_file import load_plan, render_plan_json
from connect_reconciler.render.plan_text import render_plan
from connect_reconciler.render.texts import COLOUR, PLAIN, change_text, style, value_text
from connect_specs.plain_text import one_line
from support.plans import plan_with_everything

EMPTY = Plan("orders", "orders", "c", 0)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_plan_with_everything_has_everything() -> None:
    plan = plan_with_everything()
    assert {type(action) for action in plan.actions} == set(ACTIONS.values())
    requires = {type(each) for action in plan.actions for each in action.requires}
    assert requires == set(get_args(get_args(Precondition.__value__)[0]))


def test_every_action_is_shown() -> None:
    text = render_plan(plan_with_everything())
    for words in ("- z: delete (r; connectors/z.yaml:4)", "~ b: forget (r)", "! c: rename from b"):
        assert f"{words}\n" in text
    for words in (
        "create",
        "adopt: r",
        "protect: r",
        "stop: r",
        "change config",
        "set offsets: r",
        "reset offsets: r",
        "stop old",
        "carry offsets",
        "delete old: r",
        "restart: r",
        "pause: r",
        "resume: r",
    ):
        assert f"    {words}\n" in text


def test_every_kind_is_counted_and_named() -> None:
    plan = plan_with_everything()
    counts = summarize(plan)
    assert counts == {
        "create": 1,
        "rename": 1,
        "adopt": 1,
        "change": 1,
        "restart": 1,
        "rewind": 1,
        "reset": 1,
        "protect": 1,
        "delete": 1,
        "forget": 1,
    }
    assert all(set(kinds(actions)) <= set(KINDS) for actions in grouped(plan))


def test_what_can_hurt_is_first() -> None:
    """Deletes, and what deletes or rewinds, come first in the terminal too."""
    change = UpdateConfig(connector="a", reason="r", config={}, changes=())
    rename = Delete(connector="c", reason="r", renamed_to="b", reset_offsets=True)
    delete = Delete(connector="d", reason="r")
    plan = replace(EMPTY, actions=(change, rename, delete))
    assert re.findall("^. ([a-d]): ", render_plan(plan), re.MULTILINE) == ["d", "b", "a"]


def test_every_kind_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
    named = re.search(r"The kinds are ([^.]*)\.", text)
    assert named
    assert tuple(re.split(r",\s+|\s+and\s+", named[1])) == KINDS


def test_json_holds_a_plan_file() -> None:
    document = json.loads(json.dumps(render_plan_json(plan_with_everything())))
    assert load_plan(json.dumps(document["plan"])) == plan_with_everything()
    assert document["applicable"] is False
    assert list(document["summary"]) == list(KINDS)


def test_empty_plan_is_one_line() -> None:
    assert render_plan(EMPTY) == f"orders, group orders: {NO_CHANGES}\n"
    assert render_plan_json(EMPTY)["changes"] is False


def test_colour_changes_nothing_but_colour() -> None:
    plan = plan_with_everything()
    coloured = render_plan(plan, COLOUR)
    assert coloured != render_plan(plan)
    assert ANSI.sub("", coloured) == render_plan(plan)
    assert style(colour=True) is COLOUR
    assert style(colour=False) is PLAIN


def test_summary_line_says_how_many_errors() -> None:
    line = summary_line(plan_with_everything())
    assert line.endswith("; 2 errors, so nothing can be applied")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Plain("x y"), "x y"),
        (Plain(""), '""'),
        (Plain(" x"), '" x"'),
        (Plain('"x"'), '"\\"x\\""'),
        (Plain("a\nb"), '"a\\nb"'),
        (Plain("\x1b[2J"), '"\\u001b[2J"'),
        (Plain("é → ü"), "é → ü"),
        (Plain("x" * 80), "x" * 80),
        # sha256sum of 1,204 x
        (Plain("x" * 1204), f"{'x' * 48}… (1,204 characters, sha256 f55073e3)"),
        (Secret("abc"), "(sensitive)"),
    ],
)
def test_value(value: Plain | Secret, text: str) -> None:
    assert value_text(value) == text


def test_consequences_stand_beside_their_keys_once() -> None:
    changes = (
        FieldChange("batch.size", Plain("1"), Plain("2"), "restart"),
        FieldChange("topics", Plain("a"), Plain("a,b"), "redelivery", ("also reads b",)),
        FieldChange("x" * 30, Plain("o" * 40), Plain("n" * 40), "reread", ("one", "two")),
        FieldChange("z", Plain("1"), None),
    )
    effects = ("tasks restart", "also reads b")
    update = UpdateConfig(connector="a", reason="r", config={}, changes=changes, effects=effects)
    text = render_plan(replace(EMPTY, actions=(update,)))
    assert text == CONSEQUENCES


CONSEQUENCES = f"""\
orders, group orders: 1 to change

! a: change config, re-delivery, re-read
    ~ batch.size: 1 → 2
    ~ topics: a → a,b  [re-delivery]
        → also reads b
    ~ {"x" * 30}: {"o" * 40}
        → {"n" * 40}  [re-read]
        → one
        → two
    - z: 1
    → tasks restart
"""


def test_long_values_that_differ_at_their_end_look_different() -> None:
    one, two = value_text(Plain("x" * 200 + "1")), value_text(Plain("x" * 200 + "2"))
    assert one != two
    assert len(one) < 90


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (Plain("1"), Plain("2"), "~ k: 1 → 2"),
        (None, Plain("2"), "+ k: 2"),
        (Plain("1"), None, "- k: 1"),
        (None, Secret("a"), "+ k: (sensitive)"),
        (Secret("a"), None, "- k: (sensitive)"),
        (Secret("a"), Secret("b"), "~ k: (sensitive, changed)"),
        (Plain("${env:X}"), Secret("b"), "~ k: ${env:X} → (sensitive)"),
    ],
)
def test_change(old: Plain | None, new: Plain | None, text: str) -> None:
    assert change_text(FieldChange("k", old, new)) == text


def test_foreign_text_cannot_steer_a_terminal() -> None:
    assert one_line("a\x1b]0;x\x07\u202eb\n") == "a\\u001b]0;x\\u0007\\u202eb\\n"
