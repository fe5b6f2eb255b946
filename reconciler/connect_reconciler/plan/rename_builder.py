"""Builds the actions that only a rename has, with their reasons and effects."""

from __future__ import annotations

from dataclasses import dataclass

from connect_reconciler.model.actions import CarryOffsets, Create, DeleteOld, OffsetMove, StopOld
from connect_reconciler.model.live import LiveConnector
from connect_reconciler.model.offsets import Offsets, sink_offset, sink_partition
from connect_reconciler.model.reasons import Effect, Effects, Reason, effect
from connect_reconciler.plan.consequences.rule import sink_start
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff, Rename
from connect_reconciler.plan.offsets.moves import reading
from connect_reconciler.plan.offsets.source_moves import offset_text, partition_label
from connect_specs.desired import OffsetEntry, Partition
from connect_specs.names import sink_group
from connect_specs.partitions import partition_key
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class RenameBuilder:
    """One connector's changes, the rename among them, and what surrounds them."""

    changes: ConnectorDiff
    rename: Rename
    context: Context

    def stop_old(self) -> StopOld:
        """Its offsets must stand still before they are carried."""
        old, connector = self.rename.old, self.rename.live
        restore_to = self._old_target()
        effects = []
        if connector is not None and connector.target is TargetState.STOPPED:
            effects.append(effect("old-stays-stopped"))
        if self.rename.owned is None:
            effects.append(effect("old-adopted"))
        return StopOld(
            connector=self.changes.name,
            reason=Reason("renamed"),
            effects=tuple(effects),
            old=old,
            restore_to=restore_to,
        )

    def create(self, initial: TargetState, restore_to: TargetState | None) -> Create:
        """The new name, with the old one's config but for what its spec changes."""
        old = self.rename.old
        return Create(
            connector=self.changes.name,
            reason=Reason("renamed"),
            effects=(effect("created-for-old", old=old), *self._config()),
            config=self.changes.values,
            initial_state=initial,
            restore_to=restore_to,
            renamed_from=old,
            changes=self.changes.moved,
        )

    def carry(self) -> CarryOffsets:
        """All offsets of the old name, and no others."""
        name, old = self.changes.name, self.rename.old
        moves = tuple(sorted(self._moves(), key=lambda move: partition_key(move.entry.partition)))
        count = sum(move.entry.offset is not None for move in moves)
        effects: Effects = ()  # each move says where it goes on
        if not count:
            effects = (effect("nothing-to-carry", old=old, name=name),)
        elif self._same_group():
            effects = (effect("carried-in-group", count=count),)
        elif not any(each.effects for each in self.changes.moved) and not any(
            self._beyond(move.entry) for move in moves
        ):
            effects = (effect("carried-exactly", count=count),)
        return CarryOffsets(
            connector=name,
            reason=Reason("continues"),
            effects=effects,
            old=old,
            moves=moves,
        )

    def delete_old(self) -> DeleteOld:
        """The old name, once the new one has its offsets."""
        name, old, connector = self.changes.name, self.rename.old, self.rename.live
        reset = connector is not None and not self._shared_group(connector)
        if connector is None:
            effects = [effect("old-already-gone")]
        elif reset and connector.kind == "sink":
            effects = [effect("old-group-deleted", group=self._group(connector), old=old)]
        elif reset:
            effects = [effect("old-offsets-forgotten", old=old)]
        else:
            effects = [effect("old-group-stays", group=self._group(connector), old=old)]
        if self.context.live.ledger.pins_of(old):
            effects.append(effect("old-pins-count", name=name))
        return DeleteOld(
            connector=name,
            reason=Reason("carried"),
            effects=tuple(effects),
            old=old,
            reset=reset,
        )

    def _old_target(self) -> TargetState | None:
        """The state to restore for the old connector if the rename is given up."""
        connector, owned = self.rename.live, self.rename.owned
        if connector is None or connector.target is not TargetState.STOPPED:
            return None if connector is None else connector.target
        return None if owned is None else owned.restore_to

    def _config(self) -> Effects:
        found = self.changes.moved
        if not found:
            return (effect("config-of-old", old=self.rename.old),)
        return tuple(dict.fromkeys(each for change in found for each in change.effects))

    def _moves(self) -> list[OffsetMove]:
        """Each partition of the old name, and what an earlier connector of the new name left."""
        name = self.changes.name
        left = self.context.live.offsets_of(name)
        carried = self.rename.live.offsets if self.rename.live else Offsets()
        found = []
        for entry in carried:
            was = left.entry(entry.partition)
            goes_on = effect(
                "goes-on-at",
                partition=_label(entry.partition),
                offset=_offset(entry),
                later=None if reading(self.rename.live) is None else effect("or-later"),
                beyond=self._beyond(entry),
            )
            found.append(OffsetMove(entry, was, goes_on, "same"))
        for was in left:
            if was.partition not in carried:
                label, offset = _label(was.partition), _offset(was)
                left_over = effect("left-by-earlier", partition=label, offset=offset, name=name)
                gone = OffsetEntry(was.partition, None)
                found.append(OffsetMove(gone, was, left_over, "forgotten"))
        return found

    def _beyond(self, entry: OffsetEntry) -> Effect | None:
        """A topic that was made anew is read from where the consumer's auto.offset.reset says."""
        at, number = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if at is None else self.context.live.logs_of(self.changes.name).ranges.get(at)
        if log is None or number is None or number <= log.latest:
            return None
        start = sink_start(self.changes.written or {}, self.context.worker)
        return effect("goes-on-beyond-end", end=str(log.latest), start=start)

    def _group(self, connector: LiveConnector) -> str:
        shown = self.changes.redactor.shown(connector.config)
        return sink_group(connector.name, shown, self.context.worker)

    def _same_group(self) -> bool:
        old = self.rename.live
        new = sink_group(
            self.changes.name,
            self.changes.redactor.shown(self.changes.written or {}),
            self.context.worker,
        )
        return old is not None and old.kind == "sink" and self._group(old) == new

    def _shared_group(self, old: LiveConnector) -> bool:
        """Whether another sink, the new name's or any, reads with the old one's group, or will."""
        group = sink_group(old.name, old.config, self.context.worker)
        return old.kind == "sink" and bool(self.context.other_readers(group, old.name))


def _label(partition: Partition) -> str:
    sink = sink_partition(partition)
    return partition_label(partition) if sink is None else f"{sink[0]}-{sink[1]}"


def _offset(entry: OffsetEntry) -> str:
    number = sink_offset(entry.offset) if sink_partition(entry.partition) else None
    return offset_text(entry.offset or {}) if number is None else str(number)
