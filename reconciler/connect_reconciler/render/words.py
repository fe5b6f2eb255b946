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
from connect_specs.desired import Consequence


@dataclass(frozen=True, slots=True)
class Details:
    """The config keys that an action adds, changes or removes, and the offsets that it moves."""

    fields: tuple[FieldChange, ...] = ()
    moves: tuple[OffsetMove, ...] = ()


NO_CHANGES = "No changes. Live matches the specs."
NOTHING_TO_LEAD_BACK = "No changes. Live is as it was before that apply."

CONSEQUENCES: Mapping[Consequence, str] = {
    "none": "",
    "restart": "task restart",
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
    """`Plan: 1 rewind, 2 to create, 1 to change`, or that there is nothing to do; and of which part
    of the project that is said."""
    parts = [each.what for each in plan.warnings if each.code == PARTIAL]
    if parts and plan.empty:
        return f"No changes; {parts[0]}"
    return "; ".join([_whole_line(plan), *parts])


def _whole_line(plan: Plan) -> str:
    if plan.empty:
        return NO_CHANGES if plan.rolls_back is None else NOTHING_TO_LEAD_BACK
    found = summarize(plan)
    order = dict.fromkeys((*_FIRST, *found))
    counts = ", ".join(_count(kind, found[kind]) for kind in order if kind in found)
    if not plan.errors:
        return f"Plan: {counts}"
    errors = len(plan.errors)
    refused = f"{errors} error{'' if errors == 1 else 's'}, so nothing of it can be applied"
    return f"Plan: {counts}; {refused}" if counts else f"Plan: {refused}"


def leads_back(plan: Plan) -> str:
    """What a rollback's plan is; empty for all others."""
    if plan.rolls_back is None:
        return ""
    return f"leads back to what was before apply {plan.rolls_back}"


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
