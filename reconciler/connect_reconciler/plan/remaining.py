"""Compares a plan that was agreed with the cluster, and with the plan that specs and cluster give
now. Pure.

A plan is agreed when a user confirms it or approves its file. Nothing in a file is trusted, because
anybody can write one: the plan is made again for the same connectors, and carried out if it does
the same. The offsets that a pin's `to` stands for are not compared: they are read when its sink is
stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby

from connect_reconciler import actions as act
from connect_reconciler.actions.connector_state import States, changed, state_of
from connect_reconciler.actions.plan import Plan, grouped
from connect_reconciler.actions.preconditions import Exists, OfConnector, check
from connect_reconciler.model.config_values import Plain, Secret, Value, without_reserved
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import same_offset
from connect_reconciler.model.secrets import fingerprint, key_id, reveal
from connect_reconciler.plan.diff import base_config, written_config
from connect_reconciler.plan.scope import Scope
from connect_specs.desired import Desired, Offset, PartitionKey, Project, partition_key
from connect_specs.diagnostics import Diagnostic, Invalid, Stale

_HINT = (
    "give the --env and --var that it was planned with,"
    " or plan again from these specs and have that plan approved"
)
_REST_HINT = "`connect plan` shows what is left to do, and `connect apply` without a file does it"


def remaining(agreed: Plan, current: Plan, live: Live, *, partly_done: bool = False) -> Plan:
    """Returns what remains of the agreed plan: `current`, the plan as it is made now.

    Raises Stale unless `current` does the same to every connector. If the plan may be
    `partly_done`, it is enough that `current` does some of each connector's actions, in the same
    order, changes no value that was not agreed, and relies on the same configs. A plan with errors
    is returned unchecked: it is shown, and never applied.
    """
    if current.errors:
        return current
    checks = (_other_actions, _other_values, _other_configs) if partly_done else (_differences,)
    for find_problems in checks:
        if problems := tuple(find_problems(agreed, current, live)):
            raise Stale(*problems)
    return replace(current, saved_as=agreed.saved_as)


def ensure_fresh(plan: Plan, desired: Desired, project: Project, live: Live) -> None:
    """Raises Invalid for a plan with errors, Stale where something that it relies on changed."""
    if plan.errors:
        raise Invalid(*plan.errors)
    if (plan.project, plan.group_id) != (project.name, project.group_id):
        problem = f"the plan is for project {plan.project} on {plan.group_id}"
        raise Stale(Diagnostic("stale.project", problem, f"{project.name} on {project.group_id}"))
    if plan.env != project.env:
        problem = f"the plan is for {_environment(plan.env)}"
        hint = "apply it without --env" if plan.env is None else f"apply it with --env {plan.env}"
        raise Stale(Diagnostic("stale.environment", problem, _environment(project.env), hint=hint))
    if problems := check_plan(plan, live):
        raise Stale(*problems)
    reveal_configs(plan, desired, live)


def reveal_configs(plan: Plan, desired: Desired, live: Live) -> dict[str, dict[str, str]]:
    """Returns the config of each connector whose config the plan writes, with secrets.

    A plan holds fingerprints only, so the values are read from the specs again. Raises Stale with
    all values that are not those that were planned.
    """
    configs: dict[str, dict[str, str]] = {}
    problems: list[Diagnostic] = []
    for action in plan.actions:
        if not isinstance(action, act.ConfigAction):
            continue
        name, key = action.connector, live.ledger.fingerprint_key
        texts = _texts(action, desired, live, key)
        try:
            configs[name] = reveal(action.config, texts, connector=name, key=key)
        except Stale as error:
            problems.extend(error.diagnostics)
    if problems:
        raise Stale(*problems)
    return configs


def scope_of(agreed: Plan, desired: Desired, live: Live) -> Scope:
    """Returns the plan's connectors. Raises Stale for connectors that are not the project's."""
    names = tuple(dict.fromkeys(action.group for action in agreed.actions))
    owned = live.ledger.owned_by(desired.project)
    strangers = [name for name in names if name not in desired.connectors and name not in owned]
    if strangers:
        problem = "the plan changes it, and neither a spec nor the ledger has it in this project"
        raise Stale(*(Diagnostic("stale.specs", problem, name, hint=_HINT) for name in strangers))
    return Scope.exactly(names)


def applicable_actions(agreed: Plan, desired: Desired, live: Live) -> tuple[act.Action, ...]:
    """Returns the plan's actions without those on connectors that neither specs nor ledger have:
    these were deleted."""
    names = desired.connectors.keys() | live.ledger.connectors.keys()
    return tuple(action for action in agreed.actions if action.group in names)


def _environment(env: str | None) -> str:
    return "no environment" if env is None else f"environment {env}"


def _texts(
    action: act.ConfigAction, desired: Desired, live: Live, key: bytes | None
) -> Mapping[str, str]:
    """Returns the spec's values. A rollback plan may keep a secret that only the cluster has."""
    name = action.connector
    spec, connector = desired.connectors.get(name), live.connectors.get(name)
    stored = {} if connector is None else without_reserved(connector.config)
    if spec is None:
        return stored
    unchanged = {
        config_key: stored[config_key]
        for config_key, value in action.config.items()
        if isinstance(value, Secret)
        and value.fingerprint
        and config_key in stored
        and fingerprint(key, name, config_key, stored[config_key]) == value.fingerprint
    }
    return {**written_config(spec, base_config(spec, live)), **unchanged}


# --- a plan that is stale: the same preconditions judge the live state before the first action, the
# state that the plan predicts before each later one, and what an apply reads just then ---


def states_before(actions: Iterable[act.Action], live: Live, *, project: str) -> States:
    """Returns the connectors of a group of actions as they were observed."""
    names = sorted(frozenset[str]().union(*(action.names for action in actions)))
    return {name: state_of(name, live, project=project) for name in names}


def unmet(action: act.Action, states: States) -> tuple[Diagnostic, ...]:
    """Returns why preconditions of an action do not hold in these states."""
    problems = (check(condition, states, action.connector) for condition in action.requires)
    return tuple(problem for problem in problems if problem is not None)


def unmet_configs(action: act.Action, states: States) -> Iterator[Diagnostic]:
    """Yields problems with the configs that an action relies on, of connectors that are there."""
    for precondition in action.requires:
        name, condition = action.connector, precondition
        if isinstance(precondition, OfConnector):
            name, condition = precondition.connector, precondition.condition
        state = states.get(name)
        if not isinstance(condition, Exists) or state is None or state.config is None:
            continue
        problem = check(condition, states, name)
        if problem is not None:
            yield problem


def check_plan(plan: Plan, live: Live) -> tuple[Diagnostic, ...]:
    """Returns why the plan is stale on this cluster; nothing if all that it relies on holds.

    Each precondition is checked where its action comes, on what the plan predicts from `live`.
    """
    if plan.cluster_id != live.cluster_id:
        text = f"the plan is for the Kafka cluster {plan.cluster_id}, and this is {live.cluster_id}"
        return (Diagnostic("stale.cluster", text),)
    if plan.key_id != key_id(live.ledger.fingerprint_key):
        text = "the plan's fingerprints were made with another key"
        if not plan.key_id:
            text = "the plan was made when the project had no key for fingerprints of secrets yet"
        hint = "make the plan again, with the same CONNECT_FINGERPRINT_KEY if you set one"
        return (Diagnostic("stale.key", text, hint=hint),)
    problems: list[Diagnostic] = []
    for actions in grouped(plan):
        states = states_before(actions, live, project=plan.project)
        states = changed(states, actions[0].group, relied_on=_config_before(actions))
        for action in actions:
            broken = unmet(action, states)
            problems.extend(broken)
            if broken:
                # Whatever follows relies on this action, and would only repeat its problem
                break
            states = action.predict(states)
    return tuple(problems)


def _config_before(actions: Iterable[act.Action]) -> Mapping[str, Value] | None:
    """Returns the config that a connector has before these actions, if one of them changes it."""
    for action in actions:
        if isinstance(action, act.UpdateConfig):
            replaced = {change.key: change.old for change in action.changes}
            config = {**action.config, **replaced}
            return {key: value for key, value in config.items() if value is not None}
    return None


# --- a plan of which nothing was done ---


def _differences(agreed: Plan, current: Plan, live: Live) -> Iterator[Diagnostic]:
    """Yields connectors to which the plans do not do the same."""
    source, hint = "the specs", _HINT
    if agreed.rolls_back is not None:
        source, hint = "the ledger", "make the plan again"
    agreed_actions, actions = _effective_actions(agreed), _effective_actions(current)
    for name in dict.fromkeys((*agreed_actions, *actions)):
        difference = _difference(
            agreed_actions.get(name, ()), actions.get(name, ()), live.ledger.fingerprint_key
        )
        if difference:
            problem = f"{source} and the cluster do not give this plan: {difference}"
            yield Diagnostic("stale.specs", problem, name, hint=hint)


def _difference(
    agreed: tuple[act.Action, ...], current: tuple[act.Action, ...], key: bytes | None
) -> str:
    """Returns how one connector's actions differ; empty if they do not."""
    if [*map(type, agreed)] != [*map(type, current)]:
        return f"they give `{_verbs(current)}`, and it does `{_verbs(agreed)}`"
    for agreed_action, action in zip(agreed, current, strict=True):
        if differing := list(_differing_fields(agreed_action, action, key)):
            return f"in `{_verbs((agreed_action,))}` it has another {', '.join(differing)}"
    return ""


# --- a plan of which a part was done ---


def _other_actions(agreed: Plan, current: Plan, live: Live) -> Iterator[Diagnostic]:
    """Yields connectors whose actions are not among the agreed ones, in their order."""
    agreed_actions, key = _effective_actions(agreed), live.ledger.fingerprint_key
    for name, actions in _effective_actions(current).items():
        planned = agreed_actions.get(name, ())
        candidates = iter(planned)
        if not all(
            any(_is_left_of(step, action, key) for step in candidates) for action in actions
        ):
            problem = (
                "what is to be done is not what is left of this plan, of which a part was done:"
                f" it is `{_verbs(actions)}`, and the plan does `{_verbs(planned)}`"
            )
            yield Diagnostic("stale.specs", problem, name, hint=_REST_HINT)


def _other_values(agreed: Plan, current: Plan, live: Live) -> Iterator[Diagnostic]:
    """Yields connectors with config keys that are changed to or from values that were not agreed:
    the config was changed since, and the user has not seen that this is overwritten."""
    updates = {
        action.connector: action
        for action in agreed.actions
        if isinstance(action, act.UpdateConfig)
    }
    for action in current.actions:
        if not isinstance(action, act.UpdateConfig):
            continue
        update = updates.get(action.connector)
        changes = {} if update is None else {change.key: change for change in update.changes}
        keys = [
            change.key
            for change in action.changes
            if (planned := changes.get(change.key)) is None
            or not _is_same_value(planned.old, change.old)
            or not _is_same_value(planned.new, change.new)
        ]
        if keys:
            problem = f"its config was changed since the plan was shown: {', '.join(keys)}"
            yield Diagnostic("stale.config", problem, action.connector)


def _other_configs(agreed: Plan, current: Plan, live: Live) -> Iterator[Diagnostic]:
    """Yields configs that are not those that the agreed plan relied on for the actions left."""
    key = live.ledger.fingerprint_key
    for actions in grouped(current):
        group = actions[0].group
        candidates = iter([action for action in agreed.actions if action.group == group])
        states = states_before(actions, live, project=current.project)
        if not agreed.key_id:
            # Its first apply made the key
            states = {name: replace(state, key=None) for name, state in states.items()}
        for action in actions:
            effective = _effective_fields(action)
            planned = next(
                (
                    step
                    for step in candidates
                    if _is_left_of(_effective_fields(step), effective, key)
                ),
                None,
            )
            # A connector that is only to be forgotten is gone already
            if planned is not None and type(planned) is type(action):
                problems = tuple(unmet_configs(planned, states))
                yield from problems
                if problems:
                    break
            states = action.predict(states)


def _is_left_of(agreed: act.Action, action: act.Action, key: bytes | None) -> bool:
    """Returns True if `action` does what was agreed, or the part that a killed apply did not do."""
    if isinstance(action, act.Forget):
        # The delete of a rename is that of the other name
        deleted = isinstance(agreed, act.Delete | act.Forget)
        return deleted and agreed.connector == action.connector
    if type(agreed) is not type(action):
        return False
    if isinstance(agreed, act.Stop) and isinstance(action, act.Stop) and action.renamed_to:
        return agreed.connector == action.connector
    if isinstance(agreed, act.Delete) and isinstance(action, act.Delete):
        resets = agreed.reset_offsets or not action.reset_offsets
        return agreed.connector == action.connector and resets
    return not list(_differing_fields(agreed, _without_first_key(agreed, action), key))


def _without_first_key(agreed: act.Action, action: act.Action) -> act.Action:
    """Returns `action` without fingerprints where the agreed one has none: its apply made the
    project's first key."""
    if not isinstance(agreed, act.ConfigAction) or not isinstance(action, act.ConfigAction):
        return action
    config = {
        key: value
        for key, value in agreed.config.items()
        if value == Secret("") and isinstance(action.config.get(key), Secret)
    }
    return replace(action, config={**action.config, **config})


def _is_same_value(agreed: Value | None, value: Value | None) -> bool:
    """Returns True if both are the same. A secret from before the project had a key may be any."""
    if isinstance(agreed, Secret) and isinstance(value, Secret) and not agreed.fingerprint:
        return True
    return agreed == value


# --- actions by what they do ---


def _effective_actions(plan: Plan) -> dict[str, tuple[act.Action, ...]]:
    """Returns each connector's actions, reduced to what they do. Restarts are left out: connectors
    fail and recover all the time."""
    lasting = (action for action in plan.actions if not isinstance(action, act.Restart))
    by_connector: dict[str, tuple[act.Action, ...]] = {}
    for name, actions in groupby(lasting, key=lambda action: action.group):
        by_connector[name] = (*by_connector.get(name, ()), *map(_effective_fields, actions))
    return by_connector


def _effective_fields(action: act.Action) -> act.Action:
    """Returns the action without fields that only explain it."""
    bare = replace(action, reason="", reason_code=None, effects=(), requires=())
    if isinstance(bare, act.UpdateConfig):
        return replace(bare, changes=())
    if isinstance(bare, act.Create) and bare.changes is not None:
        return replace(bare, changes=tuple(replace(change, effects=()) for change in bare.changes))
    if isinstance(bare, act.ResetOffsets | act.CopyOffsets):
        return replace(bare, moves=())
    if isinstance(bare, act.AlterOffsets):
        entries = sorted((m.entry for m in bare.moves), key=lambda e: partition_key(e.partition))
        return replace(bare, moves=tuple(act.OffsetMove(entry, None) for entry in entries))
    return bare


def _differing_fields(agreed: act.Action, action: act.Action, key: bytes | None) -> Iterator[str]:
    if isinstance(agreed, act.AlterOffsets) and isinstance(action, act.AlterOffsets):
        # The hash tells one `to` from another; older files do not hold it
        to, moves = action.to, action.moves
        agreed = agreed if to is None else replace(agreed, to=to, moves=moves)
    for field in fields(agreed):
        agreed_value, value = getattr(agreed, field.name), getattr(action, field.name)
        if field.name == "config":
            yield from _differing_keys(agreed.connector, agreed_value, value, key)
        elif field.name == "moves":
            yield from _differing_partitions(agreed_value, value)
        elif agreed_value != value:
            yield field.name.replace("_", " ")


def _differing_keys(
    name: str, agreed: Mapping[str, Value], config: Mapping[str, Value], key: bytes | None
) -> Iterator[str]:
    for config_key in sorted(agreed.keys() | config.keys()):
        agreed_value, value = agreed.get(config_key), config.get(config_key)
        # The plan may be from before it was known that this is a secret
        match agreed_value, value:
            case (Plain(text=text), Secret(fingerprint=mark)) | (
                Secret(fingerprint=mark),
                Plain(text=text),
            ):
                is_same = bool(mark) and fingerprint(key, name, config_key, text) == mark
            case _:
                is_same = agreed_value == value
        if not is_same:
            yield config_key


def _differing_partitions(
    agreed: tuple[act.OffsetMove, ...], moves: tuple[act.OffsetMove, ...]
) -> Iterator[str]:
    agreed_offsets, offsets = _offsets(agreed), _offsets(moves)
    for partition in sorted(agreed_offsets.keys() | offsets.keys()):
        in_both = partition in agreed_offsets and partition in offsets
        if not in_both or not same_offset(agreed_offsets[partition], offsets[partition]):
            yield f"offset of {partition}"


def _offsets(moves: tuple[act.OffsetMove, ...]) -> dict[PartitionKey, Offset | None]:
    return {partition_key(move.entry.partition): move.entry.offset for move in moves}


def _verbs(actions: tuple[act.Action, ...]) -> str:
    return ", ".join(action.imperative for action in actions) or "nothing"
