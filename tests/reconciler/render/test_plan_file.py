"""The plan file: a file that was written is read, anything else is refused.

data/plan.json was written by the first connect of its format; it is never written again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.plan.planner import make_plan
from connect_reconciler.render.plan_file import (
    dump_plan,
    ensure_secrets_have_fingerprints,
    load_plan,
    plan_document,
    plan_hash,
    plan_schema,
    without_key_yet,
)
from connect_reconciler.render.plan_text import render_plan
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid
from support.plans import desired_of, live_of, plan_with_everything

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def _written(**changes: Any) -> str:
    return json.dumps({**plan_document(plan_with_everything()), **changes})


def _refusal(text: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        load_plan(text, "my.plan")
    assert caught.value.exit_code is ExitCode.INVALID
    assert all(str(each.where).startswith("my.plan") for each in caught.value.diagnostics)
    return caught.value


def test_a_plan_comes_back_as_it_was() -> None:
    assert load_plan(dump_plan(plan_with_everything())) == plan_with_everything()


def test_writing_is_stable() -> None:
    text = dump_plan(plan_with_everything())
    assert dump_plan(load_plan(text)) == text


def test_types_of_offsets_survive() -> None:
    loaded = load_plan(dump_plan(plan_with_everything()))
    source = loaded.actions[6].moves[1].entry  # type: ignore[union-attr]
    assert [type(value) for value in source.partition.values()] == [str, float, bool, type(None)]


def test_the_first_file_of_the_format_means_the_same() -> None:
    text = (HERE / "data" / "plan.json").read_text()
    assert load_plan(text) == plan_with_everything()
    assert dump_plan(plan_with_everything()) == text


@pytest.mark.parametrize(
    "text", ["one", "one\ntwo", "one\n\ntwo", "one\n", "a\rb", "a\u2028b\x85c"]
)
def test_a_file_keeps_its_hash_whatever_its_effects_hold(tmp_path: Path, text: str) -> None:
    """By its hash an apply of it that ended early is found again."""
    spec = "{name: a, config: {connector.class: FileStreamSink, topics: t, file: %s}}"
    desired = desired_of(spec % "y", tmp_path)
    config = {"connector.class": "FileStreamSink", "topics": "t", "file": "x"}
    world = {"connectors": {"a": {"config": config}}, "ledger": {"connectors": {"a": {}}}}
    document = plan_document(make_plan(desired, live_of(world, desired), group_id="g"))
    (update,) = document["actions"]
    update["effect"] = update["changes"][0]["effect"] = text
    file = _rehashed(document)
    loaded = load_plan(file)
    assert plan_hash(loaded) == json.loads(file)["hash"]
    assert json.loads(dump_plan(loaded))["actions"] == [update]
    assert not any(line.strip() == "→" for line in render_plan(loaded).splitlines())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "plan-file.not-json"),
        ("{", "plan-file.not-json"),
        ("[]", "plan-file.not-a-plan"),
        ("{}", "plan-file.not-a-plan"),
        (_written(format="terraform"), "plan-file.not-a-plan"),
        (_written(format_version=2), "plan-file.version"),
        (_written(format_version=0), "plan-file.version"),
        (_written(format_version="1"), "plan-file.version"),
        (_written(format_version=1.0), "plan-file.version"),
        (_written(format_version=[1]), "plan-file.version"),
        (_written(format_version=True), "plan-file.version"),
        (_written(project="other"), "plan-file.changed"),
        (_written(hash="sha256:00"), "plan-file.changed"),
        (_written(actions=[]), "plan-file.changed"),
        (_written(project="\ud800"), "plan-file.changed"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, code: str) -> None:
    assert [each.code for each in _refusal(text).diagnostics] == [code]


def _rehashed(document: dict[str, Any]) -> str:
    from connect_reconciler.render import plan_file

    return json.dumps({**document, "hash": plan_file._content_hash(document)})


def test_unknown_fields_and_actions_are_refused() -> None:
    document: Any = json.loads(_written())
    document["actions"][0]["surprise"] = "hunter2"
    document["actions"][2]["action"] = "explode"
    document["more"] = 1
    refusal = _refusal(_rehashed(document))
    assert {each.code for each in refusal.diagnostics} == {"plan-file.field"}
    assert len(refusal.diagnostics) == 3
    assert "hunter2" not in str(refusal)


@pytest.mark.parametrize("time_ms", [-1, 10**20])
def test_a_time_that_no_calendar_shows_is_refused(time_ms: int) -> None:
    refusal = _refusal(_rehashed({**json.loads(_written()), "observed_ms": time_ms}))
    assert [each.code for each in refusal.diagnostics] == ["plan-file.field"]


def test_schema_in_docs_is_current() -> None:
    assert (ROOT / "docs" / "plan.schema.json").read_text() == plan_schema()


def test_schema_says_that_no_field_may_be_added() -> None:
    schema = json.loads(plan_schema())
    objects = [schema]
    others = set()
    for name, each in schema["$defs"].items():
        if each.get("type") == "object":
            objects.append(each)
        else:
            others.add(name)
    assert others == {"Precondition", "ReasonCode", "TargetState"}
    assert all(each["additionalProperties"] is False for each in objects)


@pytest.mark.parametrize(
    ("key", "key_comes", "codes"),
    [("k", False, []), (None, False, ["plan-file.no-key"]), (None, True, [])],
)
def test_secrets_without_a_key_are_saved_only_before_the_first_apply(
    key: str | None, codes: list[str], tmp_path: Path, *, key_comes: bool
) -> None:
    spec = "{name: a, config: {connector.class: FileStreamSink, topics: t, password: hunter2}}"
    desired = desired_of(spec, tmp_path)
    live = live_of({"ledger": {"key": key}}, desired)
    plan = make_plan(desired, live, group_id="g")
    assert live.key_comes is (key is None)
    assert not replace(live, rest_alone=True).key_comes
    problems: tuple[Diagnostic, ...] = ()
    try:
        ensure_secrets_have_fingerprints(plan, key_comes=key_comes)
    except Invalid as refusal:
        problems = refusal.diagnostics
    assert [problem.code for problem in problems] == codes
    assert not codes or "a.password" in problems[0].what
    said = [each.code for each in without_key_yet(plan).warnings]
    assert ("plan-file.key-to-come" in said) is (key is None)
