"""Counts the connectors that a plan creates, changes, stops, ...: for its first line and for JSON.

A stop that only serves other actions, and the resume after it, are not counted: nobody asked for
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import get_args

from connect_reconciler.model.actions import (
    Action,
    AlterOffsets,
    ChangeKind,
    Create,
    Pause,
    Protect,
    Resume,
    Stop,
    old_name,
)
from connect_reconciler.model.plan import Plan
from connect_specs.states import TargetState

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
RISKY: frozenset[ChangeKind] = frozenset({"rename", "rewind", "skip", "set-offsets", "reset"})


def grouped(plan: Plan) -> tuple[tuple[Action, ...], ...]:
    """The plan's actions, a tuple a connector."""
    return tuple(
        tuple(actions) for _, actions in groupby(plan.actions, key=lambda action: action.connector)
    )


def kinds(actions: tuple[Action, ...]) -> tuple[ChangeKind, ...]:
    """What the actions of one connector amount to, each once."""
    held = any(
        (isinstance(action, Stop | Create) and action.restore_to is not None) or old_name(action)
        for action in actions
    )
    found = {kind for action in actions if (kind := _kind(action, held=held)) is not None}
    return tuple(kind for kind in KINDS if kind in found)


def summarize(plan: Plan) -> Mapping[ChangeKind, int]:
    """How many connectors each kind of change concerns; kinds without any are left out."""
    counts = Counter(kind for actions in grouped(plan) for kind in kinds(actions))
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _kind(action: Action, *, held: bool) -> ChangeKind | None:
    match action:
        case Stop(restore_to=TargetState()):
            return None
        case Pause() | Resume() if held:
            return None
        case Create(renamed_from=str()):
            return "rename"
        case Protect(prevent_delete=False):
            return "unprotect"
        case AlterOffsets():
            return _offsets(action)
        case _:
            return action.kind


def _offsets(action: AlterOffsets) -> ChangeKind:
    """By the worst of its moves: what is delivered twice, before what is never delivered."""
    directions = {move.direction for move in action.moves}
    if "back" in directions:
        return "rewind"
    if "forgotten" in directions:
        return "reset"
    return "skip" if "ahead" in directions else "set-offsets"
