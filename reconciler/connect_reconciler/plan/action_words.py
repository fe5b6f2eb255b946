"""An action in words: the same ones in plans, progress, history and errors. Pure."""

from __future__ import annotations

import re
from typing import Final

from connect_reconciler.plan.actions import (
    Action,
    CarryOffsets,
    Create,
    Protect,
    StopOld,
    UpdateConfig,
)

# How reasons begin that say by themselves what is done, so that no verb is needed beside them
STATE: Final = "state: "
# Why a connector is created that was never there
NEW: Final = "new"
# The same of one that an apply created before
DELETED: Final = "deleted outside connect"

_SPOKEN: Final = {"UpdateConfig": "change config", "AlterOffsets": "set offsets"}


def words(name: str) -> str:
    """The action of that name: `ResetOffsets` as `reset offsets`."""
    return _SPOKEN.get(name) or re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).lower()


def step(action: Action) -> str:
    """What the action does and why, once: of a new state only the state, of changed keys only that
    they change, of a rename what it is from is said before."""
    if action.reason.startswith(STATE):
        return action.reason
    done = "recreate" if recreates(action) else verb(action)
    return f"{done}: {action.reason}" if reason(action) else done


def reason(action: Action) -> str:
    """Why, where nothing else that is shown says it; a creation's is in the heading."""
    told = isinstance(action, Create | UpdateConfig | StopOld | CarryOffsets)
    return "" if told else action.reason


def recreates(action: Action) -> bool:
    """Whether a connector is created that was there before."""
    return isinstance(action, Create) and action.reason == DELETED


def verb(action: Action) -> str:
    """What the action does, as an imperative."""
    if isinstance(action, Protect) and not action.prevent_delete:
        return "unprotect"
    return words(type(action).__name__)
