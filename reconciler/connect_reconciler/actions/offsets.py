"""Actions that move offsets of a connector that is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from connect_reconciler.actions.base import Action, Operations
from connect_reconciler.actions.changes import ChangeKind, OffsetMove
from connect_reconciler.actions.connector_state import ConnectorState, States, changed
from connect_reconciler.actions.preconditions import (
    InsideLog,
    OfConnector,
    PinNotRecorded,
    PinRecorded,
    Precondition,
    RenameRecorded,
    as_predicted,
)
from connect_reconciler.actions.records import RecordContext, pin_records, rename_records
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Renaming
from connect_reconciler.model.ledger_records import pin_record
from connect_reconciler.model.offsets import Offsets, sink_offset, sink_partition
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAction(Action):
    """Moves offsets, partition by partition."""

    moves_offsets = True

    moves: tuple[OffsetMove, ...]

    @property
    def offset_moves(self) -> tuple[OffsetMove, ...]:
        return self.moves


@dataclass(frozen=True, slots=True, kw_only=True)
class PinAction(OffsetsAction):
    """Moves offsets as a pin says, and records the pin before anything resumes.

    `held`: the spec says stopped, so the ledger's pin is to say so too.
    """

    pin: str
    pin_hash: str
    held: bool = False

    @property
    def resolved(self) -> tuple[OffsetEntry, ...] | None:
        """Returns the offsets that the pin sets; None for a reset."""
        return tuple(move.entry for move in self.moves)

    def applied(self, now_ms: int = 0) -> AppliedPin:
        """Returns the pin as the ledger holds it."""
        return AppliedPin(self.pin_hash, self.resolved, now_ms, self.held)

    def preconditions(self, states: States) -> Iterable[Precondition]:
        state = states[self.connector]
        yield from as_predicted(state)
        if self.pin in state.pins:
            yield PinRecorded(pin=self.pin, content_hash=self.pin_hash)
        else:
            yield PinNotRecorded(pin=self.pin)

    def predict(self, states: States) -> States:
        state = states[self.connector]
        offsets = Offsets() if self.resolved is None else state.offsets.after(self.resolved)
        pins = {**state.pins, self.pin: self.applied()}
        return changed(states, self.connector, pins=pins, offsets=offsets)

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        applied = self.applied(context.now_ms)
        return (pin_record(context.topic, self.connector, self.pin, applied),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(PinAction):
    """Sets the offsets that a pin names.

    With `to`, `moves` are an estimate: where it leads is read once the sink is stopped.
    """

    verb = "set offsets"
    kind = "set-offsets"

    action: Literal["alter-offsets"] = "alter-offsets"
    to: Annotated[
        Position | None,
        Field(
            description="where they lead once the sink is stopped, a time in ms since 1970;"
            " moves are an estimate then"
        ),
    ] = None

    def counts_as(self, *, holding: bool) -> ChangeKind | None:
        """Returns the worst of its moves: redelivered before never delivered."""
        directions = {move.direction for move in self.moves}
        if "back" in directions:
            return "rewind"
        if "forgotten" in directions:
            return "reset"
        return "skip" if "ahead" in directions else "set-offsets"

    def preconditions(self, states: States) -> Iterable[Precondition]:
        yield from PinAction.preconditions(self, states)
        if self.to is None:
            yield from self._inside_logs(states[self.connector])

    def _inside_logs(self, state: ConnectorState) -> Iterator[InsideLog]:
        for move in self.moves:
            at, offset = sink_partition(move.entry.partition), sink_offset(move.entry.offset)
            log = None if at is None else state.logs.get(at)
            # Below the log's start is allowed, with a warning: nothing there can be relied on
            if at and log and offset is not None and offset >= log.earliest:
                topic, partition = at
                yield InsideLog(topic=topic, partition=partition, offset=offset)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.alter_offsets(self.connector, [move.entry for move in self.moves])
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(PinAction):
    """Forgets all offsets, as a pin says."""

    verb = "reset offsets"
    kind = "reset"

    action: Literal["reset-offsets"] = "reset-offsets"

    @property
    def resolved(self) -> tuple[OffsetEntry, ...] | None:
        return None

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        operations.reset_offsets(self.connector)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOffsets(OffsetsAction):
    """Gives the connector the offsets of `source`, all of them and no others, and reads them back:
    the step of a rename after which it goes on in place of `source`.

    `moves` are information: the offsets are read after `source` has stopped. With it the ledger
    gets the record of it, and the pins of `source`; nothing resumes before.
    """

    verb = "carry offsets"
    kind = "rename"

    action: Literal["copy-offsets"] = "copy-offsets"
    source: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.connector, self.source})

    @property
    def journal_name(self) -> str:
        return "CarryOffsets"

    @property
    def holds(self) -> bool:
        return True

    def preconditions(self, states: States) -> Iterable[Precondition]:
        yield from as_predicted(states[self.connector])
        yield RenameRecorded(old=self.source, stage="begun")
        for condition in as_predicted(states[self.source]):
            yield OfConnector(connector=self.source, condition=condition)

    def predict(self, states: States) -> States:
        state, source = states[self.connector], states[self.source]
        return changed(
            {**states, self.source: source.without_rename(self.connector)},
            self.connector,
            pins={**source.pins, **state.pins},
            renames={**state.renames, self.source: Renaming("carried")},
            offsets=Offsets(move.entry for move in self.moves),
        )

    def records_after(self, ledger: LedgerState, context: RecordContext) -> Iterable[NewRecord]:
        name, source, topic = self.connector, self.source, context.topic
        pins = {**ledger.pins_of(source), **ledger.pins_of(name)}
        carried = Renaming("carried", context.now_ms)
        renames = ledger.renames_of(source)
        renames.pop(name, None)
        yield from pin_records(ledger, topic, name, pins)
        yield from rename_records(ledger, topic, name, {**ledger.renames_of(name), source: carried})
        yield from rename_records(ledger, topic, source, renames)

    def perform(self, operations: Operations, config: Mapping[str, str]) -> Action:
        entries = operations.copy_offsets(self.source, self.connector)
        return replace(self, moves=tuple(OffsetMove(entry, None) for entry in entries))
