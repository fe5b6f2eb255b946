"""Makes the plan: differences, checks, order of actions. Pure: same values, same plan.

R6 stops come before starts: a replication slot, server id or group can have one owner only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from connect_reconciler import actions as act
from connect_reconciler.actions.connector_state import States
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import key_id
from connect_reconciler.plan.action_builder import ActionBuilder
from connect_reconciler.plan.checks.ownership import SPECS_DISJOINT, SPECS_EMPTY
from connect_reconciler.plan.checks.register import check_connectors, check_whole
from connect_reconciler.plan.checks.unfinished import UNFINISHED
from connect_reconciler.plan.checks.unsupported import without_put_off
from connect_reconciler.plan.consequences.explain import explained, outside_marked
from connect_reconciler.plan.diff import (
    ConnectorDiff,
    Context,
    diff,
    readers_of,
    with_recorded_renames,
)
from connect_reconciler.plan.remaining import states_before
from connect_reconciler.plan.rename_builder import RenameBuilder
from connect_reconciler.plan.scope import ALL, Scope, in_scope
from connect_specs.desired import DeleteLimits, Desired, Overrides, content_hash
from connect_specs.diagnostics import Location, by_severity
from connect_specs.loader import NO_SPECS
from connect_specs.plugin_definitions import CLASS_KEY

_ANY_NUMBER = DeleteLimits(allow_empty=True)


def make_plan(
    desired: Desired,
    live: Live,
    *,
    group_id: str,
    worker: Mapping[str, str] | None = None,
    scope: Scope = ALL,
    env: str | None = None,
    deletes: DeleteLimits = _ANY_NUMBER,
    overrides: Overrides | None = None,
) -> Plan:
    """Returns what an apply would do, with every error and warning.

    `worker` holds the worker's properties, as far as they are known: they can name a sink's group
    and say where it begins. A plan with errors shows what it can, and is never applied. `env` is
    the environment whose values the specs were read with. `deletes` limits how much the plan may
    delete; that all is deleted is a warning where it is allowed. `overrides` are exceptions to
    checks; None: to all. Raises Invalid for a scope with a glob that matches nothing.
    """
    desired = with_recorded_renames(desired, live)
    specs, narrow = in_scope(desired, live, scope)
    properties = worker or {}
    diffs = tuple(
        outside_marked(
            explained(change, narrow, properties, desired.consequences), narrow, desired.project
        )
        for change in diff(specs, narrow)
    )
    context = Context(
        desired=desired,
        whole=live,
        live=narrow,
        changes={change.name: change for change in diffs},
        worker=properties,
        readers=readers_of(diffs, narrow, properties),
        group_id=group_id,
        env=env,
        deletes=deletes,
        overrides=overrides,
    )
    allowed, of_connectors = check_connectors(context)
    actions = without_put_off(ordered(allowed, context), narrow)
    of_plan = check_whole(context, actions)
    errors, warnings = by_severity((*of_plan, *of_connectors))
    removed = any(problem.code in (SPECS_EMPTY, SPECS_DISJOINT) for problem in of_plan)
    plan = Plan(
        project=desired.project,
        group_id=group_id,
        cluster_id=narrow.cluster_id,
        observed_ms=narrow.now_ms,
        actions=actions,
        warnings=(
            *(problem for problem in desired.warnings if not removed or problem.code != NO_SPECS),
            *narrow.warnings,
            *warnings,
        ),
        errors=(*narrow.errors, *errors),
        key_id=key_id(narrow.ledger.fingerprint_key),
        env=env,
    )
    return with_locations(plan, diffs)


def with_locations(plan: Plan, diffs: tuple[ConnectorDiff, ...]) -> Plan:
    """Returns the plan with the places of its connectors' specs, and the warnings that concern what
    it does not change."""
    acting = {action.group for action in plan.actions}
    untouched = {place for change in diffs for place in _places(change)}
    untouched -= {
        place
        for change in diffs
        if change.name in acting
        for place in _places(change, _changed_keys(change))
    }
    return replace(
        plan,
        places={
            change.name: change.spec.where
            for change in diffs
            # the specs of a rollback are in no file
            if change.spec is not None and change.spec.where.line and change.name in acting
        },
        unchanged=tuple(
            problem
            for problem in plan.warnings
            if problem.code != UNFINISHED and problem.where in untouched
        ),
    )


def _places(diff: ConnectorDiff, keys: Collection[str] | None = None) -> Iterator[Location | str]:
    """Yields the connector's name, and the places of its spec, its pin, its rename and these keys;
    None: of all keys."""
    yield diff.name
    if diff.spec is not None:
        yield from (diff.place, diff.rename_place, diff.pin_place)
        places = diff.spec.key_locations.items()
        yield from (place for key, place in places if keys is None or key in keys)


def _changed_keys(diff: ConnectorDiff) -> set[str] | None:
    """Returns the keys that change; None: all. A warning at the class concerns any key: that of a
    missing key has its place."""
    if diff.existence == "create":
        return None
    keys = {field.key for field in (*diff.config, *diff.moved)}
    return keys | {CLASS_KEY} if keys else keys


# --- order, and preconditions ---


def ordered(diffs: Iterable[ConnectorDiff], context: Context) -> tuple[act.Action, ...]:
    """Returns the actions of all connectors, grouped by connector, with their preconditions."""
    groups = [(diff.name, _with_preconditions(diff, context)) for diff in diffs]
    groups.sort(key=lambda group: (rank(group[1]), group[0]))
    return tuple(action for _, actions in groups for action in actions)


def rank(actions: tuple[act.Action, ...]) -> int:
    """Returns the place of a connector's actions by R6, within which names decide, and an apply
    takes several connectors at a time.

    Deleting first loses nothing: offsets outlive a connector. A rename ends in a delete, and is
    none.
    """
    if any(isinstance(action, act.Delete | act.Forget) and not action.holds for action in actions):
        return 0
    if actions and isinstance(actions[0], act.Create):
        return 3
    if any(isinstance(action, act.Stop) and not action.holds for action in actions):
        return 1
    return 1 if any(isinstance(action, act.Pause) for action in actions) else 2


def _with_preconditions(diff: ConnectorDiff, context: Context) -> tuple[act.Action, ...]:
    builder = ActionBuilder(diff, context)
    if diff.rename is not None:
        builder = RenameBuilder(diff, context, diff.rename)
    steps = tuple(builder.steps())
    states = _states_before(steps, diff, context)
    actions: list[act.Action] = []
    for step in steps:
        action = replace(step, requires=tuple(step.preconditions(states)))
        actions.append(action)
        states = action.predict(states)
    return tuple(actions)


def _states_before(steps: tuple[act.Action, ...], diff: ConnectorDiff, context: Context) -> States:
    """Returns the group's connectors as they were observed, with the parts of the spec that
    preconditions name."""
    pin = diff.spec.pin if diff.spec else None
    observed = states_before(steps, context.live, project=context.desired.project)
    return {
        name: replace(
            state,
            sensitive=diff.redactor.named,
            spec_pin=None if pin is None else (pin.id, content_hash(pin)),
            renamed_from=None if diff.rename is None else diff.rename.old,
        )
        for name, state in observed.items()
    }
