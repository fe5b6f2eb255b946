"""Specs that are read with another environment than those that were applied before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.model.plan import Plan
from connect_reconciler.plan.planner import make_plan
from support.plans import desired_of, live_of

SPEC = """
name: shared
config: {connector.class: FileStreamSink, topics: orders, file: /data/stage}
"""


def planned(folder: Path, env: str | None, known: tuple[str, ...], was: str | None) -> Plan:
    config = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/data/prod"}
    live: Mapping[str, Any] = {
        "connectors": {"shared": {"config": config}, "prod-only": {"config": config}},
        "ledger": {"connectors": {"shared": {"env": was}, "prod-only": {"env": was}}},
    }
    desired = replace(desired_of(SPEC, folder), environments=known)
    return make_plan(desired, live_of(live, desired), group_id="connect", env=env)


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
