"""The words for what a plan does, the same in every rendering. A new action is taught here once.

For each action: what it writes and moves; its verb is in `plan.action_words`. The first line counts
by kind, and a connector's heading names its kinds (`plan.summary`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from connect_reconciler.plan.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    DeleteOld,
    FieldChange,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    StopOld,
    UpdateConfig,
)
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.scope import PARTIAL
from connect_reconciler.plan.summary import Kind, summarize
from connect_reconciler.plan.target import target_text
from connect_specs.desired import Consequence


@dataclass(frozen=True, slots=True)
class Details:
    """The config keys that an action adds, changes or removes, and the offsets that it moves."""

    fields: tuple[FieldChange, ...] = ()
    moves: tuple[OffsetMove, ...] = ()


NO_CHANGES = "no changes, the cluster matches the specs"
NOTHING_TO_ROLL_BACK = "no changes, the cluster is as it was before that apply"

CONSEQUENCES: Mapping[Consequence, str] = {
    "none": "",
    "restart": "",  # said once, of the whole config
    "new-group": "new consumer group",
    "new-offsets-topic": "new offsets topic",
    "redelivery": "re-delivery",
    "reread": "re-read",
}

# What a connector then reads, or delivers, is not what comes next
GRAVE: tuple[Consequence, ...] = ("new-group", "new-offsets-topic", "redelivery", "reread")
# What a reviewer is to see first, in the first line too
_FIRST: tuple[Kind, ...] = ("delete", "rewind", "skip", "reset", "rename")

_COUNTED: Mapping[Kind, tuple[str, str]] = {
    "rewind": ("rewind", "rewinds"),
    "skip": ("skip", "skips"),
    "reset": ("offset reset", "offset resets"),
}
_KIND_WORDS: Mapping[Kind, str] = {
    "change": "change config",
    "set-offsets": "set offsets",
    "reset": "reset offsets",
}


def summary_line(plan: Plan) -> str:
    """The first line: `orders [prod] → https://connect.prod:8083, group orders: 12 to create`."""
    where = target_text(plan.target, plan.group_id)
    between = ", " if plan.target is None else " → "
    return f"{project_text(plan)}{between}{where}: {outcome(plan)}"


def project_text(plan: Plan) -> str:
    """`orders [prod]`, or `orders` where there is no environment."""
    return plan.project if plan.env is None else f"{plan.project} [{plan.env}]"


def outcome(plan: Plan) -> str:
    """`1 rewind, 2 to create, 1 to change`, or that there is nothing to do; and of which part of
    the project that is said."""
    back = "" if plan.rolls_back is None else f"rollback of apply {plan.rolls_back}: "
    parts = [each.what for each in plan.warnings if each.code == PARTIAL]
    if parts and plan.empty:
        return f"{back}no changes; {parts[0]}"
    return back + "; ".join([_whole(plan), *parts])


def counts_text(plan: Plan) -> str:
    """`1 rewind, 2 to create`: what a reviewer is to see first comes first."""
    found = summarize(plan)
    order = dict.fromkeys((*_FIRST, *found))
    return ", ".join(_count(kind, found[kind]) for kind in order if kind in found)


def question(plan: Plan) -> str:
    """What whoever applies the plan is asked."""
    what = "Apply to"
    if plan.rolls_back is not None:
        what = f"Roll back apply {plan.rolls_back} of"
    return f"{what} {project_text(plan)}: {counts_text(plan)}?"


def _whole(plan: Plan) -> str:
    if plan.empty:
        return NO_CHANGES if plan.rolls_back is None else NOTHING_TO_ROLL_BACK
    counts = counts_text(plan)
    if not plan.errors:
        return counts
    errors = len(plan.errors)
    refused = f"{errors} error{'' if errors == 1 else 's'}, so nothing can be applied"
    return f"{counts}; {refused}" if counts else refused


def kind_words(kind: Kind) -> str:
    """The kind as a connector's heading says it."""
    return _KIND_WORDS.get(kind, kind)


def effects(action: Action) -> tuple[str, ...]:
    """What the action does to the data, but for what stands beside one of its keys already."""
    beside = {line for each in details(action).fields for line in each.effect.splitlines()}
    return tuple(line for line in action.effect.splitlines() if line not in beside)


def details(action: Action) -> Details:
    """What the action writes and moves, one by one."""
    match action:
        case Create(renamed_from=str(), changes=changes):
            return Details(fields=changes)
        case Create(config=config):
            keys = sorted(config.keys() - {"name"})
            return Details(fields=tuple(FieldChange(key, None, config[key]) for key in keys))
        case UpdateConfig(changes=changes):
            return Details(fields=changes)
        case AlterOffsets(moves=moves) | ResetOffsets(moves=moves) | CarryOffsets(moves=moves):
            return Details(moves=moves)
        case Adopt() | Stop() | Pause() | Resume() | Restart() | Delete() | Protect() | Forget():
            return Details()
        case StopOld() | DeleteOld():
            return Details()
        case _:
            assert_never(action)


def harmless(move: OffsetMove) -> bool:
    """Whether the move neither repeats nor passes over anything."""
    return move.direction in ("same", "start")


def _count(kind: Kind, count: int) -> str:
    if kind in _COUNTED:
        return f"{count} {_COUNTED[kind][count != 1]}"
    return f"{count} to {'set offsets' if kind == 'set-offsets' else kind}"
