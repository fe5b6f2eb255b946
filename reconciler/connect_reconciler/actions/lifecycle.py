"""Actions that set a connector's target state, or restart it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from connect_reconciler.actions.base import Action, Operations
from connect_reconciler.actions.changes import ChangeKind, RenamedTo
from connect_reconciler.actions.connector_state import States, changed
from connect_reconciler.actions.preconditions import (
    NotProtected,
    PinRecorded,
    Precondition,
    RenameRecorded,
    as_predicted,
)
from connect_reconciler.actions.records import RecordContext, pin_records, rename_records
from connect_reconciler.model.ledger import (
    LedgerState,
    Renaming,
    RestoreTo,
    carried,
    without_hold,
)
from connect_reconciler.model.ledger_records import owned_record
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import TargetState


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Action):
    """Sets the target state stopped, then waits until the tasks are gone.

    `restore_to` is set when the stop serves a later action only: the state to return to. It is in
    the ledger before the stop; None clears what an earlier apply left there. `renamed_to` is set
    for a rename: from then on the connector is this project's.
    """

    verb = "stop"
    kind = "stop"
    asks_for = TargetState.STOPPED

    action: Literal["stop"] = "stop"
    restore_to: RestoreTo = None
    renamed_to: RenamedTo = None

    @property
    def group(self) -> str:
        return self.renamed_to or self.connector

    @property
    def imperative(self) -> str:
        return "stop" if self.renamed_to is None else "stop old"

    @property
    def journal_name(self) -> str:
        return "Stop" if self.renamed_to is None else "StopOld"

    @property
    def holds(self) -> bool:
        return self.restore_to is not None or self.renamed_to is not None

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        if self.renamed_to is not None:
            return "rename"
        return None if self.holds else "stop"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        protected = () if self.renamed_to is None else (NotProtected(),)
        return (*as_predicted(states[self.connector]), *protected)

    def predict(self, states: States) -> States:
        name, renamed_to, state = self.connector, self.renamed_to, states[self.connector]
        stopped = replace(state, target=TargetState.STOPPED, restore_to=self.restore_to)
        if renamed_to is None:
            return {**states, name: stopped}
        states = {**states, name: replace(stopped, owner=state.project)}
        if carried(state.renames, renamed_to):
            renames = {**states[renamed_to].renames, name: Renaming("begun", held=True)}
            states = changed(states, renamed_to, renames=renames)
        return states

    def records_before(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        name, renamed_to = self.connector, self.renamed_to
        if renamed_to is not None and carried(ledger.renames_of(name), renamed_to):
            # The other one gets its offsets back from this one, which has them by now
            rename = Renaming("begun", context.now_ms, held=True)
            renames = {**ledger.renames_of(renamed_to), name: rename}
            yield from rename_records(ledger, context.topic, renamed_to, renames)
        owned = replace(context.owned(name, ledger), restore_to=self.restore_to)
        yield owned_record(context.topic, name, owned)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        return () if self.holds else context.settled(self.connector, ledger)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.stop(self.connector)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Action):
    """Lets the connector go to a target state in which nothing holds its offsets."""

    settles = True

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        return None if holding else self.kind

    def preconditions(self, states: States) -> Iterable[Precondition]:
        state = states[self.connector]
        yield from as_predicted(state)
        if state.renamed_from is not None and carried(state.renames, state.renamed_from):
            yield RenameRecorded(old=state.renamed_from, stage="carried")
        if state.spec_pin is not None:
            pin, content_hash = state.spec_pin
            applied = state.pins.get(pin)
            if applied is not None and applied.content_hash == content_hash:
                yield PinRecorded(pin=pin, content_hash=content_hash)

    def predict(self, states: States) -> States:
        state = states[self.connector]
        return changed(
            states,
            self.connector,
            target=self.asks_for,
            restore_to=None,
            pins=without_hold(state.pins),
            renames=without_hold(state.renames),
        )

    def records_before(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        name, topic = self.connector, context.topic
        yield from pin_records(ledger, topic, name, without_hold(ledger.pins_of(name)))
        yield from rename_records(ledger, topic, name, without_hold(ledger.renames_of(name)))

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        return context.settled(self.connector, ledger)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        assert self.asks_for is not None
        operations.set_target(self.connector, self.asks_for)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Release):
    """Sets the target state paused."""

    verb = "pause"
    kind = "pause"
    asks_for = TargetState.PAUSED

    action: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Release):
    """Sets the target state running."""

    verb = "resume"
    kind = "resume"
    asks_for = TargetState.RUNNING

    action: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Action):
    """Restarts a failed connector and its failed tasks."""

    verb = "restart"
    kind = "restart"
    settles = True

    action: Literal["restart"] = "restart"

    def predict(self, states: States) -> States:
        return states

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.restart_failed(self.connector)
        return self
