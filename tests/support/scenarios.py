"""The files of tests/reconciler/plan/scenarios as worlds with their plans, each made once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import DeleteLimits, Desired
from support.plans import desired_of, live_of

FOLDER = Path(__file__).parents[1] / "reconciler" / "plan" / "scenarios"
FIELDS = frozenset("about specs live worker allow_empty max_deletes".split()) | frozenset(
    "actions errors warnings places messages human".split()
)
EXPECTED: Mapping[str, dict[str, Any]] = {
    file.stem: yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for file in sorted(FOLDER.glob("*.yaml"))
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file: what it expects, the world that it describes, and the plan that the code makes."""

    name: str
    expected: dict[str, Any]
    desired: Desired
    live: Live
    plan: Plan

    def __repr__(self) -> str:
        return self.name


@cache
def scenario_of(name: str) -> Scenario:
    expected = EXPECTED[name]
    assert expected.keys() <= FIELDS
    with tempfile.TemporaryDirectory() as folder:
        desired = desired_of(expected.get("specs", ""), Path(folder))
    live = live_of(expected.get("live", {}), desired)
    limits = DeleteLimits(expected.get("max_deletes"), expected.get("allow_empty", False))
    worker = expected.get("worker")
    plan = make_plan(desired, live, group_id="connect", worker=worker, deletes=limits)
    return Scenario(name, expected, desired, live, plan)


def scenarios_where(applies: Callable[[dict[str, Any]], object]) -> pytest.MarkDecorator:
    """Runs a test on the scenarios whose file fits, and on no others: a law that a scenario cannot
    break would pass there whatever the code does."""
    names = [name for name, expected in EXPECTED.items() if applies(expected)]
    assert names, "no scenario can break this law"
    return pytest.mark.parametrize("scenario", names, indirect=True)


def actions_of(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The actions that a file expects."""
    actions: list[dict[str, Any]] = expected.get("actions", [])
    return actions


def can_be_applied(expected: dict[str, Any]) -> bool:
    """Whether the plan has no errors; one that has any is neither saved nor applied."""
    return not expected.get("errors")


every_scenario = scenarios_where(lambda expected: True)
