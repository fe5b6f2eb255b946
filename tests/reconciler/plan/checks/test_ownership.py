"""Specs that are read with another environment than those that were applied before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.actions import Adopt, UpdateConfig
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.ledger_records import owned_from_json, owned_to_json
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.render.plan_text import render_plan
from connect_specs.desired import Overrides
from support.plans import desired_of, live_of

SPEC = """
name: shared
config: {connector.class: FileStreamSink, topics: orders, file: /data/stage}
"""


def planned(
    folder: Path,
    env: str | None,
    known: tuple[str, ...],
    was: str | None,
    overrides: Overrides | None = None,
) -> Plan:
    config = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/data/prod"}
    live: Mapping[str, Any] = {
        "connectors": {"shared": {"config": config}, "prod-only": {"config": config}},
        "ledger": {"connectors": {"shared": {"env": was}, "prod-only": {"env": was}}},
    }
    desired = replace(desired_of(SPEC, folder), environments=known)
    return make_plan(
        desired, live_of(live, desired), group_id="connect", env=env, overrides=overrides
    )


@pytest.mark.parametrize("env", [None, "stage"])
def test_what_another_environment_specifies_is_not_deleted(tmp_path: Path, env: str | None) -> None:
    plan = planned(tmp_path, env, ("prod", "stage"), "prod")
    assert [each.code for each in plan.errors] == ["plan.other-environment"]
    assert [each.code for each in plan.warnings] == ["plan.other-environment"]
    assert "prod-only was applied with --env prod" in plan.errors[0].what
    assert {each.connector for each in plan.actions} == {"shared"}


@pytest.mark.parametrize(
    ("env", "known", "was"),
    [
        ("prod", ("prod", "stage"), "prod"),
        ("production", ("production", "stage"), "prod"),
        ("prod", ("prod", "stage"), None),
        (None, (), None),
    ],
    ids=["the same", "it has another name now", "the first one", "none at all"],
)
def test_its_own_environment_deletes(
    tmp_path: Path, env: str | None, known: tuple[str, ...], was: str | None
) -> None:
    plan = planned(tmp_path, env, known, was)
    assert (plan.errors, plan.warnings) == ((), ())
    assert {each.connector for each in plan.actions} == {"shared", "prod-only"}


@pytest.mark.parametrize(
    ("env", "was", "says"),
    [
        (None, "prod", ("with --env prod last", "made without an environment", "use --env prod")),
        ("stage", "prod", ("with --env prod last", "made with --env stage", "use --env prod")),
        ("prod", None, ("without an environment last", "with --env prod", "leave out --env")),
    ],
)
def test_another_environment_than_the_last_one_is_an_error(
    tmp_path: Path, env: str | None, was: str | None, says: tuple[str, ...]
) -> None:
    plan = planned(tmp_path, env, ("prod", "stage"), was, Overrides())
    (error,) = [each for each in plan.errors if each.code == "plan.environment"]
    for text in (*says, "--change-env"):
        assert text in error.what + error.hint
    changed = planned(tmp_path, env, ("prod", "stage"), was, Overrides(change_env=True))
    assert not changed.errors
    assert {each.connector for each in changed.actions} == {"shared", "prod-only"}


def test_the_environment_that_counts_is_the_last_one_that_is_known() -> None:
    def owned(env: str | None, applied_ms: int, **more: Any) -> Owned:
        return Owned("p", {}, None, env=env, applied_ms=applied_ms, **more)

    found = {
        "a": owned("stage", 1),
        "b": owned("prod", 2),
        # Written by a version that did not say
        "c": owned(None, 3, env_known=False),
        "d": replace(owned("other", 4), project="q"),
    }
    last = LedgerState(found).last_applied("p")
    assert last is not None and last.env == "prod"
    assert LedgerState({"c": found["c"]}).last_applied("p") is None


def test_older_records_do_not_say_which_environment() -> None:
    written = owned_to_json(Owned("p", {}, None))
    assert owned_from_json(written, None).env_known
    del written["env"]
    read = owned_from_json(written, None)
    assert not read.env_known
    assert owned_to_json(read) == written


# --- owners over REST alone ---

UNMARKED = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/data/prod"}


def over_rest(folder: Path, spec: str, overrides: Overrides, **live: Any) -> Plan:
    desired = desired_of(spec, folder)
    seen = replace(live_of(live, desired), rest_alone=True)
    return make_plan(desired, seen, group_id="connect", overrides=overrides)


def test_a_change_of_a_connector_that_nothing_calls_ours_needs_its_name(tmp_path: Path) -> None:
    live = {"connectors": {"shared": {"config": UNMARKED}}}
    plan = over_rest(tmp_path, SPEC, Overrides(), **live)
    (error,) = plan.errors
    assert error.code == "plan.owner-unseen"
    assert "owners cannot be seen without cluster.kafka" in error.what
    assert "--take-over shared" in error.hint
    assert not plan.actions
    assert over_rest(tmp_path, SPEC, Overrides(("other",)), **live).errors
    plan = over_rest(tmp_path, SPEC, Overrides(("shared",)), **live)
    assert not plan.errors
    assert [type(each) for each in plan.actions] == [Adopt, UpdateConfig]
    assert "owners cannot be seen" in render_plan(plan)


def test_what_our_own_key_marks_is_changed_and_deleted_as_ever(tmp_path: Path) -> None:
    live = {
        "connectors": {name: {"config": UNMARKED} for name in ("shared", "gone")},
        "ledger": {"connectors": {"shared": {}, "gone": {}}},
    }
    plan = over_rest(tmp_path, SPEC, Overrides(), **live)
    assert not plan.errors
    assert {each.connector for each in plan.actions} == {"shared", "gone"}


@pytest.mark.parametrize("target", ["running", "stopped"])
def test_an_adoption_alone_needs_it_only_where_it_writes(tmp_path: Path, target: str) -> None:
    same = SPEC.replace("/data/stage", "/data/prod")
    live = {"connectors": {"shared": {"config": UNMARKED, "target": target}}}
    plan = over_rest(tmp_path, same, Overrides(), **live)
    assert bool(plan.errors) is (target == "stopped")
    assert not plan.actions


def test_a_rename_of_a_connector_that_nothing_calls_ours_needs_the_old_name(tmp_path: Path) -> None:
    renamed = SPEC.replace("name: shared", "name: new\nrenamed_from: shared")
    live = {"connectors": {"shared": {"config": UNMARKED}}}
    (error,) = over_rest(tmp_path, renamed, Overrides(), **live).errors
    assert "--take-over shared" in error.hint
    assert not over_rest(tmp_path, renamed, Overrides(("shared",)), **live).errors
