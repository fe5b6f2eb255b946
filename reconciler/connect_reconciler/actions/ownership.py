"""Actions that change the ledger alone: who owns a connector, and whether it may be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from connect_reconciler.actions.base import Action
from connect_reconciler.actions.changes import ChangeKind
from connect_reconciler.actions.connector_state import States, changed
from connect_reconciler.actions.preconditions import Absent, Precondition, exists, owner_is
from connect_reconciler.actions.records import RecordContext, forgotten
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.ledger_records import owned_record
from connect_runtime.storage.log import NewRecord


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
