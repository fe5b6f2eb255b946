"""The actions of plans, one class each, in families.

They stand above the model and the formats of the ledger's records, and below planning; the cluster
is behind `base.Operations`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from connect_reconciler.actions.base import Action
from connect_reconciler.actions.changes import (
    ChangeKind,
    Counts,
    Direction,
    FieldChange,
    OffsetMove,
    ReasonCode,
    Unit,
)
from connect_reconciler.actions.config import (
    Adopt,
    ConfigAction,
    Create,
    Delete,
    Forget,
    Protect,
    UpdateConfig,
)
from connect_reconciler.actions.lifecycle import Pause, Restart, Resume, Stop
from connect_reconciler.actions.offsets import (
    AlterOffsets,
    CopyOffsets,
    OffsetsAction,
    PinAction,
    ResetOffsets,
)

__all__ = [
    "ACTIONS",
    "Action",
    "Adopt",
    "AlterOffsets",
    "AnyAction",
    "ChangeKind",
    "ConfigAction",
    "CopyOffsets",
    "Counts",
    "Create",
    "Delete",
    "Direction",
    "FieldChange",
    "Forget",
    "OffsetMove",
    "OffsetsAction",
    "Pause",
    "PinAction",
    "Protect",
    "ReasonCode",
    "ResetOffsets",
    "Restart",
    "Resume",
    "Stop",
    "Unit",
    "UpdateConfig",
    "verb_of",
]

_Actions: TypeAlias = (
    Create
    | Adopt
    | UpdateConfig
    | Stop
    | AlterOffsets
    | ResetOffsets
    | CopyOffsets
    | Pause
    | Resume
    | Restart
    | Delete
    | Protect
    | Forget
)
# Any action, as a plan file tells them apart
AnyAction: TypeAlias = Annotated[_Actions, Field(discriminator="action")]

# By the names that journals of applies have for them, also those of the steps of renames
ACTIONS: Mapping[str, type[Action]] = {
    **{cls.__name__: cls for cls in get_args(_Actions)},
    "StopOld": Stop,
    "CarryOffsets": CopyOffsets,
    "DeleteOld": Delete,
}


def verb_of(name: str) -> str:
    """Returns the verb of an action by its name in a journal: its class's, or the name's words."""
    action = ACTIONS.get(name)
    if action is not None and name == action.__name__:
        return action.verb
    return re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).lower()
