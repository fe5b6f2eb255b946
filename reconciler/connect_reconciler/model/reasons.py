"""Reasons of actions: codes from a closed list, with the values that their sentences name.

The sentences are in `render.words`; code compares only codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from connect_specs.desired import Position
from connect_specs.states import TargetState

# In plan files: a code never changes its meaning
# fmt: off
ReasonCode: TypeAlias = Literal[
    "new", "deleted-outside", "only-recorded", "renamed", "unowned", "owner-unseen", "keys-differ",
    "state",
    "state-before", "state-of-old-name", "held-by-an-apply", "held-and-now-stopped",
    "for-offsets", "pin-new", "pin-drifted", "failed", "spec-gone", "spec-and-connector-gone",
    "prevent-delete", "continues", "carried",
    # of a rollback
    "was-there", "was-not-there", "was-only-begun", "had-this-name", "keys-were-different",
    "was-protected", "offsets-were-others",
]
# fmt: on


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the codes, with what only some of them need.

    `state` is the connector's target state before, and `old` the name that it had then. `to` is
    where a pin leads. `text` is the sentence of an action that was read from a plan file; files of
    earlier programs have no codes.
    """

    code: ReasonCode | None
    state: TargetState | None = None
    old: str = ""
    to: Position | None = None
    text: str = ""


def as_reason(text: str) -> Reason:
    """The reason of an action in a plan file that has no codes."""
    return Reason(None, text=text)


# Of an action that only serves a prediction or a comparison
NO_REASON = as_reason("")
