"""Verifies that a saved plan is what the specs give on this cluster now. Pure.

Anybody can write a plan file, so nothing in it is trusted: the plan is computed again from the
specs and the cluster, for the same connectors, and applied if it does the same. Where a pin's `to`
leads is no part of that: it is read when its sink is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby

from connect_reconciler import actions as act
from connect_reconciler.actions.plan import Plan, grouped
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import (
    same_offset,
)
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.scope import Scope
from connect_reconciler.plan.staleness import states_before, unmet_configs
from connect_specs.desired import (
    DeleteLimits,
    Desired,
    Offset,
    Overrides,
    PartitionKey,
    partition_key,
)
from connect_specs.diagnostics import Diagnostic, Stale

_HINT = (
    "give the --env and --var that it was planned with,"
    " or plan again from these specs and have that plan approved"
)
_REST_HINT = "`connect plan` shows what is left to do, and `connect apply` without a file does it"


def scope_of_saved(saved: Plan, desired: Desired, live: Live) -> Scope:
    """The plan's connectors. Raises Stale for one that does not belong to the project."""
    names = tuple(dict.fromkeys(action.group for action in saved.actions))
    owned = live.ledger.owned_by(desired.project)
    strangers = [name for name in names if name not in desired.connectors and name not in owned]
    if strangers:
        what = "the plan changes it, and neither a spec nor the ledger has it in this project"
        raise Stale(*(Diagnostic("stale.specs", what, name, hint=_HINT) for name in strangers))
    return Scope.exactly(names)


def planned_again(
    saved: Plan,
    desired: Desired,
    live: Live,
    worker: Mapping[str, str] | None = None,
    agrees: Callable[[Plan, Plan, Live], None] | None = None,
    deletes: DeleteLimits | None = None,
    overrides: Overrides | None = None,
) -> Plan:
    """The plan that the specs give for the saved plan's connectors; it may have errors.

    `deletes` limits how much it may delete now; None: no limit. `overrides` are those of
    `make_plan`. Raises Stale where it differs from the saved plan, by `agrees`: `ensure_same`, or
    `ensure_rest` for a plan whose apply ended early.
    """
    if not saved.actions:
        return replace(saved, warnings=())
    scope = scope_of_saved(saved, desired, live)

    plan = make_plan(
        desired,
        live,
        group_id=saved.group_id,
        worker=worker,
        scope=scope,
        env=saved.env,
        deletes=deletes or DeleteLimits(allow_empty=True),
        overrides=overrides,
    )
    # The saved plan says which connectors it is about: no warning of a targeted plan
    now = plan.untargeted()
    if not now.errors:
        (agrees or ensure_same)(saved, now, live)
    return now


def ensure_same(saved: Plan, now: Plan, live: Live) -> None:
    """Raises Stale unless both plans do the same to every connector."""
    source, hint = "the specs", _HINT
    if saved.rolls_back is not None:
        source, hint = "the ledger", "make the plan again"
    then, found = _groups(saved), _groups(now)
    problems = []
    for name in dict.fromkeys((*then, *found)):
        actions = then.get(name, ()), found.get(name, ())
        difference = _difference(*actions, live.ledger.fingerprint_key)
        if difference:
            what = f"{source} and the cluster do not give this plan: {difference}"
            problems.append(Diagnostic("stale.specs", what, name, hint=hint))
    if problems:
        raise Stale(*problems)


def ensure_rest(saved: Plan, now: Plan, live: Live) -> None:
    """Raises Stale unless `now` is what is left of the saved plan: for every connector some of its
    actions, in its order."""
    then, key, problems = _groups(saved), live.ledger.fingerprint_key, []
    for name, actions in _groups(now).items():
        whole = then.get(name, ())
        left = iter(whole)
        if not all(any(_is_left(one, action, key) for one in left) for action in actions):
            what = (
                "what is to be done is not what is left of this plan, of which a part was done:"
                f" it is `{_names(actions)}`, and the plan does `{_names(whole)}`"
            )
            problems.append(Diagnostic("stale.specs", what, name, hint=_REST_HINT))
    if problems:
        raise Stale(*problems)


def ensure_left(saved: Plan, now: Plan, live: Live) -> None:
    """Raises Stale unless `now` is what is left of the saved plan and relies on the same configs:
    what somebody changed since is not overwritten."""
    ensure_rest(saved, now, live)
    ensure_changes_shown(saved, now)
    problems = list(_other_configs(saved, now, live))
    if problems:
        raise Stale(*problems)


def _other_configs(saved: Plan, now: Plan, live: Live) -> Iterator[Diagnostic]:
    """What is wrong with configs that the saved plan relied on for the actions that are left."""
    key = live.ledger.fingerprint_key
    for actions in grouped(now):
        name = actions[0].group
        left = iter([each for each in saved.actions if each.group == name])
        states = states_before(actions, live, project=now.project)
        if not saved.key_id:
            # Its first apply made the key
            states = {each: replace(state, key=None) for each, state in states.items()}
        for action in actions:
            wanted = _essence(action)
            then = next((each for each in left if _is_left(_essence(each), wanted, key)), None)
            # What is only to be forgotten is gone already
            found = list(unmet_configs(then, states)) if type(then) is type(action) else []
            yield from found
            if found:
                break
            states = action.predict(states)


def ensure_changes_shown(shown: Plan, now: Plan) -> None:
    """Raises Stale where `now` changes config keys that `shown` does not, or from other values:
    somebody changed that config since, and the user has not seen that it is overwritten."""
    seen = {each.connector: each for each in shown.actions if isinstance(each, act.UpdateConfig)}
    problems = []
    for action in now.actions:
        if not isinstance(action, act.UpdateConfig):
            continue
        before = seen.get(action.connector)
        then = {} if before is None else {each.key: each for each in before.changes}
        keys = [
            each.key
            for each in action.changes
            if each.key not in then
            or not _same_value(then[each.key].old, each.old)
            or not _same_value(then[each.key].new, each.new)
        ]
        if keys:
            what = f"its config was changed since the plan was shown: {', '.join(keys)}"
            problems.append(Diagnostic("stale.config", what, action.connector))
    if problems:
        raise Stale(*problems)


def _same_value(then: Value | None, now: Value | None) -> bool:
    """Whether both are the same. A secret from before the project had a key may be any secret."""
    if isinstance(then, Secret) and isinstance(now, Secret) and not then.fingerprint:
        return True
    return then == now


def still_known(saved: Plan, desired: Desired, live: Live) -> Plan:
    """The plan without connectors that neither specs nor ledger know: they were deleted."""
    known = desired.connectors.keys() | live.ledger.connectors.keys()
    return replace(saved, actions=tuple(a for a in saved.actions if a.group in known))


def _is_left(then: act.Action, now: act.Action, key: bytes | None) -> bool:
    """Whether `now` does `then`, or the part of it that a killed apply had not done yet."""
    if isinstance(now, act.Forget):
        return isinstance(then, act.Delete | act.Forget)
    if type(then) is not type(now):
        return False
    if isinstance(then, act.Stop) and isinstance(now, act.Stop) and now.renamed_to is not None:
        return then.connector == now.connector
    if isinstance(then, act.Delete) and isinstance(now, act.Delete):
        return then.connector == now.connector and (then.reset_offsets or not now.reset_offsets)
    return not list(_fields(then, _marked_as(then, now), key))


def _marked_as(then: act.Action, now: act.Action) -> act.Action:
    """`now` without fingerprints where `then` has none: its apply created the first key."""
    if not isinstance(then, act.ConfigAction) or not isinstance(now, act.ConfigAction):
        return now
    unmarked = {key: then.config[key] for key in then.config if then.config[key] == Secret("")}
    same = {
        key: value for key, value in unmarked.items() if isinstance(now.config.get(key), Secret)
    }
    return replace(now, config={**now.config, **same})


def _groups(plan: Plan) -> dict[str, tuple[act.Action, ...]]:
    """Each connector's actions, reduced to what they do. Restarts are left out: whether a connector
    has failed changes all the time."""
    lasting = (action for action in plan.actions if not isinstance(action, act.Restart))
    found: dict[str, tuple[act.Action, ...]] = {}
    for name, actions in groupby(lasting, key=lambda action: action.group):
        found[name] = (*found.get(name, ()), *map(_essence, actions))
    return found


def _essence(action: act.Action) -> act.Action:
    """The action without fields that only explain it."""
    bare = replace(action, reason="", reason_code=None, effects=(), requires=())
    if isinstance(bare, act.UpdateConfig):
        return replace(bare, changes=())
    if isinstance(bare, act.Create) and bare.changes is not None:
        return replace(bare, changes=tuple(replace(each, effects=()) for each in bare.changes))
    if isinstance(bare, act.ResetOffsets | act.CopyOffsets):
        return replace(bare, moves=())
    if isinstance(bare, act.AlterOffsets):
        places = sorted((m.entry for m in bare.moves), key=lambda e: partition_key(e.partition))
        return replace(bare, moves=tuple(act.OffsetMove(entry, None) for entry in places))
    return bare


def _difference(
    then: tuple[act.Action, ...], now: tuple[act.Action, ...], key: bytes | None
) -> str:
    """A text on what differs; empty if nothing does."""
    if [*map(type, then)] != [*map(type, now)]:
        return f"they give `{_names(now)}`, and it does `{_names(then)}`"
    for one, other in zip(then, now, strict=True):
        differing = list(_fields(one, other, key))
        if differing:
            return f"in `{_names((one,))}` it has another {', '.join(differing)}"
    return ""


def _fields(then: act.Action, now: act.Action, key: bytes | None) -> Iterator[str]:
    if isinstance(then, act.AlterOffsets) and isinstance(now, act.AlterOffsets):
        # The hash tells one `to` from another; older files do not hold it
        then = then if now.to is None else replace(then, to=now.to, moves=now.moves)
    for each in fields(then):
        one, other = getattr(then, each.name), getattr(now, each.name)
        if each.name == "config":
            yield from _config_keys(then.connector, one, other, key)
        elif each.name == "moves":
            yield from _partitions(one, other)
        elif one != other:
            yield each.name.replace("_", " ")


def _config_keys(
    name: str, then: Mapping[str, Value], now: Mapping[str, Value], key: bytes | None
) -> Iterator[str]:
    for config_key in sorted(then.keys() | now.keys()):
        one, other = then.get(config_key), now.get(config_key)
        # The plan may be from before it was known that this is a secret
        match one, other:
            case (Plain(text=text), Secret(fingerprint=mark)) | (
                Secret(fingerprint=mark),
                Plain(text=text),
            ):
                same = bool(mark) and fingerprint(key, name, config_key, text) == mark
            case _:
                same = one == other
        if not same:
            yield config_key


def _partitions(then: tuple[act.OffsetMove, ...], now: tuple[act.OffsetMove, ...]) -> Iterator[str]:
    one, other = _offsets(then), _offsets(now)
    for partition in sorted(one.keys() | other.keys()):
        there = (partition in one) is (partition in other)
        if not there or not same_offset(one.get(partition), other.get(partition)):
            yield f"offset of {partition}"


def _offsets(moves: tuple[act.OffsetMove, ...]) -> dict[PartitionKey, Offset | None]:
    return {partition_key(each.entry.partition): each.entry.offset for each in moves}


def _names(actions: tuple[act.Action, ...]) -> str:
    return ", ".join(action.imperative for action in actions) or "nothing"
