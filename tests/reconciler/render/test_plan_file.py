"""The plan file: what is written is read, what is not a plan is refused, old versions stay.

Every file of data/v<n>/ was written by a connect of that time; none is ever written again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from connect_reconciler.model import actions as act
from connect_reconciler.model import preconditions as pre
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.verification import ensure_same
from connect_reconciler.render.human import render_plan
from connect_reconciler.render.plan_file import models
from connect_reconciler.render.plan_file.file import (
    check_saved,
    dump_plan,
    load_plan,
    plan_document,
    plan_hash,
    plan_schema,
    without_key_yet,
)
from connect_specs.diagnostics import ExitCode, Invalid
from support.plans import desired_of, live_of, plan_with_everything

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# What a file says now that older ones could not
ADDED = {
    ("consequence", "none"),
    ("effect", ""),
    ("env", None),
    ("target", None),
    ("unchanged", False),
    ("rolls_back", None),
    ("counts", None),
    ("renamed_from", None),
    ("pins", None),
    ("changes", None),
    ("changes", ()),
    ("unit", "offset"),
    ("exact", False),
    ("to", None),
}
OLD_FILES = sorted(HERE.glob("data/v*/*.json"))
V1_ACTIONS = {
    *("create", "adopt", "update-config", "stop", "alter-offsets", "reset-offsets", "pause"),
    *("resume", "restart", "delete", "protect", "forget"),
}
V2_ACTIONS = V1_ACTIONS | {"stop-old", "carry-offsets", "delete-old"}


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


def _added(old: Any, new: Any) -> set[tuple[str, Any]]:
    """What `new` holds beyond `old`, by name; fails where it says anything else than `old`."""
    if isinstance(old, dict):
        assert isinstance(new, dict)
        assert old.keys() <= new.keys()
        more = {(key, _hashable(new[key])) for key in new.keys() - old.keys()}
        return more.union(*(_added(old[key], new[key]) for key in old))
    if isinstance(old, list):
        assert isinstance(new, list)
        assert len(old) == len(new)
        return set().union(*(_added(*each) for each in zip(old, new, strict=True)))
    assert (type(old), old) == (type(new), new)
    return set()


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("file", OLD_FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_old_files_load_for_ever_and_mean_the_same(file: Path) -> None:
    """The plan for machines has versions: a file of an old one keeps its meaning."""
    old = json.loads(file.read_text())
    assert old["format_version"] == int(file.parent.name[1:])
    new = plan_document(load_plan(file.read_text()))
    assert new["format_version"] == 3
    assert new.pop("places") == old.pop("places", {})
    for document in (old, new):
        del document["format_version"], document["hash"]
    assert _added(old, new) <= ADDED


@pytest.mark.parametrize(("version", "actions"), [("v1", V1_ACTIONS), ("v2", V2_ACTIONS)])
def test_old_files_hold_every_action_of_their_time(version: str, actions: set[str]) -> None:
    told = {
        action["action"]
        for file in OLD_FILES
        if file.parent.name == version
        for action in json.loads(file.read_text())["actions"]
    }
    assert told == actions


def test_a_file_without_reason_codes_is_shown_and_found_again(tmp_path: Path) -> None:
    """Version 3 as it was first written: an apply of it that ended early goes on by its hash."""
    spec = "{name: %s, config: {connector.class: FileStreamSink, topics: t, file: x}, state: %s}"
    wanted = ("a", "paused"), ("b", "running"), ("c", "running")
    desired = desired_of("\n---\n".join(spec % each for each in wanted), tmp_path)
    config = {"connector.class": "FileStreamSink", "topics": "t", "file": "x"}
    ledger = {"connectors": {"a": {}, "b": {"applied_ms": 1}}}
    live = live_of({"connectors": {"a": {"config": config}}, "ledger": ledger}, desired)
    plan = make_plan(desired, live, group_id="g")
    document = plan_document(plan)
    codes = [action.pop("reason_code") for action in document["actions"]]
    assert codes == ["state", "deleted-outside", "new"]
    text = _rehashed(document)
    loaded = load_plan(text)
    assert render_plan(loaded) == render_plan(plan)
    assert plan_hash(loaded) == json.loads(text)["hash"] != plan_hash(plan)
    ensure_same(loaded, plan, live)


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


def test_an_old_file_that_was_changed_is_refused() -> None:
    document = json.loads((HERE / "data" / "v1" / "delete.json").read_text())
    document["actions"][0]["connector"] = "another"
    refusal = _refusal(json.dumps(document))
    assert [each.code for each in refusal.diagnostics] == ["plan-file.changed"]


def test_an_old_file_with_what_its_version_did_not_know_is_refused() -> None:
    document = json.loads((HERE / "data" / "v1" / "delete.json").read_text())
    document["actions"][0]["surprise"] = "hunter2"
    refusal = _refusal(_rehashed(document))
    assert [each.code for each in refusal.diagnostics] == ["plan-file.field"]
    assert "hunter2" not in str(refusal)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "plan-file.not-json"),
        ("{", "plan-file.not-json"),
        ("[]", "plan-file.not-a-plan"),
        ("{}", "plan-file.not-a-plan"),
        (_written(format="terraform"), "plan-file.not-a-plan"),
        (_written(format_version=4), "plan-file.version"),
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
    from connect_reconciler.render.plan_file import file as plan_file

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


def test_the_file_has_a_model_for_each_action_and_precondition() -> None:
    """A rename that is recorded is written as the pin that stood for it in older versions."""
    for values, union in (
        (act.Action, models.ActionModel),
        (pre.Precondition, models.PreconditionModel),
    ):
        known = {each.__name__ for each in get_args(get_args(union)[0])}
        wanted = {f"{each.__name__}Model" for each in get_args(values)}
        assert wanted - {"RenameRecordedModel"} == known


def test_schema_in_docs_is_current() -> None:
    assert (ROOT / "docs" / "plan.schema.json").read_text() == plan_schema()


def test_schema_says_that_no_field_may_be_added() -> None:
    schema = json.loads(plan_schema())
    models = [schema, *schema["$defs"].values()]
    objects = [each for each in models if each.get("type") == "object"]
    assert len(objects) == len(models) - 1, "all but the list of reason codes"
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
    found = check_saved(plan, key_comes=key_comes)
    assert [each.code for each in found] == codes
    assert not codes or "a.password" in found[0].what
    said = [each.code for each in without_key_yet(plan).warnings]
    assert ("plan-file.key-to-come" in said) is (key is None)
