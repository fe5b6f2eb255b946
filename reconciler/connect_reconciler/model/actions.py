"""Actions: the closed set of effects that a plan can have, and what each relies on.

Every action is frozen and carries its reason, its effect on the data in a reviewer's words, and
its preconditions. Its class declares its traits once; code that does something else for each class
matches exhaustively, so that adding one breaks the type check wherever it must be learnt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from connect_reconciler.model.config_values import Value
from connect_reconciler.model.ledger import AppliedPin
from connect_reconciler.model.preconditions import Precondition
from connect_reconciler.model.reasons import Reason
from connect_specs.desired import Consequence, OffsetEntry, Position
from connect_specs.states import TargetState

# --- what actions change ---


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
    effects: tuple[str, ...] = ()


Direction: TypeAlias = Literal["back", "ahead", "same", "start", "forgotten", "unclear"]
Unit: TypeAlias = Literal["offset", "byte", "id", "transaction", "second"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a move redelivers, jumps over, or asks for although it is deleted.

    `exact` False: the connector reads on until it is stopped, so that `again` is the least that it
    can be, and `skipped` the most; or they are an estimate, of a pin with `to`.
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
    will be none, `unclear` where only the connector knows an order. `counts` None: unknown.
    """

    entry: OffsetEntry
    before: OffsetEntry | None
    effect: str = ""
    direction: Direction = "unclear"
    counts: Counts | None = None


# --- actions ---


ChangeKind: TypeAlias = Literal[
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What all actions share. `effects` are what the action does to the data.

    The class variables are a class's traits: `verb` is what it does, as an imperative, and `kind`
    what it counts as in a plan's summary. `ledger_only`: it changes nothing on the cluster.
    `asks_for` is the target state that it sets. `deletes`: its connector is gone afterwards.
    `settles`: afterwards apply waits until the connector is healthy. `on_old`: the connector that
    it changes is the one under the old name. `moves_offsets`: the offsets of that connector change.
    """

    verb: ClassVar[str]
    kind: ClassVar[ChangeKind]
    ledger_only: ClassVar[bool] = False
    asks_for: ClassVar[TargetState | None] = None
    deletes: ClassVar[bool] = False
    settles: ClassVar[bool] = False
    on_old: ClassVar[bool] = False
    moves_offsets: ClassVar[bool] = False

    connector: str
    reason: Reason
    effects: tuple[str, ...] = ()
    requires: tuple[Precondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAction(_Common):
    """Writes a connector's whole config; `changes` is what differs from the one before."""

    settles = True

    config: Mapping[str, Value]
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAction(_Common):
    """Moves offsets of a connector that is stopped, partition by partition."""

    moves_offsets = True

    moves: tuple[OffsetMove, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinAction(OffsetsAction):
    """Moves offsets to where a pin wants them, and records the pin before anything resumes.

    `held`: the spec says stopped, so the ledger's pin is to say so too.
    """

    pin: str
    pin_hash: str
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(ConfigAction):
    """Creates the connector in `initial_state`, config and state in one transaction (KIP-980).

    `restore_to` is set when it is created stopped for a later action only: the state to restore.
    `renamed_from` is the name of the connector that goes on in this one, from whose config
    `changes` tell the differences. `pins` are those that count as applied, since they were when the
    connector was there before. All of it but the config is in the ledger before the connector is on
    the cluster.
    """

    verb = "create"
    kind = "create"

    initial_state: TargetState
    restore_to: TargetState | None = None
    renamed_from: str | None = None
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(_Common):
    """Records a live, unowned connector as this project's. Changes nothing else."""

    verb = "adopt"
    kind = "adopt"
    ledger_only = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig(ConfigAction):
    """Writes the config of a connector that is there."""

    verb = "change config"
    kind = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Common):
    """Target state stopped, then waits until the tasks are gone.

    `restore_to` is set when the stop serves a later action only: the state to return to. It is in
    the ledger before the stop; None clears what an earlier apply left there.
    """

    verb = "stop"
    kind = "stop"
    asks_for = TargetState.STOPPED

    restore_to: TargetState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(PinAction):
    """Sets the offsets that a pin names.

    With `to`, `moves` are an estimate: where it leads is read once the sink is stopped.
    """

    verb = "set offsets"
    kind = "set-offsets"

    to: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(PinAction):
    """Forgets all offsets, as a pin says."""

    verb = "reset offsets"
    kind = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOld(_Common):
    """Stops the connector that is renamed, `old`, and waits until its tasks are gone.

    It is this project's from then on. `restore_to` is its target state from before, which is in the
    ledger before the stop; None if it was stopped.
    """

    verb = "stop old"
    kind = "rename"
    asks_for = TargetState.STOPPED
    on_old = True

    old: str
    restore_to: TargetState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOffsets(OffsetsAction):
    """Gives the connector the offsets of `old`, all of them and no others, and reads them back.

    `moves` are information: what is carried is read after the stop. With it the ledger gets the
    record of it, and the pins of `old`; nothing resumes before.
    """

    verb = "carry offsets"
    kind = "rename"

    old: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOld(_Common):
    """Deletes `old`, whose offsets were carried over, and all that the ledger holds of it.

    `reset`: its offsets are forgotten before, so that a later connector of its name does not begin
    in the middle. False where they are others' too.
    """

    verb = "delete old"
    kind = "rename"
    deletes = True
    on_old = True
    moves_offsets = True

    old: str
    reset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(_Common):
    """Target state paused."""

    verb = "pause"
    kind = "pause"
    asks_for = TargetState.PAUSED
    settles = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_Common):
    """Target state running."""

    verb = "resume"
    kind = "resume"
    asks_for = TargetState.RUNNING
    settles = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Common):
    """Restarts a failed connector and its failed tasks."""

    verb = "restart"
    kind = "restart"
    settles = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_Common):
    """Deletes the connector, and its pins and ownership from the ledger."""

    verb = "delete"
    kind = "delete"
    deletes = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect(_Common):
    """Sets or lifts the protection against deletion in the ledger."""

    verb = "protect"
    kind = "protect"
    ledger_only = True

    prevent_delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(_Common):
    """Removes ownership and pins of a connector that no longer exists."""

    verb = "forget"
    kind = "forget"
    ledger_only = True


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


# By the name that the journal of an apply has for them
ACTIONS: Mapping[str, type[Action]] = {each.__name__: each for each in get_args(Action)}


def old_name(action: Action) -> str | None:
    """The old name that a rename's own actions act on or read; None for all others."""
    return action.old if isinstance(action, StopOld | CarryOffsets | DeleteOld) else None


def subject(action: Action) -> str:
    """The connector that the action changes."""
    return (old_name(action) if action.on_old else None) or action.connector


def verb(action: Action) -> str:
    """What the action does, as an imperative."""
    if isinstance(action, Protect) and not action.prevent_delete:
        return "unprotect"
    return action.verb


def verb_of(name: str) -> str:
    """The verb of an action's class by its name; of one that is not known here, its words."""
    if name in ACTIONS:
        return ACTIONS[name].verb
    return re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).lower()
