"""Actions that create a connector, write its config, delete it, or change the ledger alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from connect_reconciler.actions.base import Action, Operations
from connect_reconciler.actions.changes import ChangeKind, FieldChange, RenamedTo
from connect_reconciler.actions.connector_state import States, changed, changes_place
from connect_reconciler.actions.preconditions import (
    Absent,
    NotProtected,
    OfConnector,
    Precondition,
    RenameRecorded,
    as_predicted,
    exists,
    owner_is,
    target_is,
)
from connect_reconciler.actions.records import (
    RecordContext,
    forgotten,
    pin_records,
    rename_records,
)
from connect_reconciler.model.config_values import Config
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Renaming, RestoreTo
from connect_reconciler.model.ledger_records import owned_record
from connect_reconciler.model.offsets import Offsets
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import TargetState


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAction(Action):
    """Writes a connector's whole config."""

    settles = True

    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(ConfigAction):
    """Creates the connector in `initial_state`, config and state in one transaction (KIP-980).

    `restore_to` is set when it is created stopped for a later action only: the state to restore.
    `renamed_from` is the name of the connector that goes on in this one, and `changes` are the
    differences from its config. `pins` by id are those that count as applied, since they were when
    the connector was there before. All of it but the config is in the ledger before the connector
    is on the cluster.
    """

    verb = "create"
    kind = "create"

    action: Literal["create"] = "create"
    initial_state: TargetState
    restore_to: RestoreTo = None
    renamed_from: str | None = None
    changes: tuple[FieldChange, ...] | None = None
    pins: Mapping[str, AppliedPin] | None = None

    @property
    def field_changes(self) -> tuple[FieldChange, ...]:
        return self.changes or ()

    @property
    def shown_fields(self) -> tuple[FieldChange, ...]:
        if self.renamed_from is not None:
            return self.field_changes
        keys = sorted(self.config.keys() - {"name"})
        return tuple(FieldChange(key, None, self.config[key]) for key in keys)

    @property
    def holds(self) -> bool:
        return self.restore_to is not None

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        return "create" if self.renamed_from is None else "rename"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        return (Absent(), owner_is(states[self.connector]))

    def predict(self, states: States) -> States:
        state = states[self.connector]
        return changed(
            states,
            self.connector,
            config=self.config,
            target=self.initial_state,
            restore_to=self.restore_to,
            owner=state.project,
            pins=self._pins(state.pins),
            renames=self._renames(),
        )

    def records_before(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        # A connector that is created and then not recorded would have no owner, and one that is
        # created stopped would stay stopped
        name, topic = self.connector, context.topic
        yield from pin_records(ledger, topic, name, self._pins(ledger.pins_of(name)))
        yield from rename_records(ledger, topic, name, self._renames(context.now_ms))
        owned = replace(context.created(), restore_to=self.restore_to, applied_ms=0)
        yield owned_record(topic, name, owned)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        state = context.state if self.restore_to is None else None
        owned = replace(context.created(), restore_to=self.restore_to, state=state)
        return (owned_record(context.topic, self.connector, owned),)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.create(self.connector, config, self.initial_state)
        return self

    def _pins(self, recorded: Mapping[str, AppliedPin]) -> dict[str, AppliedPin]:
        """Returns the connector's pins, with those that count as applied. One that is created
        running moves its offsets, so pins do not hold them."""
        stopped = self.initial_state is TargetState.STOPPED
        return {
            pin: replace(applied, held=applied.held and stopped)
            for pin, applied in {**(self.pins or {}), **recorded}.items()
        }

    def _renames(self, now_ms: int = 0) -> dict[str, Renaming]:
        """Returns the renames to the connector: its own, and no earlier one."""
        if self.renamed_from is None:
            return {}
        return {self.renamed_from: Renaming("begun", now_ms, held=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig(ConfigAction):
    """Writes the config of a connector that is there."""

    verb = "change config"
    kind = "change"

    action: Literal["update-config"] = "update-config"
    changes: tuple[FieldChange, ...]

    @property
    def field_changes(self) -> tuple[FieldChange, ...]:
        return self.changes

    def preconditions(self, states: States) -> Iterable[Precondition]:
        state = states[self.connector]
        yield exists(state)
        # A config may change in any state, but where offsets follow it must not run them
        if state.target is TargetState.STOPPED:
            yield from target_is(state)
        yield owner_is(state)

    def predict(self, states: States) -> States:
        state = states[self.connector]
        elsewhere = changes_place(state.kind, (change.key for change in self.changes))
        offsets = Offsets() if elsewhere else state.offsets
        return changed(states, self.connector, config=self.config, offsets=offsets)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        owned = context.written(self.connector, ledger)
        return (owned_record(context.topic, self.connector, owned),)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        changed = frozenset(change.key for change in self.changes)
        operations.update_config(self.connector, config, changed)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Action):
    """Deletes the connector, and all that the ledger holds of it.

    `renamed_to` is the connector that goes on in its place. `reset_offsets`: its offsets are
    forgotten before, so that a later connector of its name does not begin in the middle.
    """

    verb = "delete"
    kind = "delete"
    deletes = True

    action: Literal["delete"] = "delete"
    renamed_to: RenamedTo = None
    reset_offsets: Annotated[bool, Field(exclude_if=lambda reset: not reset)] = False

    @property
    def group(self) -> str:
        return self.renamed_to or self.connector

    @property
    def records_offsets(self) -> bool:
        # Also of a group that others read: it may be gone when the rename is rolled back
        return self.reset_offsets or self.renamed_to is not None

    @property
    def imperative(self) -> str:
        return "delete" if self.renamed_to is None else "delete old"

    @property
    def journal_name(self) -> str:
        return "Delete" if self.renamed_to is None else "DeleteOld"

    @property
    def holds(self) -> bool:
        return self.renamed_to is not None

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        return "delete" if self.renamed_to is None else "rename"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        state = states[self.connector]
        if self.renamed_to is None:
            return (exists(state), owner_is(state), NotProtected())
        recorded = RenameRecorded(old=self.connector, stage="carried")
        goes_on = OfConnector(connector=self.renamed_to, condition=recorded)
        return (goes_on, *as_predicted(state), NotProtected())

    def predict(self, states: States) -> States:
        name, renamed_to = self.connector, self.renamed_to
        states = {**states, name: states[name].forgotten()}
        if self.reset_offsets:
            states = changed(states, name, offsets=Offsets())
        if renamed_to is None:
            return states
        return {**states, renamed_to: states[renamed_to].without_rename(name)}

    def records_before(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        # It is stopped first, and may get a spec again before it is deleted
        owned, target = ledger.connectors.get(self.connector), context.live_state
        if owned is None or target in (None, TargetState.STOPPED):
            return ()
        restored = replace(owned, restore_to=target)
        return (owned_record(context.topic, self.connector, restored),)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        return forgotten(self.connector, ledger, context.topic)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.delete(self.connector, reset_offsets=self.reset_offsets)
        return self


# --- the ledger alone: who owns a connector, and whether it may be deleted ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Action):
    """Records a live, unowned connector as this project's."""

    verb = "adopt"
    kind = "adopt"
    ledger_only = True

    action: Literal["adopt"] = "adopt"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        state = states[self.connector]
        return (exists(state), owner_is(state))

    def predict(self, states: States) -> States:
        return changed(states, self.connector, owner=states[self.connector].project)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        state = context.state if context.state is context.live_state else None
        owned = replace(context.created(), state=state)
        return (owned_record(context.topic, self.connector, owned),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect(Action):
    """Sets or lifts the protection against deletion."""

    verb = "protect"
    kind = "protect"
    ledger_only = True

    action: Literal["protect"] = "protect"
    prevent_delete: bool

    @property
    def imperative(self) -> str:
        return "protect" if self.prevent_delete else "unprotect"

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        return "protect" if self.prevent_delete else "unprotect"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        return (owner_is(states[self.connector]),)

    def predict(self, states: States) -> States:
        return changed(states, self.connector, prevent_delete=self.prevent_delete)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        owned = context.owned(self.connector, ledger)
        owned = replace(owned, prevent_delete=self.prevent_delete)
        return (owned_record(context.topic, self.connector, owned),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(Action):
    """Removes the owner and the pins of a connector that no longer exists."""

    verb = "forget"
    kind = "forget"
    ledger_only = True

    action: Literal["forget"] = "forget"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        return (Absent(), owner_is(states[self.connector]))

    def predict(self, states: States) -> States:
        return {**states, self.connector: states[self.connector].forgotten()}

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        return forgotten(self.connector, ledger, context.topic)
