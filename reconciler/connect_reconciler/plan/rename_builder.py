"""Builds the actions of a rename.

R7 The old one stops, the new one is there, has its offsets, and runs; then the old one goes.
   Offsets that a pin asks for come after those that are copied, and win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect_reconciler import actions as act
from connect_reconciler.model.live import LiveConnector
from connect_reconciler.model.offsets import Offsets, sink_offset, sink_partition
from connect_reconciler.plan.action_builder import ActionBuilder, Reason
from connect_reconciler.plan.diff import Rename
from connect_reconciler.plan.offsets.moves import label_of, place_of, reading
from connect_reconciler.plan.offsets.sink_positions import sink_start
from connect_specs.desired import OffsetEntry, TargetState, partition_key
from connect_specs.names import GROUP_KEY, sink_group
from connect_specs.plain_text import counted
from connect_specs.plugin_definitions import CLASS_KEY


@dataclass(frozen=True, slots=True)
class RenameBuilder(ActionBuilder):
    """Builds the actions of a connector that is renamed, over both its names."""

    rename: Rename

    def steps(self) -> Iterator[act.Action]:
        """Yields the actions of both names in their order."""
        if self.diff.carries:
            yield self.stop_old()
            yield from ActionBuilder.steps(self)
            yield self.delete_old()
        elif self.diff.existence == "create":
            # The new one was deleted manually; its offsets are there, newer than the old one's
            yield self.delete_old()
            yield from ActionBuilder(self.diff, self.context).steps()
        else:
            yield from ActionBuilder(self.diff, self.context).steps()
            yield self.delete_old()

    def offsets(self) -> Iterator[act.Action]:
        yield self.copy_offsets()
        yield from ActionBuilder.offsets(self)

    def stop_old(self) -> act.Stop:
        """Stops the connector under its old name, so that its offsets stand still."""
        old_name, connector = self.rename.old, self.rename.live
        effects = []
        if connector is not None and connector.target is TargetState.STOPPED:
            effects.append("it is stopped already, and stays so")
        if self.rename.owned is None:
            effects.append("no project owned it: it is this project's from now on")
        reason: Reason = (f"renamed from {old_name}", "renamed")
        return act.Stop(
            **self.explained(reason, *effects, *self.lost_slot(connector), connector=old_name),
            restore_to=self._old_target(),
            renamed_to=self.name,
        )

    def create(self, initial: TargetState, restore_to: TargetState | None) -> act.Create:
        """Creates the new name, with the old one's config but for changes of its spec."""
        old_name = self.rename.old
        reason: Reason = (f"renamed from {old_name}", "renamed")
        effect = f"created stopped, for the offsets of {old_name}"
        return act.Create(
            **self.explained(reason, effect, *self._config()),
            config=self.diff.values,
            initial_state=initial,
            restore_to=restore_to,
            renamed_from=old_name,
            changes=self.diff.moved,
        )

    def copy_offsets(self) -> act.CopyOffsets:
        """Copies all offsets of the old name, and no others."""
        name, old_name = self.name, self.rename.old
        moves = tuple(sorted(self._moves(), key=lambda move: partition_key(move.entry.partition)))
        count = sum(move.entry.offset is not None for move in moves)
        partitions = counted(count, "partition")
        effects: tuple[str, ...] = ()  # each move says where it goes on
        if not count:
            effects = (f"{old_name} has no offsets: {name} begins as a new connector does",)
        elif self._same_group():
            effects = (
                f"{partitions}: the consumer group is the same, so its offsets are there already",
            )
        elif self._leaves_files():
            effects = (
                f"{partitions}; files that {old_name} has written, and that are not in its tables"
                " when it stops, never get there",
                f"its groups are kept if {GROUP_KEY} and iceberg.connect.group-id name"
                f" {self._group(old_name, self.rename.live.config if self.rename.live else {})}",
            )
        elif self.lost_slot(self.rename.live):
            effects = (f"{partitions}: without its slot they do not count",)
        elif not any(change.effects for change in self.diff.moved) and not any(
            self._beyond(move.entry) for move in moves
        ):
            effects = (f"{partitions}: nothing is redelivered or jumped over",)
        reason: Reason = (f"{name} is to go on where {old_name} stops", "continues")
        return act.CopyOffsets(**self.explained(reason, *effects), source=old_name, moves=moves)

    def delete_old(self) -> act.Delete:
        """Deletes the old name, once the new one has its offsets."""
        name, old_name, connector = self.name, self.rename.old, self.rename.live
        reset = connector is not None and not self._shared_group(connector)
        group = "" if connector is None else self._group(connector.name, connector.config)
        effects = [f"consumer group {group} stays: it is not {old_name}'s alone"]
        if connector is None:
            effects = ["it is gone already: only the ledger changes"]
        elif reset and connector.kind == "sink":
            effects = [f"consumer group {group} goes too: a later {old_name} would begin anew"]
        elif reset:
            effects = [f"its offsets are forgotten: a later {old_name} would begin anew"]
        if self.context.live.ledger.pins_of(old_name):
            effects.append(f"its pins count for {name}: they are not applied again")
        reason: Reason = (f"{name} has the offsets of {old_name}", "carried")
        explained = self.explained(reason, *effects, connector=old_name)
        return act.Delete(**explained, renamed_to=name, reset_offsets=reset)

    def _old_target(self) -> TargetState | None:
        """Returns the state to restore for the old connector if the rename is given up."""
        connector, owned = self.rename.live, self.rename.owned
        if connector is None or connector.target is not TargetState.STOPPED:
            return None if connector is None else connector.target
        return None if owned is None else owned.restore_to

    def _config(self) -> tuple[str, ...]:
        changes = self.diff.moved
        if not changes:
            return (f"its config is that of {self.rename.old}",)
        return tuple(dict.fromkeys(effect for change in changes for effect in change.effects))

    def _moves(self) -> list[act.OffsetMove]:
        """Returns each partition of the old name, and those that an earlier connector of the new
        name left."""
        name = self.name
        leftover = self.context.live.offsets_of(name)
        carried = self.rename.live.offsets if self.rename.live else Offsets()
        moves = []
        for entry in carried:
            later = "" if reading(self.rename.live) is None else " or later"
            place = f"{label_of(entry.partition)} goes on at {place_of(entry)}"
            effect = f"{place}{later}{self._beyond(entry)}"
            moves.append(act.OffsetMove(entry, leftover.entry(entry.partition), effect, "same"))
        for entry in leftover:
            if entry.partition not in carried:
                place = f"{label_of(entry.partition)} {place_of(entry)}"
                effect = f"{place} → none: left by an earlier {name}"
                removed = OffsetEntry(entry.partition, None)
                moves.append(act.OffsetMove(removed, entry, effect, "forgotten"))
        return moves

    def _beyond(self, entry: OffsetEntry) -> str:
        """Returns what a sink does beyond the end of a topic that was created again."""
        at, number = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if at is None else self.context.live.logs_of(self.name).ranges.get(at)
        if log is None or number is None or number <= log.latest:
            return ""
        start = sink_start(self.diff.written or {}, self.context.worker)
        return f", beyond the log's end, {log.latest}: reads from {start} there"

    def _leaves_files(self) -> bool:
        """Returns whether it is Iceberg's sink, whose tasks agree in a group of their own."""
        name = "" if self.rename.live is None else self.rename.live.config.get(CLASS_KEY, "")
        return ".iceberg.connect." in self.context.live.classes.get(name, name)

    def _same_group(self) -> bool:
        connector = self.rename.live
        if connector is None or connector.kind != "sink":
            return False
        return self._group(connector.name, connector.config) == self._group(
            self.name, self.diff.written or {}
        )

    def _shared_group(self, connector: LiveConnector) -> bool:
        """Returns True if another sink, also the new name's, reads with the connector's group, or
        will."""
        group = sink_group(connector.name, connector.config, self.context.worker)
        readers = self.context.other_readers(group, connector.name)
        return connector.kind == "sink" and bool(readers)
