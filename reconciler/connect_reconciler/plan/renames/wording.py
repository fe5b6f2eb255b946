"""Makes the actions that only a rename has, with reasons and effects in a reviewer's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_reconciler.plan.actions import CarryOffsets, Create, DeleteOld, OffsetMove, StopOld
from connect_reconciler.plan.checks.group_readers import Readers, other_readers
from connect_reconciler.plan.consequences.setting import sink_start
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live, LiveConnector
from connect_reconciler.plan.offsets.moves import reading, sink_offset, sink_partition
from connect_reconciler.plan.offsets.source_offsets import offset_text, partition_label
from connect_reconciler.plan.renames.rename import Rename, pins_of
from connect_specs.desired import OffsetEntry, Partition
from connect_specs.names import sink_group
from connect_specs.offsets import canonical_partition
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class RenameWording:
    """One connector's changes, the rename among them, and what surrounds them."""

    changes: Changes
    rename: Rename
    live: Live
    worker: Mapping[str, str]
    readers: Readers

    def stop_old(self) -> StopOld:
        """Its offsets must stand still before they are carried."""
        old, connector = self.rename.old, self.rename.live
        held_from = self._old_target()
        lines = []
        if connector is not None and connector.target is TargetState.STOPPED:
            lines.append("it is stopped already, and stays so")
        if self.rename.owned is None:
            lines.append("no project owned it: it is this project's from now on")
        return StopOld(
            connector=self.changes.name,
            reason=self._reason(),
            effect="\n".join(lines),
            old=old,
            held_from=held_from,
        )

    def create(self, initial: TargetState, held_from: TargetState | None) -> Create:
        """The new name, with the old one's config but for what its spec changes."""
        old = self.rename.old
        effect = f"created stopped, for the offsets of {old}"
        return Create(
            connector=self.changes.name,
            reason=self._reason(),
            effect="\n".join(line for line in (effect, self._config()) if line),
            config=self.changes.values,
            initial_state=initial,
            held_from=held_from,
            renamed_from=old,
            changes=self.changes.moved,
        )

    def carry(self) -> CarryOffsets:
        """All offsets of the old name, and no others."""
        name, old = self.changes.name, self.rename.old
        moves = tuple(
            sorted(self._moves(), key=lambda move: canonical_partition(move.entry.partition))
        )
        count = sum(move.entry.offset is not None for move in moves)
        amount = f"{count} partition{'' if count == 1 else 's'}"
        if not count:
            effect = f"{old} has no offsets: {name} begins as a new connector does"
        elif self._same_group():
            effect = f"{amount}: the consumer group is the same, so its offsets are there already"
        else:
            effect = ""  # each move says where it goes on
            promised = not any(each.effect for each in self.changes.moved)
            if promised and not any(self._beyond(move.entry) for move in moves):
                effect = f"{amount}: nothing is repeated or skipped"
        return CarryOffsets(
            connector=name,
            reason=f"{name} is to go on where {old} stops",
            effect=effect,
            old=old,
            moves=moves,
        )

    def delete_old(self) -> DeleteOld:
        """The old name, once the new one has its offsets."""
        name, old, connector = self.changes.name, self.rename.old, self.rename.live
        reset = connector is not None and not self._shared_group(connector)
        if connector is None:
            lines = ["it is gone already: only the ledger changes"]
        elif reset and connector.kind == "sink":
            group = self._group(connector)
            lines = [f"consumer group {group} goes too: a later {old} would begin anew"]
        elif reset:
            lines = [f"its offsets are forgotten: a later {old} would begin anew"]
        else:
            lines = [f"consumer group {self._group(connector)} stays: it is not {old}'s alone"]
        if pins_of(self.live.ledger, old):
            lines.append(f"its pins count for {name}: they are not applied again")
        return DeleteOld(
            connector=name,
            reason=f"{name} has the offsets of {old}",
            effect="\n".join(lines),
            old=old,
            reset=reset,
        )

    def _reason(self) -> str:
        return f"renamed from {self.rename.old}"

    def _old_target(self) -> TargetState | None:
        """Where the old one would go back to if the rename were given up."""
        connector, owned = self.rename.live, self.rename.owned
        if connector is None or connector.target is not TargetState.STOPPED:
            return None if connector is None else connector.target
        return None if owned is None else owned.held_from

    def _config(self) -> str:
        old, found = self.rename.old, self.changes.moved
        if not found:
            return f"its config is that of {old}"
        words = (line for each in found for line in each.effect.splitlines())
        return "\n".join(dict.fromkeys(words))

    def _moves(self) -> list[OffsetMove]:
        """Each partition of the old name, and what an earlier connector of the new name left."""
        connector, name = self.changes.live, self.changes.name
        left = connector.offsets if connector else self.live.orphan_offsets.get(name, ())
        before = {canonical_partition(each.partition): each for each in left if each.offset}
        found = []
        for entry in self.rename.live.offsets if self.rename.live else ():
            if entry.offset is None:
                continue
            was = before.pop(canonical_partition(entry.partition), None)
            later = " or later" if reading(self.rename.live) is not None else ""
            effect = f"{_label(entry.partition)} goes on at {_offset(entry)}{later}"
            effect += self._beyond(entry)
            found.append(OffsetMove(entry, was, effect, "same"))
        for was in before.values():
            effect = f"{_label(was.partition)} {_offset(was)} → none: left by an earlier {name}"
            gone = OffsetEntry(was.partition, None)
            found.append(OffsetMove(gone, was, effect, "forgotten"))
        return found

    def _beyond(self, entry: OffsetEntry) -> str:
        """A topic that was made anew is read from where the consumer's auto.offset.reset says."""
        at, number = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if at is None else self.live.around(self.changes.name).logs.get(at)
        if log is None or number is None or number <= log.latest:
            return ""
        start = sink_start(self.changes.written or {}, self.worker)
        return f", beyond the log's end, {log.latest}: reads from {start} there"

    def _group(self, connector: LiveConnector) -> str:
        shown = self.changes.cover.shown(connector.config)
        return sink_group(connector.name, shown, self.worker)

    def _same_group(self) -> bool:
        old = self.rename.live
        new = sink_group(
            self.changes.name, self.changes.cover.shown(self.changes.written or {}), self.worker
        )
        return old is not None and old.kind == "sink" and self._group(old) == new

    def _shared_group(self, old: LiveConnector) -> bool:
        """Whether another sink, the new name's or any, reads with the old one's group, or will."""
        group = sink_group(old.name, old.config, self.worker)
        return old.kind == "sink" and bool(other_readers(group, self.readers, old.name))


def _label(partition: Partition) -> str:
    sink = sink_partition(partition)
    return partition_label(partition) if sink is None else f"{sink[0]}-{sink[1]}"


def _offset(entry: OffsetEntry) -> str:
    number = sink_offset(entry.offset) if sink_partition(entry.partition) else None
    return offset_text(entry.offset or {}) if number is None else str(number)
