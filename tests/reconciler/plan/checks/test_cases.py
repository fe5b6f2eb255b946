"""What the checks of a plan say: the cases of cases.yaml.

A case has `specs` and `live` as a scenario file has, `overrides` of a command line (`{}`: none;
left out, nothing that a command line could override is checked), and the `env` of `environments`
that the specs are read with. A list of these means each of them. Expected are the codes of all
`errors` and `warnings` (but the one that each plan over REST alone has), parts of what they
`say` or actions give as their reason, all `actions`, `effects` of actions and moves, and the
connector whose offsets the plan `moves`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Overrides
from support.applying import names
from support.plans import desired_of, live_of

CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
FIELDS = frozenset("case specs live overrides env environments".split()) | frozenset(
    "errors warnings says actions effects moves".split()
)


def each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    assert case.keys() <= FIELDS
    varied = (case.get("specs", ""), case.get("live", {}), case.get("overrides"), case.get("env"))
    for specs, live, overrides, env in product(*map(each, varied)):
        desired = replace(desired_of(specs, tmp_path), environments=case.get("environments", ()))
        plan = make_plan(
            desired,
            live_of(live, desired),
            group_id="connect",
            env=env,
            overrides=None if overrides is None else Overrides(**overrides),
        )
        said = [one for one in plan.warnings if one.code != "plan.rest-alone"]
        shown = f"{plan.errors}\n{said}\n{names(plan)}"
        assert [one.code for one in plan.errors] == case.get("errors", []), shown
        assert [one.code for one in said] == case.get("warnings", []), shown
        texts = [f"{one.what} {one.hint}" for one in (*plan.errors, *plan.warnings)]
        text = "\n".join([*texts, *(action.reason for action in plan.actions)])
        assert all(part in text for part in each(case.get("says", []))), text
        assert names(plan) == case.get("actions", names(plan)), shown
        moves = [action for action in plan.actions if isinstance(action, AlterOffsets)]
        effects = [effect for action in plan.actions for effect in action.effects]
        effects += [move.effect for action in moves for move in action.moves]
        assert set(each(case.get("effects", []))) <= set(effects), effects
        assert "moves" not in case or [action.connector for action in moves] == [case["moves"]]
