"""Markdown for a comment: short enough however large the plan, and safe whatever is in it.

What comes out is read again by a CommonMark parser with GitHub's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from connect_reconciler.actions import (
    Action,
    AlterOffsets,
    Create,
    Delete,
    FieldChange,
    OffsetMove,
    UpdateConfig,
)
from connect_reconciler.actions.plan import Plan, Target
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.render.blocks import NO_CHANGES
from connect_reconciler.render.plan_html import render_html
from connect_reconciler.render.plan_markdown import render_markdown
from connect_reconciler.render.plan_text import render_plan
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Diagnostic, Location
from reconciler.render.plans import PLAN
from support.examples import examples
from support.plans import plan_with_everything

LIMIT = 65_536
EMPTY = Plan("orders", "orders-group", "c", 0)
TAGS = {"details", "summary", "code", "b", "br"}


class Page(HTMLParser):
    """The HTML that a reader's browser gets: its tags, and the texts of its code."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.codes: list[str] = []
        self.comments: list[str] = []
        self.rows: list[int] = []
        self.links = 0
        parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self.feed(parser.render(markdown))
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)
        if tag == "code":
            self.codes.append("")
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "code":
            self.codes[-1] += data.replace("\u00a0", " ")

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def _update(name: str, *changes: FieldChange, effects: tuple[str, ...] = ()) -> UpdateConfig:
    return UpdateConfig(
        connector=name,
        reason="r",
        config={},
        changes=changes,
        effects=effects,
    )


def _rewind(name: str, partitions: int = 1) -> AlterOffsets:
    moves = tuple(
        OffsetMove(
            OffsetEntry({"kafka_topic": "t", "kafka_partition": number}, {"kafka_offset": 1}),
            None,
            f"t-{number} 9 → 1: redelivers 8 offsets",
            "back",
        )
        for number in range(partitions)
    )
    return AlterOffsets(connector=name, reason="r", pin="p", pin_hash="h", moves=moves)


def _create(name: str, keys: int = 3) -> Create:
    config = {f"key{number}": Plain(f"value {number}") for number in range(keys)}
    running = TargetState.RUNNING
    return Create(
        connector=name, reason="new", reason_code="new", config=config, initial_state=running
    )


def _plan(*actions: Action) -> Plan:
    return replace(EMPTY, actions=actions)


def _blocks(text: str) -> list[str]:
    return re.findall(r"^(?:<details[^>]*><summary>|- )<b>.</b> <code>(.*?)</code>", text, re.M)


def test_a_small_plan_word_for_word() -> None:
    """The diff for people as Markdown: a summary line, deletes and rewinds, errors, the rest."""
    batch = FieldChange("batch.size", Plain("1"), Plain("2"), "restart")
    topics = FieldChange("topics", Plain("a"), Plain("a|b"), "restart", ("also reads b",))
    secret = FieldChange("password", Secret("ab"), Secret("cd"))
    update = _update("orders", batch, topics, secret, effects=("tasks restart", "also reads b"))
    gone = Delete(
        connector="old",
        reason="no spec names it",
        effects=("its offsets stay",),
    )
    error = Diagnostic("policy.deny", "no deletes on Fridays", "old", hint="wait")
    plan = replace(
        _plan(update, gone),
        errors=(error,),
        env="prod",
        target=Target("https://connect.prod:8083", None),
        places={"orders": Location("connectors/orders.yaml", 3, 1)},
    )
    assert render_markdown(plan) == SMALL


SMALL = """\
<!-- connect-plan:orders/prod -->

### orders &#91;prod&#93; → https:&#8203;//connect.prod:8083, group orders-group: 1 to delete,\
 1 to change; 1 error, so nothing can be applied

#### Deletes and moved offsets

<details open><summary><b>-</b> <code>old</code>: delete (no spec names it)</summary>

→ its offsets stay

</details>

#### Errors

- **policy.deny** old: no deletes on Fridays<br>hint: wait

#### Other changes

<details open><summary><b>~</b> <code>orders</code>:\
 change config (connectors/orders.yaml:3)</summary>

|  | key | old | new | what it does |
| --- | --- | --- | --- | --- |
| ~ | <code>batch.size</code> | <code>1</code> | <code>2</code> |  |
| ~ | <code>topics</code> | <code>a</code> | <code>a&#124;b</code> | also reads b |
| ~ | <code>password</code> | <code>(sensitive)</code> | <code>(sensitive, changed)</code> |  |

→ tasks restart

</details>
"""


def test_what_reads_elsewhere_is_shown_first() -> None:
    """A new consumer group delivers again as a rewind does, and is no key among others."""
    group = FieldChange("consumer.override.group.id", None, Plain("b"), "new-group")
    again = FieldChange("mode", Plain("a"), Plain("b"), "reread")
    harmless = _update("a", FieldChange("batch.size", Plain("1"), Plain("2"), "restart"))
    text = render_markdown(_plan(harmless, _update("b", group, again)))
    first, others = text.split("#### Other changes")
    assert "#### Deletes and moved offsets" in first
    assert "<code>b</code>: change config, new consumer group, re-read</summary>" in first
    assert _blocks(others) == ["a"]


def test_changes_are_other_changes_only_beside_others() -> None:
    assert "#### Changes\n" in render_markdown(_plan(_create("a")))
    both = render_markdown(_plan(_create("a"), _rewind("b")))
    assert "#### Other changes\n" in both and "#### Changes\n" not in both
    assert "<h2>Changes <small>1</small></h2>" in render_html(_plan(_create("a")))


def test_a_rollback_says_what_it_is() -> None:
    plan = replace(_plan(_rewind("a")), rolls_back="20261121T140000Z-1f2e3d4c")
    said = "rollback of apply 20261121T140000Z-1f2e3d4c: 1 rewind"
    for text in (render_markdown(plan), render_plan(plan), render_html(plan)):
        assert text.count(said) == 1
    assert "rollback" not in render_markdown(_plan(_rewind("a")))


@pytest.mark.parametrize(("connectors", "opened"), [(3, 3), (4, 0)])
def test_few_connectors_are_unfolded(connectors: int, opened: int) -> None:
    plan = _plan(*(_create(f"c{number}") for number in range(connectors)))
    assert render_markdown(plan).count("<details open>") == opened
    assert render_html(plan).count(" open>") == opened


def test_no_changes() -> None:
    lines = render_markdown(EMPTY).splitlines()
    assert lines[0] == "<!-- connect-plan:orders -->"
    assert lines[2] == f"### orders, group orders-group: {NO_CHANGES}"
    back = render_plan(replace(EMPTY, rolls_back="20261121T140000Z-1f2e3d4c"))
    assert "rollback of apply 20261121T140000Z-1f2e3d4c: no changes, " in back.splitlines()[0]


def test_every_action_has_words() -> None:
    text = render_markdown(plan_with_everything())
    for action in plan_with_everything().actions:
        assert f"<code>{action.connector}</code>" in text
    Page(text)


def test_long_values_are_cut_with_their_length_and_hash() -> None:
    # sha256sum of a million x, and of the same with a y
    old, new = Plain("x" * 1_000_000), Plain("x" * 1_000_000 + "y")
    text = render_markdown(_plan(_update("a", FieldChange("k", old, new))))
    assert "… (1,000,000 characters, sha256 " in text
    assert "… (1,000,001 characters, sha256 " in text
    assert len(set(re.findall("sha256 ([0-9a-f]{8})", text))) == 2
    assert len(text) < 2000


def test_a_secret_leaves_no_trace_of_itself() -> None:
    plan = _plan(
        _update("a", FieldChange("k", Secret("ab" * 32), Secret("cd" * 32))),
        replace(_create("b"), config={"k": Secret("ef" * 32)}),
    )
    text = render_markdown(plan)
    assert not re.search("(ab|cd|ef){3}", text)
    assert "sha256" not in text


def test_5000_new_connectors_fit_and_what_is_left_out_is_counted() -> None:
    """The trap: GitHub refuses a comment of more than 65,536 characters, so there is none."""
    actions = [_create(f"c{number}") for number in range(5000)]
    text = render_markdown(_plan(*actions), "plan.html of this job")
    assert len(text) < LIMIT
    assert len(text) > LIMIT * 0.95
    shown = _blocks(text)
    assert len(shown) > 500
    assert text.count("<details>") > 50
    left_out, shortened = _counts(text, "connectors")
    assert left_out == 5000 - len(shown)
    assert shortened == len(shown) - text.count("<details>")
    assert text.splitlines()[4].startswith("> **Not all of the plan is here.**")
    assert "The whole plan: plan.html of this job" in text


def test_deletes_rewinds_and_errors_stay_when_the_rest_goes() -> None:
    """Deletes and rewinds first, however much has to go."""
    actions: list[Action] = []
    for number in range(5000):
        actions.append(_create(f"c{number}", keys=20))
        if number % 100 == 0:
            actions += [
                Delete(connector=f"d{number}", reason="r"),
                _rewind(f"r{number}"),
            ]
    errors = tuple(Diagnostic("plan.owned", f"error {each}", f"e{each}") for each in range(50))
    warnings = tuple(Diagnostic("plan.w", "w" * 500, f"w{each}") for each in range(5000))
    text = render_markdown(replace(_plan(*actions), errors=errors, warnings=warnings))
    assert len(text) < LIMIT
    shown = set(_blocks(text))
    assert {f"d{number}" for number in range(0, 5000, 100)} <= shown
    assert {f"r{number}" for number in range(0, 5000, 100)} <= shown
    assert text.count("<details open>") == 100
    assert all(f"e{each}: error {each}" in text for each in range(50))
    assert text.index("<code>d0</code>") < text.index("plan.owned") < text.index("plan.w")
    assert any(name.startswith("c") for name in shown)


def test_5000_deletes_and_5000_errors_share_the_room() -> None:
    actions = [Delete(connector=f"d{number}", reason="r") for number in range(5000)]
    errors = tuple(Diagnostic("plan.owned", "error", f"e{each}") for each in range(5000))
    text = render_markdown(replace(_plan(*actions), errors=errors))
    assert len(text) < LIMIT
    assert text.count("plan.owned") > 200
    assert len(_blocks(text)) > 400
    assert _counts(text, "connectors")[0] == 5000 - len(_blocks(text))
    assert _counts(text, "errors")[0] == 5000 - text.count("plan.owned")


def test_one_rewind_of_many_partitions_says_how_many_more() -> None:
    text = render_markdown(_plan(_rewind("a", 5000)))
    assert len(text) < LIMIT
    assert "… and 4,980 more partitions" in text
    assert _counts(text, "connectors") == (0, 1)


def test_huge_values_names_and_texts_fit() -> None:
    huge = "`|<@" * 30_000
    changes = [FieldChange(f"{huge}{each}", Plain(huge), Plain("\x1b" * 79)) for each in range(99)]
    plan = replace(
        EMPTY,
        project=huge,
        env=huge,
        group_id=huge,
        actions=tuple(_update(f"{huge}{each}", *changes, effects=(huge,)) for each in range(20)),
        warnings=tuple(Diagnostic(huge, huge, huge, huge, huge) for _ in range(20)),
    )
    text = render_markdown(plan, huge)
    assert len(text) < LIMIT
    assert len(text.encode()) < 4 * LIMIT
    Page(text)


def _counts(text: str, unit: str) -> tuple[int, int]:
    """How many are left out, and how many shortened, as the text says."""
    said = re.search(rf"of [\d,]+ {unit}, ([^;.]*)", text)
    assert said
    found = {word: int(number.replace(",", "")) for number, word in _numbers(said[1])}
    return found.get("left out", 0), found.get("shortened", 0)


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"([\d,]+) (left out|shortened)", text)


@given(PLAN)
def test_nothing_foreign_is_read_as_markup(plan: Plan) -> None:
    text = render_markdown(plan)
    assert len(text) < LIMIT
    # Raw markup is ours alone, and a mention or a fence cannot even be spelt
    body = text.split("\n", 1)[1]
    assert set(re.findall(r"</?([^ >]*)", body)) <= TAGS
    assert not set("`@\\[]") & set(body)
    assert text.count("-->") == 1
    assert not re.search(r"&#(64|35|33);(?!&#8203;)\w", re.sub(r"<code>.*?</code>", "", body))

    page = Page(text)
    assert page.open == []
    assert set(page.tags) <= TAGS | {*("p", "ul", "li", "h3", "h4", "strong", "blockquote")} | {
        *("table", "thead", "tbody", "tr", "th", "td")
    }
    assert len(page.comments) == 1
    assert page.tags.count("details") == len({*_groups(plan)})
    changes = [each for action in plan.actions for each in getattr(action, "changes", ())]
    tables = sum(bool(getattr(action, "changes", ())) for action in plan.actions)
    assert page.tags.count("table") == tables
    assert len(page.rows) == len(changes) + tables
    assert set(page.rows) <= {3, 4, 5}


def _groups(plan: Plan) -> Iterator[int]:
    """A number for each run of actions of one connector."""
    number = 0
    for before, action in zip([None, *plan.actions], plan.actions, strict=False):
        number += before is None or before.connector != action.connector
        yield number


@examples(80)
@given(st.text(max_size=60).filter(str.isprintable), st.sampled_from(["`a|b", "<b>", "a  b"]))
def test_values_are_seen_as_they_are(text: str, more: str) -> None:
    value = f"x{more}{text}x"
    page = Page(render_markdown(_plan(_update("a", FieldChange("k", None, Plain(value))))))
    assert page.codes[-1] == value


@pytest.mark.parametrize("project", ["a", "a-->b", "a b", "ä", "--", "a--!>"])
def test_the_marker_names_project_and_environment_and_nothing_ends_it(project: str) -> None:
    first = render_markdown(replace(EMPTY, project=project)).splitlines()[0]
    assert first.startswith("<!-- connect-plan:")
    assert first.index("-->") == len(first) - 3
    other = render_markdown(replace(EMPTY, project=project, env="prod")).splitlines()[0]
    assert other == first.replace(" -->", "/prod -->")
