"""The ledger records that an apply writes of connectors. Pure.

Before an action: what restores the connector if the process dies in the middle. After it: what was
done. Each is written in one transaction with the journal's record of that step. Besides these, the
snapshot of a connector from before the apply, and corrections of what earlier applies recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from connect_reconciler.ledger.records import (
    earlier_rename_removal,
    owned_record,
    pin_record,
    rename_record,
)
from connect_reconciler.model import actions as act
from connect_reconciler.model.config_values import Value, recorded
from connect_reconciler.model.ledger import (
    AppliedPin,
    ConnectorSnapshot,
    LedgerState,
    Owned,
    Renaming,
    carried,
    pin_of_rename,
)
from connect_reconciler.model.live import Live
from connect_reconciler.model.plan import Plan
from connect_reconciler.model.secrets import ConfigRedactor, fingerprint, redacted
from connect_reconciler.plan.predict import (
    let_go,
    pins_once_carried,
    pins_once_created,
    renames_once_created,
)
from connect_runtime.storage.log import NewRecord
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Context:
    """What an action's records are made from, besides the action and the ledger.

    `config` is the config of the action's subject as it is, or will be once this action wrote it,
    and `live_state` its target state; `state` and `prevent_delete` are the spec's. `untyped` are
    the keys of `config` that are secret only because nothing could tell their types, and `added`
    those that the cluster added when it was written.
    """

    topic: str
    project: str
    now_ms: int
    config: Mapping[str, Value]
    live_state: TargetState | None = None
    state: TargetState | None = None
    prevent_delete: bool = False
    env: str | None = None
    untyped: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()


def records_before(
    action: act.Action, ledger: LedgerState, context: Context
) -> tuple[NewRecord, ...]:
    """Records that must be in the ledger when the action begins."""
    name = act.subject(action)
    match action:
        case act.Create(restore_to=restore_to):
            # A connector that is created and then not recorded would have no owner, and one that
            # is created stopped would stay stopped
            owned = replace(_created(context), restore_to=restore_to, applied_ms=0)
            pins = ledger.pins_of(name)
            renames = ledger.renames_of(name)
            begun = renames_once_created(action, context.now_ms)
            return (
                *_pin_records(context.topic, name, pins, pins_once_created(pins, action)),
                *_rename_records(ledger, context.topic, name, renames, begun),
                owned_record(context.topic, name, owned),
            )
        case act.Stop(restore_to=restore_to) | act.StopOld(restore_to=restore_to):
            owned = replace(_owned(ledger, name, context), restore_to=restore_to)
            return (*_taken_back(action, ledger, context), owned_record(context.topic, name, owned))
        case act.Delete():
            # It is stopped first, and may get a spec again before it is deleted
            known, target = ledger.connectors.get(name), context.live_state
            if known is None or target in (None, TargetState.STOPPED):
                return ()
            return (owned_record(context.topic, name, replace(known, restore_to=target)),)
        case act.Resume() | act.Pause():
            pins, renames = ledger.pins_of(name), ledger.renames_of(name)
            return (
                *_pin_records(context.topic, name, pins, let_go(pins)),
                *_rename_records(ledger, context.topic, name, renames, let_go(renames)),
            )
        case (
            act.Adopt()
            | act.UpdateConfig()
            | act.AlterOffsets()
            | act.ResetOffsets()
            | act.CarryOffsets()
            | act.DeleteOld()
            | act.Restart()
            | act.Protect()
            | act.Forget()
        ):
            return ()
        case _:
            assert_never(action)


def records_after(
    action: act.Action, ledger: LedgerState, context: Context
) -> tuple[NewRecord, ...]:
    """Records of what the action did."""
    name, topic = act.subject(action), context.topic
    match action:
        case act.Create(restore_to=restore_to):
            owned = replace(_created(context), restore_to=restore_to)
            if restore_to is None:
                owned = replace(owned, state=context.state)
            return (owned_record(topic, name, owned),)
        case act.Adopt():
            state = context.state if context.state is context.live_state else None
            return (owned_record(topic, name, replace(_created(context), state=state)),)
        case act.UpdateConfig():
            owned = _owned(ledger, name, context)
            # A state that the spec began to manage, and that the connector had already
            there = context.state is not None and context.state is context.live_state
            owned = replace(
                owned,
                config=recorded(context.config),
                state=context.state if there else owned.state,
                applied_ms=context.now_ms,
                env=context.env,
                env_known=True,
                untyped=context.untyped,
                added=context.added,
            )
            return (owned_record(topic, name, owned),)
        case act.Stop(restore_to=restore_to):
            return () if restore_to is not None else _settled(name, ledger, context)
        case act.Pause() | act.Resume():
            return _settled(name, ledger, context)
        case act.AlterOffsets(pin=pin, pin_hash=pin_hash, moves=moves, held=held):
            resolved = tuple(move.entry for move in moves)
            applied = AppliedPin(pin_hash, resolved, context.now_ms, held)
            return (pin_record(topic, name, pin, applied),)
        case act.ResetOffsets(pin=pin, pin_hash=pin_hash, held=held):
            applied = AppliedPin(pin_hash, None, context.now_ms, held)
            return (pin_record(topic, name, pin, applied),)
        case act.Protect(prevent_delete=prevent_delete):
            owned = replace(_owned(ledger, name, context), prevent_delete=prevent_delete)
            return (owned_record(topic, name, owned),)
        case act.CarryOffsets(old=old):
            pins, renames = ledger.pins_of(name), ledger.renames_of(name)
            now = {**renames, old: Renaming("carried", context.now_ms)}
            of_old = ledger.renames_of(old)
            kept = {each: renaming for each, renaming in of_old.items() if each != name}
            return (
                *_pin_records(topic, name, pins, pins_once_carried(pins, ledger.pins_of(old))),
                *_rename_records(ledger, topic, name, renames, now),
                *_rename_records(ledger, topic, old, of_old, kept),
            )
        case act.Delete() | act.Forget() | act.DeleteOld():
            return _forgotten(name, ledger, topic)
        case act.Restart() | act.StopOld():
            return ()
        case _:
            assert_never(action)


def _taken_back(
    action: act.Stop | act.StopOld, ledger: LedgerState, context: Context
) -> Iterator[NewRecord]:
    """Records that a connector is to get its offsets back from the one that has them by now."""
    if not isinstance(action, act.StopOld):
        return
    name, new = action.connector, action.old
    if carried(ledger.renames_of(new), name):
        renames = ledger.renames_of(name)
        begun = {**renames, new: Renaming("begun", context.now_ms, held=True)}
        yield from _rename_records(ledger, context.topic, name, renames, begun)


def _owned(ledger: LedgerState, name: str, context: Context) -> Owned:
    return ledger.connectors.get(name) or _created(context)


def _created(context: Context) -> Owned:
    return Owned(
        project=context.project,
        config=recorded(context.config),
        state=None,
        prevent_delete=context.prevent_delete,
        applied_ms=context.now_ms,
        env=context.env,
        untyped=context.untyped,
        added=context.added,
    )


def _settled(name: str, ledger: LedgerState, context: Context) -> tuple[NewRecord, ...]:
    """The connector has the state of its spec, or its own from before it was stopped."""
    owned = replace(
        _owned(ledger, name, context),
        state=context.state,
        restore_to=None,
        applied_ms=context.now_ms,
        env=context.env,
        env_known=True,
    )
    return (owned_record(context.topic, name, owned),)


def _forgotten(name: str, ledger: LedgerState, topic: str) -> tuple[NewRecord, ...]:
    """Forgets the connector, its pins, and renames from and to it."""
    renames: dict[str, dict[str, Renaming]] = {}
    for new, old in ledger.renames:
        if name in (new, old):
            renames.setdefault(new, ledger.renames_of(new))
    return (
        *(pin_record(topic, of, pin, None) for of, pin in ledger.pins if of == name),
        *(
            record
            for new, known in renames.items()
            for record in _rename_records(
                ledger,
                topic,
                new,
                known,
                {old: each for old, each in known.items() if name not in (new, old)},
            )
        ),
        owned_record(topic, name, None),
    )


def _pin_records(
    topic: str, name: str, old: Mapping[str, AppliedPin], new: Mapping[str, AppliedPin]
) -> tuple[NewRecord, ...]:
    """Records that change a connector's pins from `old` to `new`."""
    return tuple(
        pin_record(topic, name, pin, new.get(pin))
        for pin in sorted(old.keys() | new.keys())
        if old.get(pin) != new.get(pin)
    )


def _rename_records(
    ledger: LedgerState,
    topic: str,
    name: str,
    old: Mapping[str, Renaming],
    new: Mapping[str, Renaming],
) -> Iterator[NewRecord]:
    """Records that change the renames to a connector from `old` to `new`, including those that an
    earlier version recorded."""
    for each in sorted(old.keys() | new.keys()):
        if old.get(each) == new.get(each):
            continue
        if (name, pin_of_rename(each)) not in ledger.pins:
            yield earlier_rename_removal(topic, name, each)
        yield rename_record(topic, name, each, new.get(each))


# --- snapshots ---


def snapshot_of(
    name: str,
    config: Mapping[str, str] | None,
    target: TargetState | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
    *,
    renamed_from: str | None,
    ignore: tuple[str, ...],
) -> ConnectorSnapshot:
    """The connector as it is before the apply's first action on it, secrets as fingerprints.

    A rollback returns to it. `config` None: it is not there. `ignore` holds the globs that its spec
    ignores.
    """
    owned = ledger.connectors.get(name)
    if owned is not None and config is not None:
        secret = _recorded_as_secret(owned, config, redactor)
        redactor = replace(redactor, named=redactor.named | secret)
    if target is TargetState.STOPPED and not _was_carried(ledger, name):
        target = ledger.restore_to(name) or target
    return ConnectorSnapshot(
        config=None if config is None else redacted(config, redactor),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        pins=ledger.pins_of(name),
        renamed_from=renamed_from,
        ignore=ignore,
    )


def _was_carried(ledger: LedgerState, name: str) -> bool:
    """Whether another connector has its offsets by now, so that it must not run again."""
    return any(old == name and each.stage == "carried" for (_, old), each in ledger.renames.items())


def _recorded_as_secret(
    owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> frozenset[str]:
    """Keys that an earlier spec called sensitive, although the spec may be gone or changed."""
    return frozenset(
        key
        for key, text in config.items()
        if redactor.key is not None
        and owned.config.get(key) == fingerprint(redactor.key, redactor.connector, key, text)
    )


# --- corrections ---


def overtaken_stops(topic: str, ledger: LedgerState, plan: Plan, live: Live) -> list[NewRecord]:
    """Clears `restore_to` where the connector is not stopped: the stop that it was recorded for
    never came, or somebody resumed the connector. A later manual stop would be undone else."""
    return [
        owned_record(topic, name, replace(owned, restore_to=None))
        for name, owned in ledger.connectors.items()
        if owned.restore_to is not None
        and owned.project == plan.project
        and name in live.connectors
        and live.connectors[name].target is not TargetState.STOPPED
    ]


def owned_by_configs(topic: str, ledger: LedgerState, plan: Plan, live: Live) -> list[NewRecord]:
    """Copies the entries that only the configs of connectors hold, because those were applied over
    REST alone: from now on this ledger holds them."""
    found = {
        name: owned
        for name, owned in live.ledger.connectors.items()
        if owned.project == plan.project and name not in ledger.connectors
    }
    pins, renames = live.ledger.pins.items(), live.ledger.renames.items()
    return [
        *(owned_record(topic, name, owned) for name, owned in found.items()),
        *(pin_record(topic, of, pin, each) for (of, pin), each in pins if of in found),
        *(rename_record(topic, of, old, each) for (of, old), each in renames if of in found),
    ]
