"""An action: one step of a plan, and all that there is to know of it.

Each class holds what it is called, the preconditions that it relies on, the state that it leaves
its connector in, its ledger records, and how it is performed. Its frozen fields are its form in a
plan file. A new class is complete once it has these; `plan` decides when it is planned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from connect_reconciler.actions.changes import (
    ChangeKind,
    EffectLines,
    FieldChange,
    OffsetMove,
    ReasonCode,
)
from connect_reconciler.actions.connector_state import States
from connect_reconciler.actions.preconditions import Precondition, as_predicted
from connect_reconciler.actions.records import RecordContext
from connect_reconciler.model.ledger import LedgerState
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry, TargetState


class Operations(Protocol):
    """The port through which actions are performed; `apply.cluster_operations` implements it.

    Its methods are changes of one connector, each of which returns when it has taken place.

    All raise RequestError for a refusal, Failed where the cluster does something else, and
    OutcomeUnknown when even reading back did not show the outcome.
    """

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None: ...
    def update_config(
        self, name: str, config: Mapping[str, str], changed_keys: Collection[str]
    ) -> None: ...
    def stop(self, name: str) -> None:
        """Returns once its tasks are gone."""
        ...

    def set_target(self, name: str, target: TargetState) -> None: ...
    def restart_failed(self, name: str) -> None: ...
    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> None: ...
    def reset_offsets(self, name: str) -> None: ...
    def copy_offsets(self, source: str, name: str) -> tuple[OffsetEntry, ...]:
        """Gives the connector the offsets of `source` and no others. Returns the changes."""
        ...

    def delete(self, name: str, *, reset_offsets: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(ABC):
    """One step. `reason` is the sentence for `reason_code`, both empty where it only serves a
    comparison. `effects` are what it does to the data.

    The class variables are its traits. `verb` is its imperative, and `kind` what it counts as in a
    plan's summary. `ledger_only`: it changes nothing on the cluster. `asks_for` is the target state
    that it sets. `deletes`: its connector is gone afterwards. `settles`: afterwards an apply waits
    until the connector is healthy. `moves_offsets`: its connector's offsets change.
    """

    verb: ClassVar[str]
    kind: ClassVar[ChangeKind]
    ledger_only: ClassVar[bool] = False
    asks_for: ClassVar[TargetState | None] = None
    deletes: ClassVar[bool] = False
    settles: ClassVar[bool] = False
    moves_offsets: ClassVar[bool] = False

    action: str
    connector: str
    reason: str = ""
    reason_code: ReasonCode | None = None
    effects: EffectLines = ()
    requires: tuple[Precondition, ...] = ()

    @property
    def group(self) -> str:
        """Returns the connector in whose group of actions it is: its own, or the new name."""
        return self.connector

    @property
    def names(self) -> frozenset[str]:
        """Returns the connectors that it changes or reads, and that of its group."""
        return frozenset({self.connector, self.group})

    @property
    def records_offsets(self) -> bool:
        """Returns True if its connector's offsets are recorded before it, for a rollback."""
        return self.moves_offsets

    # --- words ---

    @property
    def imperative(self) -> str:
        """Returns its verb, or a closer one for these fields."""
        return self.verb

    @property
    def journal_name(self) -> str:
        """Returns the name by which journals of applies hold it."""
        return type(self).__name__

    @property
    def field_changes(self) -> tuple[FieldChange, ...]:
        """Returns the config keys that it adds, changes or removes."""
        return ()

    @property
    def shown_fields(self) -> tuple[FieldChange, ...]:
        """Returns the same for a reader of the plan, who sees all keys of a new connector."""
        return self.field_changes

    @property
    def offset_moves(self) -> tuple[OffsetMove, ...]:
        """Returns the offsets that it moves, partition by partition."""
        return ()

    @property
    def holds(self) -> bool:
        """Returns True if it stops its connector, or creates it stopped, for later actions only,
        or is part of a rename."""
        return False

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        """Returns its kind in a summary; None for one that only serves others. `holding`: an action
        before it `holds` the connector."""
        return self.kind

    # --- preconditions and prediction ---

    def preconditions(self, states: States) -> Iterable[Precondition]:
        """Returns what it relies on where a plan predicts these states of its group: all of its
        connector, if it does not say otherwise."""
        return as_predicted(states[self.connector])

    @abstractmethod
    def predict(self, states: States) -> States:
        """Returns its group's connectors, and their ledger records, once the action is done."""

    # --- ledger records ---

    def records_before(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        """Returns the records that must be in the ledger when it begins."""
        return ()

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        """Returns the records of what it did."""
        return ()

    # --- execution ---

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        """Performs it. Returns it with the offsets that it moved. `config` is what it writes, if it
        writes one. Raises what `operations` raise."""
        return self
