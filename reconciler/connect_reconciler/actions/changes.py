"""What actions change: config keys and offsets; and why, in sentences and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator
from typing_extensions import TypeAliasType

from connect_reconciler.model.config_values import Value
from connect_specs.desired import Consequence, OffsetEntry

# In plan files: a code never changes its meaning. A named type, so that their schema lists it once
# fmt: off
ReasonCode = TypeAliasType("ReasonCode", Literal[
    "new", "deleted-outside", "only-recorded", "renamed", "unowned", "owner-unseen", "keys-differ",
    "state",
    "state-before", "state-of-old-name", "held-by-an-apply", "held-and-now-stopped",
    "for-offsets", "pin-new", "pin-drifted", "failed", "spec-gone", "spec-and-connector-gone",
    "prevent-delete", "continues", "carried",
    # of a rollback
    "was-there", "was-not-there", "was-only-begun", "had-this-name", "keys-were-different",
    "was-protected", "offsets-were-others",
])
# The kinds of changes that a summary counts, in its order
ChangeKind: TypeAlias = Literal[
    "create", "rename", "adopt", "change", "stop", "pause", "resume", "restart", "rewind", "skip",
    "set-offsets", "reset", "protect", "unprotect", "delete", "forget",
]
# fmt: on


def _lines(text: object) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise ValueError("effects are a text, one a line")
    return tuple(text.split("\n")) if text else ()


# Sentences on what is done to the data; a plan file has one a line
EffectLines: TypeAlias = Annotated[
    tuple[str, ...],
    Field(alias="effect"),
    PlainSerializer("\n".join, return_type=str),
    PlainValidator(_lines),
]
# The name that the connector gets by a rename; a plan file leaves it out of all other actions
RenamedTo: TypeAlias = Annotated[str | None, Field(exclude_if=lambda name: name is None)]


# After such a change of a key the connector reads from another position, or delivers records twice
GRAVE: tuple[Consequence, ...] = ("new-group", "new-offsets-topic", "redelivery", "reread")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed config key: `old` is None if it is added, `new` if it is removed.

    `consequence` is the most severe consequence of the change, and `effects` say more about it;
    there are none where the consequence says everything.
    """

    key: str
    old: Value | None
    new: Value | None
    consequence: Consequence = "none"
    effects: EffectLines = ()


Direction: TypeAlias = Literal["back", "ahead", "same", "start", "forgotten", "unclear"]
Unit: TypeAlias = Literal["offset", "byte", "id", "transaction", "second"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a move redelivers, jumps over, or asks for although it is deleted.

    `exact` False: the connector reads on until it is stopped, so that `redelivered`, in plan files
    `again`, is the least that it can be, and `skipped` the most; or they are an estimate, of a pin
    with `to`.
    """

    redelivered: Annotated[int, Field(alias="again")] = 0
    skipped: int = 0
    gone: int = 0
    unit: Unit = "offset"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition: from where to where. `before` is information, read again after the stop.

    `direction` for counting and colour: `start` where there was no offset, `forgotten` where there
    will be none, `unclear` where only the connector knows an order. `counts` None: unknown.
    """

    entry: OffsetEntry
    before: OffsetEntry | None
    effect: str = ""
    direction: Direction = "unclear"
    counts: Counts | None = None
