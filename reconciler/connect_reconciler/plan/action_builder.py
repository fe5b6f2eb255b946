"""Builds one connector's actions, with their reasons and effects.

What is to be done, and when, is for order.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from connect_reconciler.model.actions import (
    Adopt,
    AlterOffsets,
    Create,
    Delete,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.model.offsets import TopicPartition, sink_partition
from connect_reconciler.model.reasons import Effect, Effects, Reason, effect
from connect_reconciler.plan.consequences.explain import summary
from connect_reconciler.plan.consequences.rule import Setting, first_start, sink_start
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff, PinChange, managed_state
from connect_reconciler.plan.offsets.moves import MoveContext, move, reading, totals
from connect_reconciler.plan.predict import changes_place
from connect_specs.desired import OffsetEntry
from connect_specs.names import sink_group
from connect_specs.partitions import partition_key
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class ActionBuilder:
    """One connector's changes and what surrounds them, to be put into actions."""

    changes: ConnectorDiff
    context: Context

    def create(self, initial: TargetState, restore_to: TargetState | None) -> Create:
        """Its first state is `initial`; `restore_to` if it waits there for its offsets."""
        owned = self.changes.owned
        reason = Reason("new")
        if owned is not None:
            reason = Reason("deleted-outside" if owned.applied_ms else "only-recorded")
        effects: list[Effect] = []
        if restore_to is not None:
            effects.append(effect("created-for-its-offsets"))
        elif initial is not TargetState.RUNNING:
            effects.append(effect("created-in-state", state=initial.value))
        if self.changes.pin is None:
            effects += self._beginning()
        return Create(
            connector=self.changes.name,
            reason=reason,
            effects=tuple(effects),
            config=self.changes.values,
            initial_state=initial,
            restore_to=restore_to,
        )

    def adopt(self) -> Adopt:
        """It is live and unowned, and has a spec."""
        return Adopt(
            connector=self.changes.name,
            reason=Reason("unowned"),
            effects=(effect("adopted"),),
        )

    def update_config(self) -> UpdateConfig:
        """The whole config, with what changes in it."""
        return UpdateConfig(
            connector=self.changes.name,
            reason=Reason("keys-differ"),
            effects=summary(self.changes),
            config=self.changes.values,
            changes=self.changes.config,
        )

    def stop(self, restore_to: TargetState | None) -> Stop:
        """Until its spec changes, or only while its offsets move."""
        lasting = restore_to is None
        return Stop(
            connector=self.changes.name,
            reason=self._state_reason() if lasting else Reason("for-offsets"),
            effects=(effect("tasks-end"),) if lasting else (),
            restore_to=restore_to,
        )

    def stay_stopped(self) -> Stop:
        """Stopped already, but by an apply that meant to bring it back."""
        return Stop(
            connector=self.changes.name,
            reason=Reason("held-and-now-stopped"),
            effects=(effect("stays-stopped"),),
        )

    def alter_offsets(self, pin: PinChange) -> AlterOffsets | ResetOffsets:
        """The pin's offsets, or none at all."""
        name, reason = self.changes.name, Reason("pin-new")
        asked = self.changes.spec.pin if self.changes.spec else None
        if asked is not None and asked.to is not None:
            reason = Reason("pin-new", to=asked.to, resolved=bool(asked.set))
        if pin.again:
            reason = Reason("pin-drifted")
        moving = self._move_context()
        if pin.entries is None:
            moves = _moves(moving.before.removed(), moving)
            effects = totals(moves) or (() if moves else self._nothing_to_forget())
            return ResetOffsets(
                connector=name,
                reason=reason,
                effects=effects,
                pin=pin.pin,
                pin_hash=pin.content_hash,
                moves=moves,
                held=pin.held,
            )
        moves = _moves(pin.entries, moving)
        return AlterOffsets(
            connector=name,
            reason=reason,
            effects=totals(moves),
            pin=pin.pin,
            pin_hash=pin.content_hash,
            moves=moves,
            held=pin.held,
        )

    def pause(self) -> Pause:
        """As its spec says, or to the state before the apply."""
        effects: Effects = (effect("tasks-idle"),)
        if self._stopped_before():
            effects = () if self.changes.moves_offsets else (effect("no-tasks"),)
        return Pause(connector=self.changes.name, reason=self._state_reason(), effects=effects)

    def resume(self) -> Resume:
        """As its spec says, or to the state before the apply."""
        effects: Effects = (effect("tasks-start" if self._stopped_before() else "goes-on"),)
        if self.changes.moves_offsets:
            effects = ()  # the moves say where
        return Resume(connector=self.changes.name, reason=self._state_reason(), effects=effects)

    def restart(self) -> Restart:
        """Its tasks failed, and neither a pause nor a resume changes that."""
        return Restart(
            connector=self.changes.name,
            reason=Reason("failed"),
            effects=(effect("failed-tasks-start"),),
        )

    def delete(self) -> Delete:
        """This project owns it, and its spec was removed."""
        name, kind = self.changes.name, self.changes.kind
        effects = []
        if kind == "sink" and self.changes.live is not None:
            config = self.changes.redactor.shown(self.changes.live.config)
            group = sink_group(name, config, self.context.worker)
            effects.append(effect("group-keeps-offsets", group=group))
        else:
            effects.append(effect("offsets-stay"))
        pins = sum(connector == name for connector, _ in self.context.live.ledger.pins)
        if pins:
            effects.append(effect("pins-forgotten"))
        return Delete(connector=name, reason=Reason("spec-gone"), effects=tuple(effects))

    def forget(self) -> Forget:
        """This project owns it, and neither spec nor connector exists."""
        return Forget(
            connector=self.changes.name,
            reason=Reason("spec-and-connector-gone"),
            effects=(effect("only-the-ledger"),),
        )

    def protect(self, *, prevent_delete: bool) -> Protect:
        """Sets or lifts its protection against deletion."""
        return Protect(
            connector=self.changes.name,
            reason=Reason("prevent-delete"),
            effects=(effect("protected" if prevent_delete else "not-protected"),),
            prevent_delete=prevent_delete,
        )

    def _beginning(self) -> Effects:
        """Where a new connector starts to read."""
        changes = self.changes
        if changes.offsets:
            return (effect("goes-on-from-earlier"),)
        if changes.kind == "sink":
            return (first_start(Setting.of(changes, self.context.live, self.context.worker)),)
        return (effect("source-start"),) if changes.kind == "source" else ()

    def _changes_place(self) -> bool:
        """Whether it is to look for its offsets in another place than now."""
        keys = (change.key for change in self.changes.config)
        return not self.changes.carries and changes_place(self.changes.kind, keys)

    def _nothing_to_forget(self) -> Effects:
        unread = (
            self._changes_place()
            and self.changes.name not in self.context.live.offsets_after_change
        )
        return (effect("unread-offsets-forgotten" if unread else "no-offsets-to-forget"),)

    def _move_context(self) -> MoveContext:
        changes = self.changes
        written = changes.written or {}
        start = sink_start(written, self.context.worker)
        reader = changes.rename.live if changes.rename and changes.carries else changes.live
        if self._changes_place():
            reader = None  # it does not read in the place where its offsets are to be
        return MoveContext(
            changes.kind,
            changes.offsets,
            self.context.live.logs_of(changes.name),
            written,
            start,
            reading(reader),
            self.context.live.unread_offsets.get(changes.name, ""),
        )

    def _stopped_before(self) -> bool:
        live = self.changes.live
        stopped = live is None or live.target is TargetState.STOPPED
        return stopped or self.changes.pin is not None

    def _state_reason(self) -> Reason:
        """The state that it comes from, where that differs; else why it is let go."""
        changes = self.changes
        managed = changes.spec is not None and managed_state(changes.spec) is not None
        if changes.live is None and changes.rename is not None and not managed:
            return Reason("state-of-old-name", old=changes.rename.old)
        if changes.live is None:
            return Reason("state")
        if changes.live.target is changes.goal:
            return Reason("state-before")
        if changes.live.target is TargetState.STOPPED and not managed:
            return Reason("held-by-an-apply")
        return Reason("state", changes.live.target)


def _moves(entries: Iterable[OffsetEntry], context: MoveContext) -> tuple[OffsetMove, ...]:
    return tuple(move(entry, context) for entry in sorted(entries, key=_place))


def _place(entry: OffsetEntry) -> tuple[TopicPartition, str]:
    """Partition 10 of a topic comes after its partition 9."""
    return sink_partition(entry.partition) or ("", 0), partition_key(entry.partition)
