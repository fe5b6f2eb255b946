"""Counts what a plan does, in connectors, for its first line and for programs.

A stop that only serves other actions, and the way back from it, are not counted: nobody asked for
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Literal, TypeAlias, assert_never, get_args

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
    old_name,
)
from connect_reconciler.plan.plan import Plan

Kind: TypeAlias = Literal[
    "create",
    "rename",
    "adopt",
    "change",
    "stop",
    "pause",
    "resume",
    "restart",
    "rewind",
    "skip",
    "set-offsets",
    "reset",
    "protect",
    "unprotect",
    "delete",
    "forget",
]

KINDS: tuple[Kind, ...] = get_args(Kind)
RISKY: frozenset[Kind] = frozenset({"rename", "rewind", "skip", "set-offsets", "reset"})


def grouped(plan: Plan) -> tuple[tuple[Action, ...], ...]:
    """The plan's actions, a tuple a connector."""
    return tuple(
        tuple(actions) for _, actions in groupby(plan.actions, key=lambda action: action.connector)
    )


def kinds(actions: tuple[Action, ...]) -> tuple[Kind, ...]:
    """What the actions of one connector amount to, each once."""
    held = any(
        (isinstance(action, Stop | Create) and action.held_from is not None) or old_name(action)
        for action in actions
    )
    found = {kind for action in actions if (kind := _kind(action, held=held)) is not None}
    return tuple(kind for kind in KINDS if kind in found)


def summarize(plan: Plan) -> Mapping[Kind, int]:
    """How many connectors each kind of change concerns; kinds without any are left out."""
    counts = Counter(kind for actions in grouped(plan) for kind in kinds(actions))
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _kind(action: Action, *, held: bool) -> Kind | None:
    match action:
        case Create(renamed_from=None):
            return "create"
        case Create() | StopOld() | CarryOffsets() | DeleteOld():
            return "rename"
        case Adopt():
            return "adopt"
        case UpdateConfig():
            return "change"
        case Stop(held_from=held_from):
            return "stop" if held_from is None else None
        case AlterOffsets():
            return _offsets(action)
        case ResetOffsets():
            return "reset"
        case Pause():
            return None if held else "pause"
        case Resume():
            return None if held else "resume"
        case Restart():
            return "restart"
        case Delete():
            return "delete"
        case Protect(prevent_delete=prevent_delete):
            return "protect" if prevent_delete else "unprotect"
        case Forget():
            return "forget"
        case _:
            assert_never(action)


def _offsets(action: AlterOffsets) -> Kind:
    """By the worst of its moves: what is delivered twice, before what is never delivered."""
    directions = {move.direction for move in action.moves}
    if "back" in directions:
        return "rewind"
    if "forgotten" in directions:
        return "reset"
    return "skip" if "ahead" in directions else "set-offsets"
