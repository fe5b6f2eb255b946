"""In which order do one connector's changes happen, and which connector comes first?

Rules, cited below:
R1 offsets move only while stopped, and a stop happens only for offsets or a spec that says so;
R2 config before offsets: it names the group, the topic and the class that judges them;
R3 the pin is recorded before anything resumes;
R4 a connector stopped for an action is restored to the state that the ledger has since before;
R5 on the way to paused, pause first: the new config must not run for a moment;
R6 stops come before starts: a replication slot, server id or group can have one owner only;
R7 a rename: the old one stops, the new one is there, has its offsets, and runs; then the old one
   goes. Offsets that a pin asks for come after those that are carried, and win.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from connect_reconciler.model import actions as act
from connect_reconciler.model import preconditions as pre
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.ledger import carried
from connect_reconciler.model.offsets import sink_offset, sink_partition
from connect_reconciler.model.secrets import config_fingerprint
from connect_reconciler.plan.action_builder import ActionBuilder, RenameBuilder
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff
from connect_reconciler.plan.predict import ConnectorState, predict, state_before
from connect_specs.partitions import content_hash
from connect_specs.states import TargetState


def ordered(changes: Iterable[ConnectorDiff], context: Context) -> tuple[act.Action, ...]:
    """The actions of all connectors, grouped by connector, each with what it relies on."""
    groups = [(each.name, _with_preconditions(each, context)) for each in changes]
    groups.sort(key=lambda group: (rank(group[1]), group[0]))
    return tuple(action for _, actions in groups for action in actions)


def rank(actions: tuple[act.Action, ...]) -> int:
    """R6, within which names decide, and an apply takes several connectors at a time.

    Deleting first loses nothing: offsets outlive a connector.
    """
    ends = (act.Delete, act.Forget)
    if any(isinstance(action, ends) for action in actions):
        return 0
    if actions and isinstance(actions[0], act.Create):
        return 3
    if any(isinstance(action, act.Stop) and action.restore_to is None for action in actions):
        return 1
    return 1 if any(isinstance(action, act.Pause) for action in actions) else 2


def _with_preconditions(changes: ConnectorDiff, context: Context) -> tuple[act.Action, ...]:
    steps = tuple(_steps(changes, context))
    state = state_before(changes.name, steps, context.live, project=context.desired.project)
    actions: list[act.Action] = []
    for bare in steps:
        action = replace(bare, requires=_requires(bare, state, changes))
        actions.append(action)
        state = predict(state, action)
    return tuple(actions)


def _steps(changes: ConnectorDiff, context: Context) -> Iterator[act.Action]:
    builder = ActionBuilder(changes, context)
    if changes.rename is None:
        yield from _own_steps(changes, builder)
        return
    renaming = RenameBuilder(changes, context, changes.rename)
    if changes.carries:  # R7
        yield renaming.stop_old()
        yield from _own_steps(changes, renaming)
        yield renaming.delete_old()
    elif changes.existence == "create":
        # Someone deleted the new one, whose offsets are still there and newer than the old one's
        yield renaming.delete_old()
        yield from _own_steps(changes, builder)
    else:
        yield from _own_steps(changes, builder)
        yield renaming.delete_old()


def _own_steps(changes: ConnectorDiff, builder: ActionBuilder) -> Iterator[act.Action]:
    match changes.existence:
        case "delete":
            yield builder.delete()
        case "forget":
            yield builder.forget()
        case "create":
            yield from _creation(changes, builder)
        case "adopt" | "keep":
            yield from _update(changes, builder)
        case _:
            assert_never(changes.existence)


def _creation(changes: ConnectorDiff, builder: ActionBuilder) -> Iterator[act.Action]:
    held = changes.moves_offsets and changes.goal is not TargetState.STOPPED
    initial = TargetState.STOPPED if held else changes.goal
    yield builder.create(initial, changes.goal if held else None)
    yield from _protection(changes, builder)
    yield from _offsets(changes, builder)
    yield from _go_to(changes.goal, initial, builder)


def _update(changes: ConnectorDiff, builder: ActionBuilder) -> Iterator[act.Action]:
    if changes.live is None:
        return
    if changes.existence == "adopt":
        yield builder.adopt()
    yield from _protection(changes, builder)
    target, goal = changes.live.target, changes.goal
    stopped, paused = TargetState.STOPPED, TargetState.PAUSED
    failed = "FAILED" in (changes.live.state, *changes.live.task_states)
    if target is not stopped and (changes.moves_offsets or goal is stopped):  # R1
        yield builder.stop(None if goal is stopped else target)
        # A stop ends failed tasks too: from there nothing is left to restart
        target = stopped
    elif target is stopped and goal is stopped and _held(changes):
        yield builder.stay_stopped()
    if changes.config and goal is paused and target is TargetState.RUNNING:  # R5
        yield builder.pause()
        target = paused
        if failed:
            yield builder.restart()
    if changes.config:
        yield builder.update_config()  # R2
    yield from _offsets(changes, builder)
    if target is paused and goal is TargetState.RUNNING and failed:
        # Resuming leaves failed tasks failed; before it, so that a kill in between forgets nothing
        yield builder.restart()
    yield from _go_to(goal, target, builder)  # R3, R4
    if target is TargetState.RUNNING and goal is paused and failed:
        # A failed task does not obey a pause
        yield builder.restart()


def _held(changes: ConnectorDiff) -> bool:
    return changes.owned is not None and changes.owned.restore_to is not None


def _protection(changes: ConnectorDiff, builder: ActionBuilder) -> Iterator[act.Action]:
    if changes.prevent_delete is not None:
        yield builder.protect(prevent_delete=changes.prevent_delete)


def _offsets(changes: ConnectorDiff, builder: ActionBuilder) -> Iterator[act.Action]:
    if isinstance(builder, RenameBuilder):
        yield builder.carry()
    if changes.pin is not None:
        yield builder.alter_offsets(changes.pin)


def _go_to(goal: TargetState, target: TargetState, builder: ActionBuilder) -> Iterator[act.Action]:
    if goal is target:
        return
    match goal:
        case TargetState.RUNNING:
            yield builder.resume()
        case TargetState.PAUSED:
            yield builder.pause()
        case TargetState.STOPPED:
            yield builder.stop(None)
        case _:
            assert_never(goal)


def _requires(
    action: act.Action, state: ConnectorState, changes: ConnectorDiff
) -> tuple[pre.Precondition, ...]:
    """What the action relies on, in the state that the plan predicts there."""
    owner = pre.OwnerIs(state.owner)
    match action:
        case act.Create():
            return (pre.Absent(), owner)
        case act.Forget():
            return (pre.Absent(), owner)
        case act.Protect():
            return (owner,)
        case act.Adopt() | act.UpdateConfig():
            return (_exists(state, changes), *_stopped(action, state), owner)
        case act.Stop() | act.Restart():
            return (_exists(state, changes), *_target(state), owner)
        case act.Delete():
            return (_exists(state, changes), owner, pre.NotProtected())
        case act.StopOld() | act.CarryOffsets() | act.DeleteOld():
            return _requires_of_rename(action, state, changes)
        case act.AlterOffsets() | act.ResetOffsets():
            pin: pre.Precondition = pre.PinNotRecorded(action.pin)
            if action.pin in state.pins:
                pin = pre.PinRecorded(action.pin, action.pin_hash)
            return (_exists(state, changes), *_target(state), owner, pin, *_inside(action, state))
        case act.Pause() | act.Resume():
            return (_exists(state, changes), *_target(state), owner, *_recorded(state, changes))
        case _:
            assert_never(action)


def _requires_of_rename(
    action: act.StopOld | act.CarryOffsets | act.DeleteOld,
    state: ConnectorState,
    changes: ConnectorDiff,
) -> tuple[pre.Precondition, ...]:
    old = state.old
    assert old is not None
    there: tuple[pre.OldCondition, ...] = (pre.Absent(),)
    if old.config is not None:
        there = (_exists(old, changes), *_target(old))
    of_old = (*(pre.OfOld(each) for each in there), pre.OfOld(pre.OwnerIs(old.owner)))
    match action:
        case act.StopOld():
            return (*of_old, pre.OfOld(pre.NotProtected()))
        case act.CarryOffsets():
            begun = pre.RenameRecorded(old.name, "begun")
            return (
                _exists(state, changes),
                *_target(state),
                pre.OwnerIs(state.owner),
                begun,
                *of_old,
            )
        case act.DeleteOld():
            return (pre.RenameRecorded(old.name, "carried"), *of_old, pre.OfOld(pre.NotProtected()))
        case _:
            assert_never(action)


def _exists(state: ConnectorState, changes: ConnectorDiff) -> pre.Exists:
    config = state.config or {}
    leaving_out: tuple[str, ...] = ()
    if state.key is None:
        named = changes.redactor.named
        leaving_out = tuple(
            sorted(
                key for key, value in config.items() if isinstance(value, Secret) or key in named
            )
        )
    mark = config_fingerprint(config, connector=state.name, key=state.key, leaving_out=leaving_out)
    return pre.Exists(mark, leaving_out)


def _target(state: ConnectorState) -> tuple[pre.TargetIs, ...]:
    return () if state.target is None else (pre.TargetIs(state.target),)


def _stopped(
    action: act.Adopt | act.UpdateConfig, state: ConnectorState
) -> tuple[pre.TargetIs, ...]:
    """A config may change in any state, but where offsets follow it must not run them."""
    if isinstance(action, act.UpdateConfig) and state.target is TargetState.STOPPED:
        return _target(state)
    return ()


def _inside(action: act.PinAction, state: ConnectorState) -> Iterator[pre.InsideLog]:
    if isinstance(action, act.ResetOffsets) or (
        isinstance(action, act.AlterOffsets) and action.to is not None
    ):
        return
    for move in action.moves:
        partition, offset = sink_partition(move.entry.partition), sink_offset(move.entry.offset)
        log = None if partition is None else state.logs.get(partition)
        # Below the log's start is allowed, with a warning: nothing there can be relied on
        if partition and log and offset is not None and offset >= log.earliest:
            yield pre.InsideLog(partition, offset)


def _recorded(
    state: ConnectorState, changes: ConnectorDiff
) -> tuple[pre.PinRecorded | pre.RenameRecorded, ...]:
    found: list[pre.PinRecorded | pre.RenameRecorded] = []
    if changes.rename is not None and carried(state.renames, changes.rename.old):
        found.append(pre.RenameRecorded(changes.rename.old, "carried"))
    pin = changes.spec.pin if changes.spec else None
    applied = None if pin is None else state.pins.get(pin.id)
    if pin is not None and applied is not None and applied.content_hash == content_hash(pin):
        found.append(pre.PinRecorded(pin.id, applied.content_hash))
    return tuple(found)
