"""Preconditions: what an action relies on. Apply checks all of them before the first action, and
again those of each action right before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.model.ledger import RenameStage
from connect_reconciler.model.offsets import TopicPartition
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Exists:
    """The connector exists with exactly this config (a fingerprint of all of it).

    `leaving_out` names keys that the fingerprint does not cover: sensitive ones, while the project
    has no key to hash them with.
    """

    config_fingerprint: str
    leaving_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """No connector of that name exists."""


@dataclass(frozen=True, slots=True)
class TargetIs:
    """The connector's target state."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class OwnerIs:
    """The owner in the ledger; None: unowned."""

    project: str | None


@dataclass(frozen=True, slots=True)
class NotProtected:
    """The ledger does not protect the connector against deletion."""


@dataclass(frozen=True, slots=True)
class PinNotRecorded:
    """The ledger does not hold the pin yet."""

    pin: str


@dataclass(frozen=True, slots=True)
class PinRecorded:
    """The ledger holds the pin, with this content: nothing resumes before."""

    pin: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class RenameRecorded:
    """The ledger holds the rename from `old` at this stage: nothing resumes before."""

    old: str
    stage: RenameStage


@dataclass(frozen=True, slots=True)
class InsideLog:
    """The offset lies between the log's start and its end."""

    partition: TopicPartition
    offset: int


OldCondition: TypeAlias = Exists | Absent | TargetIs | OwnerIs | NotProtected


@dataclass(frozen=True, slots=True)
class OfOld:
    """The condition holds for the connector that is renamed, under its old name."""

    condition: OldCondition


Precondition: TypeAlias = (
    Exists
    | Absent
    | TargetIs
    | OwnerIs
    | NotProtected
    | PinNotRecorded
    | PinRecorded
    | RenameRecorded
    | InsideLog
    | OfOld
)
