"""Preconditions: the facts that an action relies on. An apply checks all of them before the first
action, and again those of each action right before it.

Each class is its own form in a plan file, told apart by `type`, and says why it does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from connect_reconciler.actions.connector_state import ConnectorState, States
from connect_reconciler.model.config_values import Secret, Value, recorded
from connect_reconciler.model.ledger import RenameStage
from connect_reconciler.model.secrets import config_fingerprint
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic
from connect_specs.plain_text import listed

_PLAN_AGAIN: Final = "make the plan again"


class Condition:
    """A fact about one connector. `code` names the diagnostic of an apply that it stops."""

    __slots__ = ()
    code: ClassVar[str]

    def problem(self, state: ConnectorState) -> str:
        """Returns why it does not hold in this state; empty if it holds."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists(Condition):
    """The connector exists with exactly this config (a fingerprint of all of it).

    `leaving_out` names keys that the fingerprint does not cover: sensitive ones, while the project
    has no key to hash them with.
    """

    code = "config"

    type: Literal["exists"] = "exists"
    config_fingerprint: str
    leaving_out: tuple[str, ...] = ()

    def problem(self, state: ConnectorState) -> str:
        if state.config is None:
            return "the connector is not there"
        fingerprint = config_fingerprint(
            state.config, connector=state.name, key=state.key, leaving_out=self.leaving_out
        )
        if fingerprint == self.config_fingerprint:
            return ""
        problem = "its config is not the one that the plan relies on"
        keys = _differing_keys(state.config, state)
        return f"{problem}: {listed(keys)}" if keys else problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Condition):
    """No connector of that name exists."""

    code = "exists"

    type: Literal["absent"] = "absent"

    def problem(self, state: ConnectorState) -> str:
        return "" if state.config is None else "the connector exists already"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIs(Condition):
    """The connector's target state."""

    code = "state"

    type: Literal["target-is"] = "target-is"
    state: TargetState

    def problem(self, state: ConnectorState) -> str:
        if state.target == self.state:
            return ""
        current = state.target.value if state.target else "not there"
        return f"its target state is {current}, not {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerIs(Condition):
    """The owner in the ledger; None: unowned."""

    code = "owner"

    type: Literal["owner-is"] = "owner-is"
    project: str | None

    def problem(self, state: ConnectorState) -> str:
        if state.owner == self.project:
            return ""
        return f"the ledger names {_owner(state.owner)} as its owner, not {_owner(self.project)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotProtected(Condition):
    """The ledger does not protect the connector against deletion."""

    code = "protected"

    type: Literal["not-protected"] = "not-protected"

    def problem(self, state: ConnectorState) -> str:
        return "it is protected against deletion" if state.prevent_delete else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinNotRecorded(Condition):
    """The ledger does not hold the pin yet."""

    code = "pin-applied"

    type: Literal["pin-not-recorded"] = "pin-not-recorded"
    pin: str

    def problem(self, state: ConnectorState) -> str:
        return f"pin {self.pin} has been applied already" if self.pin in state.pins else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRecorded(Condition):
    """The ledger holds the pin, with this content: nothing resumes before."""

    code = "pin-missing"

    type: Literal["pin-recorded"] = "pin-recorded"
    pin: str
    content_hash: str

    def problem(self, state: ConnectorState) -> str:
        applied = state.pins.get(self.pin)
        if applied is not None and applied.content_hash == self.content_hash:
            return ""
        return f"the ledger does not hold pin {self.pin} as the spec has it"


_STAGES: Final[Mapping[RenameStage, str]] = {
    "begun": "that it was created to be renamed",
    "carried": "that it has the offsets",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRecorded(Condition):
    """The ledger holds the rename from `old` at this stage: nothing resumes before."""

    code = "rename-missing"

    type: Literal["rename-recorded"] = "rename-recorded"
    old: str
    stage: RenameStage

    def problem(self, state: ConnectorState) -> str:
        rename = state.renames.get(self.old)
        if rename is not None and rename.stage == self.stage:
            return ""
        return f"the ledger does not say {_STAGES[self.stage]} from {self.old}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLog(Condition):
    """The offset lies between the log's start and its end."""

    code = "outside-log"

    type: Literal["inside-log"] = "inside-log"
    topic: str
    partition: int
    offset: int

    def problem(self, state: ConnectorState) -> str:
        name, log = f"{self.topic}-{self.partition}", state.logs.get((self.topic, self.partition))
        if log is None:
            return f"{name} does not exist"
        if log.earliest <= self.offset <= log.latest:
            return ""
        return f"{name} holds {log.earliest} to {log.latest}: {self.offset} lies outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfConnector:
    """The condition holds for another connector of the action's group."""

    type: Literal["of-connector"] = "of-connector"
    connector: str
    condition: Annotated[
        Exists | Absent | TargetIs | OwnerIs | RenameRecorded, Field(discriminator="type")
    ]


# A named type, so that the schema of plan files lists them once
Precondition = TypeAliasType(
    "Precondition",
    Annotated[
        Exists
        | Absent
        | TargetIs
        | OwnerIs
        | NotProtected
        | PinNotRecorded
        | PinRecorded
        | RenameRecorded
        | InsideLog
        | OfConnector,
        Field(discriminator="type"),
    ],
)


def check(precondition: Precondition, states: States, name: str) -> Diagnostic | None:
    """Returns why the precondition of an action on this connector does not hold; None if it
    does."""
    if isinstance(precondition, OfConnector):
        name, precondition = precondition.connector, precondition.condition
    problem = "the plan relies on it, and does nothing with it"
    if name in states:
        problem = precondition.problem(states[name])
    if not problem:
        return None
    return Diagnostic(f"stale.{precondition.code}", problem, name, hint=_PLAN_AGAIN)


# --- the preconditions that describe a predicted state ---


def exists(state: ConnectorState) -> Exists:
    """Returns the precondition that the connector has the config of this state."""
    config = state.config or {}
    leaving_out: tuple[str, ...] = ()
    if state.key is None:
        secret = {key for key, value in config.items() if isinstance(value, Secret)}
        leaving_out = tuple(sorted(secret | (config.keys() & state.sensitive)))
    fingerprint = config_fingerprint(
        config, connector=state.name, key=state.key, leaving_out=leaving_out
    )
    return Exists(config_fingerprint=fingerprint, leaving_out=leaving_out)


def as_predicted(state: ConnectorState) -> tuple[Exists | Absent | TargetIs | OwnerIs, ...]:
    """Returns the preconditions that it is there with config and target state, or not there, and
    has this owner."""
    config: tuple[Exists | Absent | TargetIs, ...] = (Absent(),)
    if state.config is not None:
        config = (exists(state), *target_is(state))
    return (*config, owner_is(state))


def target_is(state: ConnectorState) -> tuple[TargetIs, ...]:
    """Returns the precondition that it has this target state; nothing where it is not there."""
    return () if state.target is None else (TargetIs(state=state.target),)


def owner_is(state: ConnectorState) -> OwnerIs:
    """Returns the precondition that it has this owner."""
    return OwnerIs(project=state.owner)


def _owner(project: str | None) -> str:
    return "nobody" if project is None else f"project {project}"


def _differing_keys(config: Mapping[str, Value], state: ConnectorState) -> list[str]:
    """Returns the keys with other values than those that the plan relied on, or, where it does not
    name these, than those that were applied last."""

    def mark(values: Mapping[str, Value], key: str) -> str:
        only = {key: values[key]} if key in values else {}
        return config_fingerprint(only, connector=state.name, key=state.key)

    planned, applied = state.relied_on, state.applied
    if planned is not None:
        keys = sorted(planned.keys() | config.keys())
        return [key for key in keys if mark(planned, key) != mark(config, key)]
    if applied is None:
        return []
    current = recorded(config)
    keys = sorted(applied.keys() | current.keys())
    return [key for key in keys if applied.get(key) != current.get(key)]
