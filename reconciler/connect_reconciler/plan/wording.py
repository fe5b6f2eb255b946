"""Makes one connector's actions, with their reasons and their effects in a reviewer's words.

What is to be done, and when, is for order.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_reconciler.plan.action_words import DELETED, NEW, STATE
from connect_reconciler.plan.actions import (
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
from connect_reconciler.plan.checks.group_readers import Readers
from connect_reconciler.plan.consequences.explain import summary
from connect_reconciler.plan.consequences.setting import Setting, first_start, sink_start
from connect_reconciler.plan.diff import Changes, PinChange, managed_state
from connect_reconciler.plan.live import Live, TopicPartition
from connect_reconciler.plan.offsets.moves import (
    MoveContext,
    move,
    reading,
    sink_partition,
    totals,
)
from connect_reconciler.plan.offsets.positions import position_text
from connect_reconciler.plan.predict import moves_home
from connect_specs.desired import OffsetEntry
from connect_specs.names import sink_group
from connect_specs.offsets import canonical_partition
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Wording:
    """One connector's changes and what surrounds them, to be put into actions."""

    changes: Changes
    live: Live
    worker: Mapping[str, str]
    readers: Readers

    def create(self, initial: TargetState, held_from: TargetState | None) -> Create:
        """Its first state is `initial`; `held_from` if it waits there for its offsets."""
        owned = self.changes.owned
        reason = NEW
        if owned is not None:
            reason = DELETED
            if not owned.applied_ms:
                reason = "an earlier apply recorded it, and it is not on the cluster"
        lines = []
        if held_from is not None:
            lines.append("created stopped, for its offsets")
        elif initial is not TargetState.RUNNING:
            lines.append(f"created {initial.value}")
        if self.changes.pin is None:
            lines.append(self._beginning())
        return Create(
            connector=self.changes.name,
            reason=reason,
            effect=_lines(lines),
            config=self.changes.values,
            initial_state=initial,
            held_from=held_from,
        )

    def adopt(self) -> Adopt:
        """It is live, named by a spec, and nobody's."""
        return Adopt(
            connector=self.changes.name,
            reason="on the cluster, and no project owns it",
            effect="managed by this project from now on: removing its spec will delete it",
        )

    def update_config(self) -> UpdateConfig:
        """The whole config, with what changes in it."""
        count = len(self.changes.config)
        return UpdateConfig(
            connector=self.changes.name,
            reason=f"{count} {'key differs' if count == 1 else 'keys differ'}",
            effect=_lines(summary(self.changes)),
            config=self.changes.values,
            changes=self.changes.config,
        )

    def stop(self, held_from: TargetState | None) -> Stop:
        """For good, or for its offsets."""
        if held_from is None:
            reason, effect = self._state_reason(), "its tasks end; nothing is read or written"
        else:
            reason, effect = "offsets move only while it is stopped", ""
        return Stop(connector=self.changes.name, reason=reason, effect=effect, held_from=held_from)

    def stay_stopped(self) -> Stop:
        """Stopped already, but by an apply that meant to bring it back."""
        return Stop(
            connector=self.changes.name,
            reason="an earlier apply held it stopped; now its spec says so",
            effect="it stays stopped",
        )

    def alter_offsets(self, pin: PinChange) -> AlterOffsets | ResetOffsets:
        """The pin's offsets, or none at all."""
        name, reason = self.changes.name, f"pin {pin.pin} is new"
        asked = self.changes.spec.pin if self.changes.spec else None
        if asked is not None and asked.to is not None:
            moment = "was when this was planned" if asked.set else "is now"
            reason += f", to {position_text(asked.to)} as it {moment}"
        if pin.again:
            reason = f"its offsets are no longer those of pin {pin.pin}, which holds it stopped"
        context = self._context()
        if pin.entries is None:
            entries = [OffsetEntry(each.partition, None) for each in context.before.values()]
            moves = _moves(entries, context)
            effect = totals(moves) or ("" if moves else self._nothing_to_forget())
            return ResetOffsets(
                connector=name,
                reason=reason,
                effect=effect,
                pin=pin.pin,
                pin_hash=pin.content_hash,
                moves=moves,
                held=pin.held,
            )
        moves = _moves(pin.entries, context)
        return AlterOffsets(
            connector=name,
            reason=reason,
            effect=totals(moves),
            pin=pin.pin,
            pin_hash=pin.content_hash,
            moves=moves,
            held=pin.held,
        )

    def pause(self) -> Pause:
        """As its spec says, or as it was."""
        effect = "its tasks stay, and read and write nothing"
        if self._stopped_before():
            effect = "" if self.changes.moves_offsets else "no tasks until it resumes"
        return Pause(connector=self.changes.name, reason=self._state_reason(), effect=effect)

    def resume(self) -> Resume:
        """As its spec says, or as it was."""
        effect = "goes on where its offsets are"
        if self._stopped_before():
            effect = "its tasks start where its offsets are"
        if self.changes.moves_offsets:
            effect = ""  # the moves say where
        return Resume(connector=self.changes.name, reason=self._state_reason(), effect=effect)

    def restart(self) -> Restart:
        """Its tasks failed, and neither a pause nor a resume changes that."""
        return Restart(
            connector=self.changes.name,
            reason="it failed, and only a restart ends that",
            effect="its failed tasks start again where their offsets are",
        )

    def delete(self) -> Delete:
        """It is ours, and its spec is gone."""
        name, kind = self.changes.name, self.changes.kind
        lines = []
        if kind == "sink" and self.changes.live is not None:
            config = self.changes.cover.shown(self.changes.live.config)
            group = sink_group(name, config, self.worker)
            lines.append(f"its offsets stay in consumer group {group}")
        else:
            lines.append("its offsets stay: a new connector of its name goes on from there")
        pins = sum(connector == name for connector, _ in self.live.ledger.pins)
        if pins:
            lines.append("its pins are forgotten: the same pin would be applied again")
        return Delete(connector=name, reason="its spec is gone", effect=_lines(lines))

    def forget(self) -> Forget:
        """It is ours, and neither spec nor connector is left."""
        return Forget(
            connector=self.changes.name,
            reason="its spec is gone, and so is the connector",
            effect="only the ledger changes",
        )

    def protect(self, *, prevent_delete: bool) -> Protect:
        """Sets or lifts its guard."""
        value = "true" if prevent_delete else "false"
        effect = "removing its spec will delete it"
        if prevent_delete:
            effect = "removing its spec will be refused, and will not delete it"
        return Protect(
            connector=self.changes.name,
            reason=f"prevent_delete: {value}",
            effect=effect,
            prevent_delete=prevent_delete,
        )

    def _beginning(self) -> str:
        """Where a new connector starts to read."""
        changes = self.changes
        if changes.offsets:
            return "goes on from the offsets that an earlier connector of its name left"
        if changes.kind == "sink":
            return first_start(Setting.of(changes, self.live, self.worker))
        return "reads from the start of its source" if changes.kind == "source" else ""

    def _moves_home(self) -> bool:
        """Whether it is to look for its offsets in another place than now."""
        keys = (change.key for change in self.changes.config)
        return not self.changes.carries and moves_home(self.changes.kind, keys)

    def _nothing_to_forget(self) -> str:
        if self._moves_home() and self.changes.name not in self.live.new_offsets:
            return "whatever offsets are there are forgotten: they could not be read"
        return "it has no offsets to forget"

    def _context(self) -> MoveContext:
        changes = self.changes
        written = changes.written or {}
        start = sink_start(written, self.worker)
        reader = changes.rename.live if changes.rename and changes.carries else changes.live
        if self._moves_home():
            reader = None  # it does not read in the place where its offsets are to be
        return MoveContext.of(
            changes.kind,
            changes.offsets,
            self.live.around(changes.name),
            written,
            start,
            reading(reader),
        )

    def _stopped_before(self) -> bool:
        live = self.changes.live
        stopped = live is None or live.target is TargetState.STOPPED
        return stopped or self.changes.pin is not None

    def _state_reason(self) -> str:
        """What it comes from and goes to, where that differs; else why it is let go."""
        changes, goal = self.changes, self.changes.goal.value
        managed = changes.spec is not None and managed_state(changes.spec) is not None
        if changes.live is None and changes.rename is not None and not managed:
            return f"{changes.rename.old} was {goal} before"
        if changes.live is None:
            return f"{STATE}{goal}"
        if changes.live.target is changes.goal:
            return f"it was {goal} before"
        if changes.live.target is TargetState.STOPPED and not managed:
            return f"an earlier apply held it stopped; it was {goal} before"
        return f"{STATE}{changes.live.target.value} → {goal}"


def _moves(
    entries: list[OffsetEntry] | tuple[OffsetEntry, ...], context: MoveContext
) -> tuple[OffsetMove, ...]:
    return tuple(move(entry, context) for entry in sorted(entries, key=_place))


def _place(entry: OffsetEntry) -> tuple[TopicPartition, str]:
    """Partition 10 of a topic comes after its partition 9."""
    return sink_partition(entry.partition) or ("", 0), canonical_partition(entry.partition)


def _lines(lines: list[str] | tuple[str, ...]) -> str:
    return "\n".join(line for line in lines if line)
