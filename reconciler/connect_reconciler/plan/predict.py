"""Predicts the state that an action leaves its connector in, and checks preconditions on it.

A pure fold over one connector's state. The same `check` judges the live state before the first
action, the state that the plan predicts before each later one, and what apply reads just then.
Progress of a running connector is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from connect_reconciler.model import actions as act
from connect_reconciler.model import preconditions as pre
from connect_reconciler.model.config_values import Value, recorded, without_reserved
from connect_reconciler.model.ledger import AppliedPin, LedgerState, RenameStage, Renaming, carried
from connect_reconciler.model.live import Kind, Live, LogRange
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_reconciler.model.plan import Plan, grouped
from connect_reconciler.model.reasons import NO_REASON
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    config_fingerprint,
    key_id,
    live_redactor,
    redacted,
)
from connect_specs.counting import listed
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic
from connect_specs.names import GROUP_KEY
from connect_specs.states import TargetState

Record = TypeVar("Record", AppliedPin, Renaming)

# The key of the Kafka cluster that a sink reads
SINK_SERVERS = "consumer.override.bootstrap.servers"
# A change of one of these makes Connect look for the offsets elsewhere
_PLACE_KEYS: Mapping[Kind, frozenset[str]] = {
    "sink": frozenset({SINK_SERVERS, GROUP_KEY}),
    "source": frozenset({"offsets.storage.topic", "producer.override.bootstrap.servers"}),
}


def changes_place(kind: Kind, keys: Iterable[str]) -> bool:
    """Whether a change of these config keys makes Connect look for the offsets elsewhere."""
    of_any = frozenset[str]().union(*_PLACE_KEYS.values())
    return not _PLACE_KEYS.get(kind, of_any).isdisjoint(keys)


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """One connector as preconditions see it. `config` None: it is not there.

    `project` is the one that acts, `owner` the one that the ledger names. `offsets` are known only
    while it is stopped, and only where its config still points. `renames` are those to it that are
    not finished, by the old name. `old` is the connector that is renamed to this one, under its old
    name. `applied` is the config that was applied last, with fingerprints of secrets, and
    `relied_on` the one that a plan changes: both only to tell which keys differ.
    """

    name: str
    project: str
    config: Mapping[str, Value] | None = None
    target: TargetState | None = None
    owner: str | None = None
    prevent_delete: bool = False
    restore_to: TargetState | None = None
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)
    renames: Mapping[str, Renaming] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    logs: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    key: bytes | None = field(default=None, repr=False)
    old: ConnectorState | None = None
    kind: Kind = "unknown"
    applied: Mapping[str, str] | None = None
    relied_on: Mapping[str, Value] | None = None


def state_before(
    name: str, actions: Iterable[act.Action], live: Live, *, project: str
) -> ConnectorState:
    """The connector as it was observed, with the one that its actions rename to it, if any."""
    state = state_of(name, live, project=project)
    old = next((old for old in map(act.old_name, actions) if old is not None), None)
    return state if old is None else replace(state, old=state_of(old, live, project=project))


def state_of(name: str, live: Live, *, project: str) -> ConnectorState:
    """The connector as it was observed."""
    connector = live.connectors.get(name)
    state = ConnectorState(
        name=name,
        project=project,
        offsets=live.offsets_of(name),
        logs=live.logs_of(name).ranges,
        kind="unknown" if connector is None else connector.kind,
        key=live.ledger.fingerprint_key,
    )
    found = None if connector is None else (connector.config, connector.target)
    return state_now(state, found, live.ledger, live_redactor(name, live))


def state_now(
    state: ConnectorState,
    found: tuple[Mapping[str, str], TargetState] | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
) -> ConnectorState:
    """The state with what cluster and ledger say now in its place; `found` is config and target."""
    name, (config, target) = state.name, found or (None, None)
    owned = ledger.connectors.get(name)
    return replace(
        state,
        applied=None if owned is None else owned.config,
        config=None if config is None else redacted(without_reserved(config), redactor),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        restore_to=ledger.restore_to(name),
        pins=ledger.pins_of(name),
        renames=ledger.renames_of(name),
    )


def predict(state: ConnectorState, action: act.Action) -> ConnectorState:
    """The connector and its ledger records once the action is done."""
    match action:
        case act.Create(config=config, initial_state=target, restore_to=restore_to):
            return replace(
                state,
                config=config,
                target=target,
                restore_to=restore_to,
                owner=state.project,
                pins=pins_once_created(state.pins, action),
                renames=renames_once_created(action),
            )
        case act.Adopt():
            return replace(state, owner=state.project)
        case act.UpdateConfig(config=config, changes=changes):
            moved = changes_place(state.kind, (change.key for change in changes))
            return replace(state, config=config, offsets=Offsets() if moved else state.offsets)
        case act.Stop(restore_to=restore_to):
            return replace(state, target=TargetState.STOPPED, restore_to=restore_to)
        case act.AlterOffsets(moves=moves):
            entries = tuple(move.entry for move in moves)
            return replace(_recorded(state, action, entries), offsets=state.offsets.after(entries))
        case act.ResetOffsets():
            return replace(_recorded(state, action, None), offsets=Offsets())
        case act.StopOld() | act.CarryOffsets() | act.DeleteOld():
            return _renamed(state, action)
        case act.Pause():
            return replace(_let_go(state), target=TargetState.PAUSED)
        case act.Resume():
            return replace(_let_go(state), target=TargetState.RUNNING)
        case act.Restart():
            return state
        case act.Protect(prevent_delete=prevent_delete):
            return replace(state, prevent_delete=prevent_delete)
        case act.Delete() | act.Forget():
            return ConnectorState(
                state.name, state.project, offsets=state.offsets, logs=state.logs, key=state.key
            )
        case _:
            assert_never(action)


def check(precondition: pre.Precondition, state: ConnectorState) -> Diagnostic | None:
    """What is wrong if the precondition does not hold in this state."""
    match precondition:
        case pre.Exists():
            return _check_exists(precondition, state)
        case pre.Absent():
            broken = state.config is not None and "the connector exists already"
        case pre.TargetIs(state=target):
            now = state.target.value if state.target else "not there"
            broken = state.target != target and f"its target state is {now}, not {target.value}"
        case pre.OwnerIs(project=project):
            broken = state.owner != project and (
                f"the ledger names {_owner(state.owner)} as its owner, not {_owner(project)}"
            )
        case pre.NotProtected():
            broken = state.prevent_delete and "it is protected against deletion"
        case pre.PinNotRecorded(pin=pin):
            broken = pin in state.pins and f"pin {pin} has been applied already"
        case pre.PinRecorded(pin=pin, content_hash=content_hash):
            applied = state.pins.get(pin)
            known = applied is not None and applied.content_hash == content_hash
            broken = not known and f"the ledger does not hold pin {pin} as the spec has it"
        case pre.RenameRecorded(old=old, stage=stage):
            record = state.renames.get(old)
            known = record is not None and record.stage == stage
            broken = not known and f"the ledger does not say {_STAGES[stage]} from {old}"
        case pre.OfOld(condition=condition):
            # Only a group of actions that names an old one relies on it
            assert state.old is not None
            return check(condition, state.old)
        case pre.InsideLog(partition=(topic, number), offset=offset):
            log = state.logs.get((topic, number))
            if log is None:
                broken = f"{topic}-{number} does not exist"
            else:
                inside = log.earliest <= offset <= log.latest
                kept = f"{log.earliest} to {log.latest}"
                broken = not inside and f"{topic}-{number} holds {kept}: {offset} lies outside"
        case _:
            assert_never(precondition)
    return _stale(precondition, broken, state) if broken else None


def unmet(action: act.Action, state: ConnectorState) -> tuple[Diagnostic, ...]:
    """What an action relies on that does not hold in this state."""
    found = (check(precondition, state) for precondition in action.requires)
    return tuple(problem for problem in found if problem is not None)


def unmet_configs(action: act.Action, state: ConnectorState) -> Iterator[Diagnostic]:
    """What is wrong with the configs that an action relies on, of connectors that are there."""
    for precondition in action.requires:
        of_old = isinstance(precondition, pre.OfOld)
        condition = precondition.condition if isinstance(precondition, pre.OfOld) else precondition
        found = state.old if of_old else state
        if not isinstance(condition, pre.Exists) or found is None or found.config is None:
            continue
        problem = check(condition, found)
        if problem is not None:
            yield problem


def check_plan(plan: Plan, live: Live) -> tuple[Diagnostic, ...]:
    """Why the plan is stale on this cluster; empty if all that it relies on holds.

    Each precondition is checked where its action comes, on what the plan predicts from `live`.
    """
    if plan.cluster_id != live.cluster_id:
        what = f"the plan is for the Kafka cluster {plan.cluster_id}, and this is {live.cluster_id}"
        return (Diagnostic("stale.cluster", what),)
    if plan.key_id != key_id(live.ledger.fingerprint_key):
        what = "the plan's fingerprints were made with another key"
        if not plan.key_id:
            what = "the plan was made when the project had no key for fingerprints of secrets yet"
        hint = "make the plan again, with the same CONNECT_FINGERPRINT_KEY if you set one"
        return (Diagnostic("stale.key", what, hint=hint),)
    problems: list[Diagnostic] = []
    for actions in grouped(plan):
        state = state_before(actions[0].connector, actions, live, project=plan.project)
        state = replace(state, relied_on=_config_before(actions))
        for action in actions:
            found = unmet(action, state)
            problems.extend(found)
            if found:
                # Whatever follows relies on this action, and would only repeat its problem
                break
            state = predict(state, action)
    return tuple(problems)


def _check_exists(precondition: pre.Exists, state: ConnectorState) -> Diagnostic | None:
    if state.config is None:
        return _stale(precondition, "the connector is not there", state)
    now = config_fingerprint(
        state.config,
        connector=state.name,
        key=state.key,
        leaving_out=precondition.leaving_out,
    )
    if now == precondition.config_fingerprint:
        return None
    what = "its config is not the one that the plan relies on"
    keys = _other_keys(state.config, state)
    return _stale(precondition, f"{what}: {listed(keys)}" if keys else what, state)


def _config_before(actions: Iterable[act.Action]) -> Mapping[str, Value] | None:
    """The config that a connector has before these actions, if one of them changes it."""
    for action in actions:
        if isinstance(action, act.UpdateConfig):
            old = {each.key: each.old for each in action.changes}
            return {
                key: value for key, value in {**action.config, **old}.items() if value is not None
            }
    return None


def _other_keys(config: Mapping[str, Value], state: ConnectorState) -> list[str]:
    """The keys that have other values than those that the plan relied on, or, where it does not
    name these, than those that were applied last."""

    def mark(values: Mapping[str, Value], key: str) -> str:
        only = {key: values[key]} if key in values else {}
        return config_fingerprint(only, connector=state.name, key=state.key)

    if (then := state.relied_on) is not None:
        return [
            key
            for key in sorted(then.keys() | config.keys())
            if mark(then, key) != mark(config, key)
        ]
    now, applied = recorded(config), state.applied
    if applied is None:
        return []
    return [key for key in sorted(applied.keys() | now.keys()) if applied.get(key) != now.get(key)]


def _stale(precondition: pre.Precondition, what: str, state: ConnectorState) -> Diagnostic:
    hint = "make the plan again"
    return Diagnostic(f"stale.{_CODES[type(precondition)]}", what, state.name, hint=hint)


_STAGES: Mapping[RenameStage, str] = {
    "begun": "that it was created to be renamed",
    "carried": "that it has the offsets",
}

_CODES: Mapping[type[pre.Precondition], str] = {
    pre.Exists: "config",
    pre.Absent: "exists",
    pre.TargetIs: "state",
    pre.OwnerIs: "owner",
    pre.NotProtected: "protected",
    pre.PinNotRecorded: "pin-applied",
    pre.PinRecorded: "pin-missing",
    pre.RenameRecorded: "rename-missing",
    pre.InsideLog: "outside-log",
}


def _owner(project: str | None) -> str:
    return "nobody" if project is None else f"project {project}"


def _renamed(
    state: ConnectorState, action: act.StopOld | act.CarryOffsets | act.DeleteOld
) -> ConnectorState:
    old = state.old
    assert old is not None
    match action:
        case act.StopOld(restore_to=restore_to):
            stopped = replace(
                old, target=TargetState.STOPPED, owner=state.project, restore_to=restore_to
            )
            if carried(old.renames, state.name):
                begun = {**state.renames, old.name: Renaming("begun", held=True)}
                return replace(state, old=stopped, renames=begun)
            return replace(state, old=stopped)
        case act.CarryOffsets(moves=moves):
            renames = {**state.renames, old.name: Renaming("carried")}
            pins = pins_once_carried(state.pins, old.pins)
            kept = {name: each for name, each in old.renames.items() if name != state.name}
            return replace(
                state,
                pins=pins,
                renames=renames,
                offsets=Offsets(move.entry for move in moves),
                old=replace(old, renames=kept),
            )
        case act.DeleteOld(reset=reset):
            renames = {name: each for name, each in state.renames.items() if name != old.name}
            gone = predict(old, act.Delete(connector=old.name, reason=NO_REASON))
            return replace(
                state, renames=renames, old=replace(gone, offsets=Offsets()) if reset else gone
            )
        case _:
            assert_never(action)


def pins_once_created(pins: Mapping[str, AppliedPin], create: act.Create) -> dict[str, AppliedPin]:
    """The pins of a connector once it is created, with those that count as applied. One that is
    created running moves its offsets, so pins no longer hold them."""
    held = create.initial_state is TargetState.STOPPED
    return {
        pin: replace(applied, held=applied.held and held)
        for pin, applied in {**create.pins, **pins}.items()
    }


def renames_once_created(create: act.Create, now_ms: int = 0) -> dict[str, Renaming]:
    """The renames to a connector once it is created: its own, and no earlier one."""
    old = create.renamed_from
    return {} if old is None else {old: Renaming("begun", now_ms, held=True)}


def pins_once_carried(
    pins: Mapping[str, AppliedPin], pins_of_old: Mapping[str, AppliedPin]
) -> dict[str, AppliedPin]:
    """The pins of a connector once it has the old one's offsets: pins applied there count here."""
    return {**pins_of_old, **pins}


def let_go(recorded: Mapping[str, Record]) -> dict[str, Record]:
    """The pins or renames of a connector once it may run: its offsets move, and nothing holds them
    any more."""
    return {key: replace(each, held=False) for key, each in recorded.items()}


def _recorded(
    state: ConnectorState,
    action: act.PinAction,
    resolved: tuple[OffsetEntry, ...] | None,
) -> ConnectorState:
    applied = AppliedPin(action.pin_hash, resolved, held=action.held)
    return replace(state, pins={**state.pins, action.pin: applied})


def _let_go(state: ConnectorState) -> ConnectorState:
    pins, renames = let_go(state.pins), let_go(state.renames)
    return replace(state, restore_to=None, pins=pins, renames=renames)
