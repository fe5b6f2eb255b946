"""Builds one connector's actions in their order, with their reasons and effects.

Rules, cited below:
R1 offsets move only while stopped, and a stop happens only for offsets or a spec that says so;
R2 config before offsets: it names the group, the topic and the class that judges them;
R3 the pin is recorded before anything resumes;
R4 a connector stopped for an action is restored to the state that the ledger has since before;
R5 on the way to paused, pause first: the new config must not run for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypedDict, assert_never

from connect_reconciler import actions as act
from connect_reconciler.actions import ReasonCode
from connect_reconciler.actions.connector_state import changes_place
from connect_reconciler.model.live import LiveConnector
from connect_reconciler.plan.consequences.beginning import beginning
from connect_reconciler.plan.consequences.computed import lost_slot
from connect_reconciler.plan.consequences.explain import outside_state, summary
from connect_reconciler.plan.consequences.rule import RuleContext
from connect_reconciler.plan.diff import ConnectorDiff, Context, PinChange, managed_state
from connect_reconciler.plan.offsets.moves import (
    MoveContext,
    moves_to,
    reading,
    totals,
)
from connect_reconciler.plan.offsets.sink_positions import position_text, sink_start
from connect_specs.desired import Position, TargetState
from connect_specs.names import sink_group
from connect_specs.plain_text import counted

# A sentence, and its code
Reason: TypeAlias = tuple[str, ReasonCode]


class Explained(TypedDict):
    """The fields of every action that explain it."""

    connector: str
    reason: str
    reason_code: ReasonCode
    effects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActionBuilder:
    """One connector's diff and its surroundings, to be put into actions."""

    diff: ConnectorDiff
    context: Context

    @property
    def name(self) -> str:
        """Returns the connector's name."""
        return self.diff.name

    def steps(self) -> Iterator[act.Action]:
        """Yields the connector's actions in their order."""
        match self.diff.existence:
            case "delete":
                yield self.delete()
            case "forget":
                yield self.forget()
            case "create":
                yield from self._creation()
            case "adopt" | "keep":
                yield from self._update()
            case _:
                assert_never(self.diff.existence)

    def _creation(self) -> Iterator[act.Action]:
        goal = self.diff.goal
        waits = self.diff.moves_offsets and goal is not TargetState.STOPPED
        initial = TargetState.STOPPED if waits else goal
        yield self.create(initial, goal if waits else None)
        yield from self._protection()
        yield from self.offsets()
        yield from self._go_to(goal, initial)

    def _update(self) -> Iterator[act.Action]:
        diff, goal = self.diff, self.diff.goal
        if diff.live is None:
            return
        if diff.existence == "adopt":
            yield self.adopt()
        yield from self._protection()
        target = diff.live.target
        running, stopped, paused = TargetState.RUNNING, TargetState.STOPPED, TargetState.PAUSED
        failed = "FAILED" in (diff.live.state, *diff.live.task_states)
        if target is not stopped and (diff.moves_offsets or goal is stopped):  # R1
            yield self.stop(None if goal is stopped else target)
            # A stop ends failed tasks too: from there nothing is left to restart
            target = stopped
        elif target is stopped and goal is stopped and diff.owned and diff.owned.restore_to:
            yield self.stay_stopped()
        if diff.config and goal is paused and target is running:  # R5
            yield self.pause()
            target = paused
            if failed:
                yield self.restart()
        if diff.config:
            yield self.update_config()  # R2
        yield from self.offsets()
        if target is paused and goal is running and failed:
            # Resuming leaves failed tasks failed; before it, so that a kill in between forgets
            # nothing
            yield self.restart()
        yield from self._go_to(goal, target)  # R3, R4
        if target is running and goal is paused and failed:
            # A failed task does not obey a pause
            yield self.restart()

    def _protection(self) -> Iterator[act.Action]:
        if self.diff.prevent_delete is not None:
            yield self.protect(prevent_delete=self.diff.prevent_delete)

    def offsets(self) -> Iterator[act.Action]:
        """Yields the actions that move its offsets."""
        if self.diff.pin is not None:
            yield self.alter_offsets(self.diff.pin)

    def _go_to(self, goal: TargetState, target: TargetState) -> Iterator[act.Action]:
        if goal is target:
            return
        match goal:
            case TargetState.RUNNING:
                yield self.resume()
            case TargetState.PAUSED:
                yield self.pause()
            case TargetState.STOPPED:
                yield self.stop(None)
            case _:
                assert_never(goal)

    # --- single actions ---

    def create(self, initial: TargetState, restore_to: TargetState | None) -> act.Create:
        """Creates it in state `initial`; `restore_to` if it waits there for its offsets."""
        owned = self.diff.owned
        reason: Reason = ("new", "new")
        if owned is not None and owned.applied_ms:
            reason = ("deleted outside connect", "deleted-outside")
        elif owned is not None:
            text = "an earlier apply recorded it, and it is not on the cluster"
            reason = (text, "only-recorded")
        effects: list[str] = []
        if restore_to is not None:
            effects.append("created stopped, for its offsets")
        elif initial is not TargetState.RUNNING:
            effects.append(f"created {initial.value}")
        if self.diff.pin is None:
            context = RuleContext.of(self.diff, self.context.live, self.context.worker)
            effects += beginning(context, self.diff.offsets)
        return act.Create(
            **self.explained(reason, *effects),
            config=self.diff.values,
            initial_state=initial,
            restore_to=restore_to,
        )

    def adopt(self) -> act.Adopt:
        """Adopts a live, unowned connector that has a spec."""
        reason: Reason = ("on the cluster, and no project owns it", "unowned")
        if self.context.live.rest_alone:
            text = "on the cluster; owners cannot be seen without cluster.kafka"
            reason = (text, "owner-unseen")
        managed = "managed by this project from now on: removing its spec will delete it"
        return act.Adopt(**self.explained(reason, managed))

    def update_config(self) -> act.UpdateConfig:
        """Writes the config, with the keys that change in it."""
        count = len(self.diff.config)
        reason = f"{counted(count, 'key')} {'differs' if count == 1 else 'differ'}"
        return act.UpdateConfig(
            **self.explained((reason, "keys-differ"), *summary(self.diff), *self.lost_slot()),
            config=self.diff.values,
            changes=self.diff.config,
        )

    def stop(self, restore_to: TargetState | None) -> act.Stop:
        """Stops it until its spec changes, or only while its offsets move."""
        if restore_to is not None:
            reason: Reason = ("offsets move only while it is stopped", "for-offsets")
            return act.Stop(**self.explained(reason, *self.lost_slot()), restore_to=restore_to)
        end = "its tasks end; nothing is read or written"
        effects = (*self._outside(), end, *self.lost_slot())
        return act.Stop(**self.explained(self._state_reason(), *effects))

    def stay_stopped(self) -> act.Stop:
        """Leaves it stopped that an earlier apply stopped, and was to bring back."""
        text = "an earlier apply held it stopped; now its spec says so"
        return act.Stop(**self.explained((text, "held-and-now-stopped"), "it stays stopped"))

    def alter_offsets(self, pin: PinChange) -> act.AlterOffsets | act.ResetOffsets:
        """Sets the pin's offsets, or resets all."""
        spec_pin = self.diff.spec.pin if self.diff.spec else None
        to = None if spec_pin is None or pin.drifted else spec_pin.to
        moving = replace(self._move_context(), to=to)
        entries = moving.current.removed() if pin.entries is None else pin.entries
        moves = moves_to(entries, moving)
        effects = totals(moves, estimated=to is not None)
        if pin.entries is None and not moves:
            effects = (self._nothing_to_forget(),)
        explained = self.explained(self._pin_reason(pin, to), *effects)
        if pin.entries is None:
            return act.ResetOffsets(
                **explained, pin=pin.pin, pin_hash=pin.content_hash, moves=moves, held=pin.held
            )
        return act.AlterOffsets(
            **explained, pin=pin.pin, pin_hash=pin.content_hash, moves=moves, held=pin.held, to=to
        )

    def pause(self) -> act.Pause:
        """Pauses it, as its spec says or as it was before the apply."""
        effects = ["its tasks read and write nothing"]
        if self._stopped_before():
            effects = [] if self.diff.moves_offsets else ["no tasks until it resumes"]
        return act.Pause(**self.explained(self._state_reason(), *self._outside(), *effects))

    def resume(self) -> act.Resume:
        """Resumes it, as its spec says or as it was before the apply."""
        effects = ["goes on where its offsets are"]
        if self.diff.moves_offsets:
            effects = []  # the moves say where
        elif self._stopped_before():
            effects = ["its tasks start where its offsets are"]
        return act.Resume(**self.explained(self._state_reason(), *self._outside(), *effects))

    def restart(self) -> act.Restart:
        """Restarts its failed tasks: neither a pause nor a resume does."""
        reason: Reason = ("it failed, and only a restart ends that", "failed")
        effect = "its failed tasks start again where their offsets are"
        return act.Restart(**self.explained(reason, effect))

    def delete(self) -> act.Delete:
        """Deletes a connector of this project whose spec was removed."""
        effects = ["its offsets stay: a new connector of its name goes on from there"]
        if self.diff.kind == "sink" and self.diff.live is not None:
            group = self._group(self.name, self.diff.live.config)
            effects = [f"its offsets stay in consumer group {group}"]
        if self.context.live.ledger.pins_of(self.name):
            effects.append("its pins are forgotten: the same pin would be applied again")
        return act.Delete(**self.explained(("its spec is gone", "spec-gone"), *effects))

    def forget(self) -> act.Forget:
        """Forgets what this project owned: neither spec nor connector exists."""
        text = "its spec is gone, and so is the connector"
        reason: Reason = (text, "spec-and-connector-gone")
        return act.Forget(**self.explained(reason, "only the ledger changes"))

    def protect(self, *, prevent_delete: bool) -> act.Protect:
        """Sets or lifts its protection against deletion."""
        effect = "removing its spec will delete it"
        if prevent_delete:
            effect = "removing its spec will be refused, and will not delete it"
        reason = f"prevent_delete: {str(prevent_delete).lower()}"
        return act.Protect(
            **self.explained((reason, "prevent-delete"), effect), prevent_delete=prevent_delete
        )

    def explained(self, reason: Reason, *effects: str, connector: str = "") -> Explained:
        """Returns the fields that say which connector an action changes, by default this one, why,
        and what that does to the data."""
        return {
            "connector": connector or self.name,
            "reason": reason[0],
            "reason_code": reason[1],
            "effects": effects,
        }

    def _changes_place(self) -> bool:
        """Returns True if its offsets are to be in another place than now."""
        keys = (change.key for change in self.diff.config)
        return not self.diff.carries and changes_place(self.diff.kind, keys)

    def _nothing_to_forget(self) -> str:
        if self._changes_place() and self.name not in self.context.live.offsets_after_change:
            return "whatever offsets are there are forgotten: they could not be read"
        return "it has no offsets to forget"

    def _move_context(self) -> MoveContext:
        diff, live = self.diff, self.context.live
        config = diff.written or {}
        reader = diff.rename.live if diff.rename and diff.carries else diff.live
        if self._changes_place():
            reader = None  # it does not read in the place where its offsets are to be
        return MoveContext(
            diff.kind,
            diff.offsets,
            live.logs_of(diff.name),
            config,
            sink_start(config, self.context.worker),
            reading(reader),
            live.unread_offsets.get(diff.name, ""),
        )

    def _group(self, name: str, config: Mapping[str, str]) -> str:
        """Returns the group as it may be shown."""
        return sink_group(name, self.diff.redactor.shown(config), self.context.worker)

    def _stopped_before(self) -> bool:
        live = self.diff.live
        stopped = live is None or live.target is TargetState.STOPPED
        return stopped or self.diff.pin is not None

    def lost_slot(self, renamed: LiveConnector | None = None) -> tuple[str, ...]:
        """Returns what the end of its tasks, or of those of its old name, does to a slot that the
        config drops then."""
        connector, context = renamed or self.diff.live, self.context
        if connector is None or connector.target is TargetState.STOPPED:
            return ()
        return lost_slot(RuleContext.of(self.diff, context.live, context.worker, renamed))

    def _outside(self) -> tuple[str, ...]:
        return outside_state(self.diff, self.context.live)

    def _pin_reason(self, pin: PinChange, to: Position | None) -> Reason:
        if pin.drifted:
            return (
                f"its offsets are no longer those of pin {pin.pin}, which holds it stopped",
                "pin-drifted",
            )
        place = "" if to is None else f", to {position_text(to)} once it is stopped"
        return f"pin {pin.pin} is new{place}", "pin-new"

    def _state_reason(self) -> Reason:
        """Returns the state that it comes from, or why it goes back to its own."""
        diff, goal = self.diff, self.diff.goal
        managed = diff.spec is not None and managed_state(diff.spec) is not None
        if diff.live is None and diff.rename is not None and not managed:
            return f"{diff.rename.old} was {goal} before", "state-of-old-name"
        if diff.live is None:
            return f"state: {goal}", "state"
        if diff.live.target is goal:
            return f"it was {goal} before", "state-before"
        if diff.live.target is TargetState.STOPPED and not managed:
            return f"an earlier apply held it stopped; it was {goal} before", "held-by-an-apply"
        return f"state: {diff.live.target} → {goal}", "state"
