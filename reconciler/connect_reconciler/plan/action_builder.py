"""Builds one connector's actions, with their reasons and effects.

What is to be done, and when, is for order.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from connect_reconciler.model import actions as act
from connect_reconciler.model.live import LiveConnector
from connect_reconciler.model.offsets import Offsets, sink_offset, sink_partition
from connect_reconciler.model.reasons import Reason
from connect_reconciler.plan.consequences.beginning import beginning
from connect_reconciler.plan.consequences.explain import summary
from connect_reconciler.plan.consequences.rule import RuleContext
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff, PinChange, Rename, managed_state
from connect_reconciler.plan.offsets.moves import (
    MoveContext,
    label_of,
    moves_to,
    place_of,
    reading,
    totals,
)
from connect_reconciler.plan.offsets.sink_positions import sink_start
from connect_reconciler.plan.outside import outside_state
from connect_reconciler.plan.predict import changes_place
from connect_specs.counting import counted
from connect_specs.desired import OffsetEntry
from connect_specs.names import sink_group
from connect_specs.partitions import partition_key
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class ActionBuilder:
    """One connector's changes and what surrounds them, to be put into actions."""

    changes: ConnectorDiff
    context: Context

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.changes.name

    def create(self, initial: TargetState, restore_to: TargetState | None) -> act.Create:
        """Its first state is `initial`; `restore_to` if it waits there for its offsets."""
        owned = self.changes.owned
        reason = Reason("new")
        if owned is not None:
            reason = Reason("deleted-outside" if owned.applied_ms else "only-recorded")
        effects: list[str] = []
        if restore_to is not None:
            effects.append("created stopped, for its offsets")
        elif initial is not TargetState.RUNNING:
            effects.append(f"created {initial.value}")
        if self.changes.pin is None:
            effects += self._beginning()
        return act.Create(
            connector=self.name,
            reason=reason,
            effects=tuple(effects),
            config=self.changes.values,
            initial_state=initial,
            restore_to=restore_to,
        )

    def adopt(self) -> act.Adopt:
        """It is live and unowned, and has a spec."""
        reason = Reason("owner-unseen" if self.context.live.rest_alone else "unowned")
        managed = "managed by this project from now on: removing its spec will delete it"
        return act.Adopt(connector=self.name, reason=reason, effects=(managed,))

    def update_config(self) -> act.UpdateConfig:
        """The whole config, with what changes in it."""
        return act.UpdateConfig(
            connector=self.name,
            reason=Reason("keys-differ"),
            effects=summary(self.changes),
            config=self.changes.values,
            changes=self.changes.config,
        )

    def stop(self, restore_to: TargetState | None) -> act.Stop:
        """Until its spec changes, or only while its offsets move."""
        lasting = restore_to is None
        end = "its tasks end; nothing is read or written"
        return act.Stop(
            connector=self.name,
            reason=self._state_reason() if lasting else Reason("for-offsets"),
            effects=(*self._outside(), end) if lasting else (),
            restore_to=restore_to,
        )

    def stay_stopped(self) -> act.Stop:
        """Stopped already, but by an apply that meant to bring it back."""
        return act.Stop(
            connector=self.name,
            reason=Reason("held-and-now-stopped"),
            effects=("it stays stopped",),
        )

    def alter_offsets(self, pin: PinChange) -> act.AlterOffsets | act.ResetOffsets:
        """The pin's offsets, or none at all."""
        reason = Reason("pin-new")
        asked = self.changes.spec.pin if self.changes.spec else None
        if asked is not None and asked.to is not None:
            reason = Reason("pin-new", to=asked.to)
        if pin.again:
            reason = Reason("pin-drifted")
        to = None if asked is None or pin.again else asked.to
        moving = replace(self._move_context(), to=to)
        entries = moving.current.removed() if pin.entries is None else pin.entries
        moves = moves_to(entries, moving)
        effects = totals(moves, estimated=to is not None)
        if pin.entries is None:
            return act.ResetOffsets(
                connector=self.name,
                reason=reason,
                effects=effects or (() if moves else self._nothing_to_forget()),
                pin=pin.pin,
                pin_hash=pin.content_hash,
                moves=moves,
                held=pin.held,
            )
        return act.AlterOffsets(
            connector=self.name,
            reason=reason,
            effects=effects,
            pin=pin.pin,
            pin_hash=pin.content_hash,
            moves=moves,
            held=pin.held,
            to=to,
        )

    def pause(self) -> act.Pause:
        """As its spec says, or to the state before the apply."""
        effects = ["its tasks read and write nothing"]
        if self._stopped_before():
            effects = [] if self.changes.moves_offsets else ["no tasks until it resumes"]
        return act.Pause(
            connector=self.name,
            reason=self._state_reason(),
            effects=(*self._outside(), *effects),
        )

    def resume(self) -> act.Resume:
        """As its spec says, or to the state before the apply."""
        effects = ["goes on where its offsets are"]
        if self.changes.moves_offsets:
            effects = []  # the moves say where
        elif self._stopped_before():
            effects = ["its tasks start where its offsets are"]
        return act.Resume(
            connector=self.name,
            reason=self._state_reason(),
            effects=(*self._outside(), *effects),
        )

    def restart(self) -> act.Restart:
        """Its tasks failed, and neither a pause nor a resume changes that."""
        start = "its failed tasks start again where their offsets are"
        return act.Restart(connector=self.name, reason=Reason("failed"), effects=(start,))

    def delete(self) -> act.Delete:
        """This project owns it, and its spec was removed."""
        effects = ["its offsets stay: a new connector of its name goes on from there"]
        if self.changes.kind == "sink" and self.changes.live is not None:
            group = self._group(self.name, self.changes.live.config)
            effects = [f"its offsets stay in consumer group {group}"]
        if self.context.live.ledger.pins_of(self.name):
            effects.append("its pins are forgotten: the same pin would be applied again")
        return act.Delete(connector=self.name, reason=Reason("spec-gone"), effects=tuple(effects))

    def forget(self) -> act.Forget:
        """This project owns it, and neither spec nor connector exists."""
        return act.Forget(
            connector=self.name,
            reason=Reason("spec-and-connector-gone"),
            effects=("only the ledger changes",),
        )

    def protect(self, *, prevent_delete: bool) -> act.Protect:
        """Sets or lifts its protection against deletion."""
        effect = "removing its spec will delete it"
        if prevent_delete:
            effect = "removing its spec will be refused, and will not delete it"
        return act.Protect(
            connector=self.name,
            reason=Reason("prevent-delete"),
            effects=(effect,),
            prevent_delete=prevent_delete,
        )

    def _beginning(self) -> tuple[str, ...]:
        """Where a connector that is created starts to read."""
        context = RuleContext.of(self.changes, self.context.live, self.context.worker)
        return beginning(context, self.changes.offsets)

    def _changes_place(self) -> bool:
        """Whether it is to look for its offsets in another place than now."""
        keys = (change.key for change in self.changes.config)
        return not self.changes.carries and changes_place(self.changes.kind, keys)

    def _nothing_to_forget(self) -> tuple[str, ...]:
        unread = self._changes_place() and self.name not in self.context.live.offsets_after_change
        if unread:
            return ("whatever offsets are there are forgotten: they could not be read",)
        return ("it has no offsets to forget",)

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

    def _group(self, name: str, config: Mapping[str, str]) -> str:
        """The group as it may be shown."""
        return sink_group(name, self.changes.redactor.shown(config), self.context.worker)

    def _stopped_before(self) -> bool:
        live = self.changes.live
        stopped = live is None or live.target is TargetState.STOPPED
        return stopped or self.changes.pin is not None

    def _outside(self) -> tuple[str, ...]:
        return outside_state(self.changes, self.context.live)

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


@dataclass(frozen=True, slots=True)
class RenameBuilder(ActionBuilder):
    """Builds the actions of a connector that is renamed, besides those of any."""

    rename: Rename

    def stop_old(self) -> act.StopOld:
        """Its offsets must stand still before they are carried."""
        old, connector = self.rename.old, self.rename.live
        restore_to = self._old_target()
        effects = []
        if connector is not None and connector.target is TargetState.STOPPED:
            effects.append("it is stopped already, and stays so")
        if self.rename.owned is None:
            effects.append("no project owned it: it is this project's from now on")
        return act.StopOld(
            connector=self.name,
            reason=Reason("renamed"),
            effects=tuple(effects),
            old=old,
            restore_to=restore_to,
        )

    def create(self, initial: TargetState, restore_to: TargetState | None) -> act.Create:
        """The new name, with the old one's config but for what its spec changes."""
        old = self.rename.old
        return act.Create(
            connector=self.name,
            reason=Reason("renamed"),
            effects=(f"created stopped, for the offsets of {old}", *self._config()),
            config=self.changes.values,
            initial_state=initial,
            restore_to=restore_to,
            renamed_from=old,
            changes=self.changes.moved,
        )

    def carry(self) -> act.CarryOffsets:
        """All offsets of the old name, and no others."""
        name, old = self.name, self.rename.old
        moves = tuple(sorted(self._moves(), key=lambda move: partition_key(move.entry.partition)))
        count = sum(move.entry.offset is not None for move in moves)
        partitions = counted(count, "partition")
        effects: tuple[str, ...] = ()  # each move says where it goes on
        if not count:
            effects = (f"{old} has no offsets: {name} begins as a new connector does",)
        elif self._same_group():
            there = "the consumer group is the same, so its offsets are there already"
            effects = (f"{partitions}: {there}",)
        elif not any(each.effects for each in self.changes.moved) and not any(
            self._beyond(move.entry) for move in moves
        ):
            effects = (f"{partitions}: nothing is redelivered or jumped over",)
        return act.CarryOffsets(
            connector=name, reason=Reason("continues"), effects=effects, old=old, moves=moves
        )

    def delete_old(self) -> act.DeleteOld:
        """The old name, once the new one has its offsets."""
        name, old, connector = self.name, self.rename.old, self.rename.live
        reset = connector is not None and not self._shared_group(connector)
        group = "" if connector is None else self._group(connector.name, connector.config)
        effects = [f"consumer group {group} stays: it is not {old}'s alone"]
        if connector is None:
            effects = ["it is gone already: only the ledger changes"]
        elif reset and connector.kind == "sink":
            effects = [f"consumer group {group} goes too: a later {old} would begin anew"]
        elif reset:
            effects = [f"its offsets are forgotten: a later {old} would begin anew"]
        if self.context.live.ledger.pins_of(old):
            effects.append(f"its pins count for {name}: they are not applied again")
        return act.DeleteOld(
            connector=name, reason=Reason("carried"), effects=tuple(effects), old=old, reset=reset
        )

    def _old_target(self) -> TargetState | None:
        """The state to restore for the old connector if the rename is given up."""
        connector, owned = self.rename.live, self.rename.owned
        if connector is None or connector.target is not TargetState.STOPPED:
            return None if connector is None else connector.target
        return None if owned is None else owned.restore_to

    def _config(self) -> tuple[str, ...]:
        found = self.changes.moved
        if not found:
            return (f"its config is that of {self.rename.old}",)
        return tuple(dict.fromkeys(each for change in found for each in change.effects))

    def _moves(self) -> list[act.OffsetMove]:
        """Each partition of the old name, and what an earlier connector of the new name left."""
        name = self.name
        left = self.context.live.offsets_of(name)
        carried = self.rename.live.offsets if self.rename.live else Offsets()
        found = []
        for entry in carried:
            was = left.entry(entry.partition)
            later = "" if reading(self.rename.live) is None else " or later"
            place = f"{label_of(entry.partition)} goes on at {place_of(entry)}"
            goes_on = f"{place}{later}{self._beyond(entry)}"
            found.append(act.OffsetMove(entry, was, goes_on, "same"))
        for was in left:
            if was.partition not in carried:
                place = f"{label_of(was.partition)} {place_of(was)}"
                left_over = f"{place} → none: left by an earlier {name}"
                gone = OffsetEntry(was.partition, None)
                found.append(act.OffsetMove(gone, was, left_over, "forgotten"))
        return found

    def _beyond(self, entry: OffsetEntry) -> str:
        """A topic that was made anew is read from where the consumer's auto.offset.reset says."""
        at, number = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if at is None else self.context.live.logs_of(self.name).ranges.get(at)
        if log is None or number is None or number <= log.latest:
            return ""
        start = sink_start(self.changes.written or {}, self.context.worker)
        return f", beyond the log's end, {log.latest}: reads from {start} there"

    def _same_group(self) -> bool:
        old = self.rename.live
        if old is None or old.kind != "sink":
            return False
        return self._group(old.name, old.config) == self._group(
            self.name, self.changes.written or {}
        )

    def _shared_group(self, old: LiveConnector) -> bool:
        """Whether another sink, the new name's or any, reads with the old one's group, or will."""
        group = sink_group(old.name, old.config, self.context.worker)
        return old.kind == "sink" and bool(self.context.other_readers(group, old.name))
