"""The plan file, format version 3, as pydantic models.

They mirror the plan's own values, so that those can change while the file stays the same. Files of
older versions are converted to this one (`file`). Secrets are fingerprints. What may change
within a version is in docs/plans.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from typing_extensions import TypeAliasType

from connect_reconciler.model.reasons import ReasonCode
from connect_specs.states import TargetState

FORMAT: Literal["connect-plan"] = "connect-plan"
FORMAT_VERSION: Literal[3] = 3
# 1 January 10000, the first time that no calendar here can show
CALENDAR_END_MS = 253_402_300_800_000

# A name of its own, so that the schema lists the codes once
Code = TypeAliasType("Code", ReasonCode)
State: TypeAlias = Annotated[Literal["running", "paused", "stopped"], AfterValidator(TargetState)]
Scalar: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Model(BaseModel):
    """What all parts of the file share."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SecretModel(Model):
    """A value that is not shown: its fingerprint, empty where the project had no key."""

    secret: str


ValueModel: TypeAlias = str | SecretModel


class EntryModel(Model):
    """An offset of one partition, as KIP-875 writes it."""

    partition: dict[str, Scalar]
    offset: dict[str, Scalar] | None


class ChangeModel(Model):
    """One config key; null where it is not set. `effect` says in words what its change does."""

    key: str
    old: ValueModel | None
    new: ValueModel | None
    consequence: Literal[
        "none", "restart", "new-group", "new-offsets-topic", "redelivery", "reread"
    ]
    effect: str


class CountsModel(Model):
    """How much a move redelivers, jumps over, or asks for although it is deleted.

    Unless `exact`, the connector reads on until it is stopped: `again` is the least that it can be,
    and `skipped` the most.
    """

    again: int
    skipped: int
    gone: int
    unit: Literal["offset", "byte", "id", "transaction", "second"] = "offset"
    exact: bool = False


class MoveModel(Model):
    """One partition's offset, before and after. `before` is information."""

    entry: EntryModel
    before: EntryModel | None
    effect: str
    direction: Literal["back", "ahead", "same", "start", "forgotten", "unclear"]
    counts: CountsModel | None = None


class ExistsModel(Model):
    """The connector is there with this config."""

    type: Literal["exists"] = "exists"
    config_fingerprint: str
    leaving_out: tuple[str, ...] = ()


class AbsentModel(Model):
    """The connector is not there."""

    type: Literal["absent"] = "absent"


class TargetIsModel(Model):
    """The connector's target state."""

    type: Literal["target-is"] = "target-is"
    state: State


class OwnerIsModel(Model):
    """The owner in the ledger; null: unowned."""

    type: Literal["owner-is"] = "owner-is"
    project: str | None


class NotProtectedModel(Model):
    """Not protected against deletion."""

    type: Literal["not-protected"] = "not-protected"


class PinNotRecordedModel(Model):
    """The pin was not applied yet."""

    type: Literal["pin-not-recorded"] = "pin-not-recorded"
    pin: str


class PinRecordedModel(Model):
    """The pin was applied, with this content.

    Pin `renamed_from:OLD` with content `begun` or `carried` is the ledger's record of a rename.
    """

    type: Literal["pin-recorded"] = "pin-recorded"
    pin: str
    content_hash: str


class InsideLogModel(Model):
    """The offset lies in the partition's log."""

    type: Literal["inside-log"] = "inside-log"
    topic: str
    partition: int
    offset: int


ConditionModel: TypeAlias = (
    ExistsModel | AbsentModel | TargetIsModel | OwnerIsModel | NotProtectedModel
)


class OfOldModel(Model):
    """The condition holds for the connector that is renamed, under its old name."""

    type: Literal["of-old"] = "of-old"
    condition: Annotated[ConditionModel, Field(discriminator="type")]


PreconditionModel: TypeAlias = Annotated[
    ExistsModel
    | AbsentModel
    | TargetIsModel
    | OwnerIsModel
    | NotProtectedModel
    | PinNotRecordedModel
    | PinRecordedModel
    | InsideLogModel
    | OfOldModel,
    Field(discriminator="type"),
]


class Common(Model):
    """What all actions share. `reason` is the sentence for `reason_code`, which is
    missing in files of earlier programs."""

    action: str
    connector: str
    reason: str
    # A plan of an earlier program keeps its hash, by which an apply of it is found again
    reason_code: Code | None = Field(default=None, exclude_if=lambda code: code is None)
    effect: str
    requires: tuple[PreconditionModel, ...]


class AppliedPinModel(Model):
    """A pin that counts as applied. `resolved` null: it was a reset."""

    content_hash: str
    resolved: tuple[EntryModel, ...] | None
    applied_ms: int
    held: bool


class CreateModel(Common):
    """Creates a connector. `pins` by id: those that count as applied, null for none. `changes` is
    what differs from the config of `renamed_from`, null where that is null."""

    action: Literal["create"] = "create"
    config: dict[str, ValueModel]
    initial_state: State
    held_from: State | None = None
    renamed_from: str | None = None
    changes: tuple[ChangeModel, ...] | None = None
    pins: dict[str, AppliedPinModel] | None = None


class AdoptModel(Common):
    """Records a live connector as this project's."""

    action: Literal["adopt"] = "adopt"


class UpdateConfigModel(Common):
    """Writes a whole config."""

    action: Literal["update-config"] = "update-config"
    config: dict[str, ValueModel]
    changes: tuple[ChangeModel, ...]


class StopModel(Common):
    """Stops a connector, for good or for what follows."""

    action: Literal["stop"] = "stop"
    held_from: State | None = None


class _Offsets(Common):
    pin: str
    pin_hash: str
    moves: tuple[MoveModel, ...]
    held: bool = False


class AlterOffsetsModel(_Offsets):
    """Sets offsets."""

    action: Literal["alter-offsets"] = "alter-offsets"
    to: Literal["earliest", "latest"] | int | None = Field(
        default=None,
        description="where they lead once the sink is stopped, a time in ms since 1970;"
        " moves are an estimate then",
    )


class ResetOffsetsModel(_Offsets):
    """Forgets all offsets."""

    action: Literal["reset-offsets"] = "reset-offsets"


class StopOldModel(Common):
    """Stops the connector that is renamed."""

    action: Literal["stop-old"] = "stop-old"
    old: str
    held_from: State | None = None


class CarryOffsetsModel(Common):
    """Gives the connector the offsets that it has under its old name."""

    action: Literal["carry-offsets"] = "carry-offsets"
    old: str
    moves: tuple[MoveModel, ...]


class DeleteOldModel(Common):
    """Deletes the connector of the old name; with `reset` its offsets are forgotten before."""

    action: Literal["delete-old"] = "delete-old"
    old: str
    reset: bool


class PauseModel(Common):
    """Pauses a connector."""

    action: Literal["pause"] = "pause"


class ResumeModel(Common):
    """Resumes a connector."""

    action: Literal["resume"] = "resume"


class RestartModel(Common):
    """Restarts what failed."""

    action: Literal["restart"] = "restart"


class DeleteModel(Common):
    """Deletes a connector."""

    action: Literal["delete"] = "delete"


class ProtectModel(Common):
    """Sets or lifts the protection against deletion."""

    action: Literal["protect"] = "protect"
    prevent_delete: bool


class ForgetModel(Common):
    """Removes a connector that is gone from the ledger."""

    action: Literal["forget"] = "forget"


ActionModel: TypeAlias = Annotated[
    CreateModel
    | AdoptModel
    | UpdateConfigModel
    | StopModel
    | AlterOffsetsModel
    | ResetOffsetsModel
    | StopOldModel
    | CarryOffsetsModel
    | DeleteOldModel
    | PauseModel
    | ResumeModel
    | RestartModel
    | DeleteModel
    | ProtectModel
    | ForgetModel,
    Field(discriminator="action"),
]


class PlaceModel(Model):
    """A place in a file, counted from 1; line 0 means all of it."""

    file: str
    line: int = 0
    column: int = 0


class DiagnosticModel(Model):
    """An error or a warning."""

    code: str
    what: str
    where: PlaceModel | str | None = None
    why: str = ""
    hint: str = ""


class WarningModel(DiagnosticModel):
    """A warning. `unchanged`: it concerns only what the plan leaves as it is."""

    unchanged: bool = False


class TargetModel(Model):
    """The cluster by its addresses. `rest` null: our own runtime; `kafka` holds the bootstrap
    servers, or `embedded`, and is null over REST alone. No logins."""

    rest: str | None
    kafka: str | None


class PlanModel(Model):
    """A plan: what an apply would do, in order, and what it relies on."""

    format: Literal["connect-plan"] = FORMAT
    format_version: Literal[3] = FORMAT_VERSION
    hash: str = Field(description="SHA-256 over the rest, as JSON with sorted keys and no spaces")
    project: str
    group_id: str
    cluster_id: str
    observed_ms: int = Field(ge=0, lt=CALENDAR_END_MS, description="milliseconds since 1970")
    key_id: str
    env: str | None
    rolls_back: str | None = None
    target: TargetModel | None = Field(description="null where an older version did not say it")
    places: dict[str, PlaceModel] = Field(description="by connector, where its spec is")
    actions: tuple[ActionModel, ...]
    warnings: tuple[WarningModel, ...]
    errors: tuple[DiagnosticModel, ...]
