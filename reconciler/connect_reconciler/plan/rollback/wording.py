"""Why a way back does what it does: not for a spec's sake, but because it was so before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from connect_reconciler.plan.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    DeleteOld,
    Forget,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    StopOld,
    UpdateConfig,
)
from connect_reconciler.plan.checks.deletes import SPECS_DISJOINT, SPECS_EMPTY
from connect_reconciler.plan.journal import Before
from connect_specs.diagnostics import Diagnostic


def as_before(action: Action, before: Mapping[str, Before]) -> Action:
    """The action with what was before the apply as its reason; the plan says which apply."""
    reason = _reason(action, before)
    return replace(action, reason=f"{reason} before") if reason else action


def told_of_the_way_back(problem: Diagnostic, apply_id: str) -> Diagnostic | None:
    """The problem as whoever goes back meets it; None for one that is none then."""
    if problem.code in (SPECS_EMPTY, SPECS_DISJOINT):
        # Deleting all that an apply created is what was asked for
        return None
    if problem.code == "plan.protected":
        what = f"{problem.where} was not there before apply {apply_id}, and is protected"
        hint = "apply its spec with prevent_delete: false, then run this again"
        return replace(problem, what=f"{what} against deletion", hint=hint)
    return problem


def _reason(action: Action, before: Mapping[str, Before]) -> str:
    match action:
        case Create(renamed_from=None):
            return "it was there"
        case Create() | StopOld():
            return f"its name was {action.connector}"
        case Delete(connector=name):
            there = before[name].config is not None
            return "its new name was only begun" if there else "it was not there"
        case UpdateConfig(changes=changes):
            keys = "1 key was" if len(changes) == 1 else f"{len(changes)} keys were"
            return f"{keys} different"
        case Stop() | Pause() | Resume():
            return ""  # the state that they lead to is said
        case Protect(prevent_delete=prevent_delete):
            return f"it was {'' if prevent_delete else 'not '}protected against deletion"
        case AlterOffsets() | ResetOffsets():
            return "its offsets were others"
        case Adopt() | CarryOffsets() | DeleteOld() | Restart() | Forget():
            return ""
        case _:
            assert_never(action)
