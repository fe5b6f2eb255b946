"""An action in words: the same ones in plans, progress, history and errors. Pure."""

from __future__ import annotations

import re
from typing import Final

from connect_reconciler.plan.actions import Action, Protect

_SPOKEN: Final = {"UpdateConfig": "change config", "AlterOffsets": "set offsets"}


def words(name: str) -> str:
    """The action of that name: `ResetOffsets` as `reset offsets`."""
    return _SPOKEN.get(name) or re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).lower()


def verb(action: Action) -> str:
    """What the action does, as an imperative."""
    if isinstance(action, Protect) and not action.prevent_delete:
        return "unprotect"
    return words(type(action).__name__)
