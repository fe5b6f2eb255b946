"""Actions: the closed set of effects that a plan can have, and what each relies on.

Every action is frozen and carries its reason, its effect on the data in a reviewer's words, and
its preconditions. Executor and renderers match on these classes exhaustively: adding one breaks the
type check wherever it must be learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from connect_reconciler.plan.live import AppliedPin, RenameStage, TopicPartition
from connect_reconciler.plan.values import Value
from connect_specs.desired import Consequence, OffsetEntry
from connect_specs.states import TargetState

# --- preconditions: checked all before the first action, and again before their own ---


@dataclass(frozen=True, slots=True)
class Exists:
    """The connector is there, with exactly this config (fingerprint over all of it).

    `leaving_out` names keys that the fingerprint does not cover: sensitive ones, while the project
    has no key to hash them with.
    """

    config_fingerprint: str
    leaving_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """No connector of that name is there."""


@dataclass(frozen=True, slots=True)
class TargetIs:
    """The connector's target state."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class OwnerIs:
    """The project that the ledger names as owner; None: nobody."""

    project: str | None


@dataclass(frozen=True, slots=True)
class NotProtected:
    """The ledger holds no guard against deletion."""


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


# --- actions ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """`effect` holds what the action does to the data, one statement a line."""

    connector: str
    reason: str
    effect: str = ""
    requires: tuple[Precondition, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One config key: `old` None when it is added, `new` None when it is removed.

    `consequence` is the gravest thing that this key's change does, and `effect` says it in words,
    a statement a line; it is empty where the consequence alone says all.
    """

    key: str
    old: Value | None
    new: Value | None
    consequence: Consequence = "none"
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(_Common):
    """Creates the connector in `initial_state`, config and state in one transaction (KIP-980).

    `held_from` is set when it is created stopped for a later action only: the state to go on to.
    `renamed_from` is the name of the connector that goes on in this one, and `changes` what differs
    from its config. `pins` are those that
    count as applied, since they were when it was there before. All of it but the config is in the
    ledger before the connector is on the cluster.
    """

    config: Mapping[str, Value]
    initial_state: TargetState
    held_from: TargetState | None = None
    renamed_from: str | None = None
    changes: tuple[FieldChange, ...] = ()
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(_Common):
    """Records a live connector that nobody owns as this project's. Changes nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig(_Common):
    """Writes the whole config; `changes` is what differs."""

    config: Mapping[str, Value]
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Common):
    """Target state stopped, then waits until the tasks are gone.

    `held_from` is set when the stop serves a later action only: the state to go back to. It is in
    the ledger before the stop; None clears what an earlier apply left there.
    """

    held_from: TargetState | None = None


Direction: TypeAlias = Literal["back", "ahead", "same", "start", "forgotten", "unclear"]


Unit: TypeAlias = Literal["offset", "byte", "id", "transaction", "second"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a move repeats, passes over, or asks for although it is gone.

    `exact` False: the connector reads on until it is stopped, so that `again` is the least that it
    can be, and `skipped` the most.
    """

    again: int = 0
    skipped: int = 0
    gone: int = 0
    unit: Unit = "offset"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition: from where to where. `before` is information, read again after the stop.

    `direction` for counting and colour: `start` where there was no offset, `forgotten` where there
    will be none, `unclear` where only the connector knows an order. `counts` None: nobody can tell.
    """

    entry: OffsetEntry
    before: OffsetEntry | None
    effect: str = ""
    direction: Direction = "unclear"
    counts: Counts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(_Common):
    """Sets offsets and records the pin before anything resumes.

    `held`: the spec says stopped, so the ledger's pin is to say so too.
    """

    pin: str
    pin_hash: str
    moves: tuple[OffsetMove, ...]
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(_Common):
    """Forgets all offsets and records the pin before anything resumes.

    `held`: the spec says stopped, so the ledger's pin is to say so too.
    """

    pin: str
    pin_hash: str
    moves: tuple[OffsetMove, ...]
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOld(_Common):
    """Stops the connector that is renamed, `old`, and waits until its tasks are gone.

    It is this project's from then on. `held_from` is its target state from before, which is in the
    ledger before the stop; None if it was stopped.
    """

    old: str
    held_from: TargetState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOffsets(_Common):
    """Gives the connector the offsets of `old`, all of them and no others, and reads them back.

    `moves` are information: what is carried is read after the stop. With it the ledger gets the
    record of it, and the pins of `old`; nothing resumes before.
    """

    old: str
    moves: tuple[OffsetMove, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOld(_Common):
    """Deletes `old`, whose offsets were carried over, and all that the ledger holds of it.

    `reset`: its offsets are forgotten before, so that a later connector of its name does not begin
    in the middle. False where they are others' too.
    """

    old: str
    reset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(_Common):
    """Target state paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_Common):
    """Target state running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Common):
    """Restarts a failed connector and its failed tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_Common):
    """Deletes the connector, and its pins and ownership from the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect(_Common):
    """Sets or lifts the guard against deletion in the ledger."""

    prevent_delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(_Common):
    """Removes ownership and pins of a connector that is gone already."""


Action: TypeAlias = (
    Create
    | Adopt
    | UpdateConfig
    | Stop
    | AlterOffsets
    | ResetOffsets
    | StopOld
    | CarryOffsets
    | DeleteOld
    | Pause
    | Resume
    | Restart
    | Delete
    | Protect
    | Forget
)


def old_name(action: Action) -> str | None:
    """The old name that a rename's own actions act on or read; None for all others."""
    return action.old if isinstance(action, StopOld | CarryOffsets | DeleteOld) else None


def subject(action: Action) -> str:
    """The connector that the action changes."""
    return action.old if isinstance(action, StopOld | DeleteOld) else action.connector
