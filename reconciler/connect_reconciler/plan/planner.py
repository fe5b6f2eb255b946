"""Makes the plan: differences, checks, order of actions. Pure: same values, same plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import key_id
from connect_reconciler.plan.checks.ownership import SPECS_DISJOINT, SPECS_EMPTY
from connect_reconciler.plan.checks.register import check_connectors, check_whole
from connect_reconciler.plan.checks.unfinished import UNFINISHED
from connect_reconciler.plan.checks.unsupported import without_put_off
from connect_reconciler.plan.consequences.explain import explained, outside_marked
from connect_reconciler.plan.context import Context, readers_of
from connect_reconciler.plan.diff import ConnectorDiff, diff, with_recorded_renames
from connect_reconciler.plan.order import ordered
from connect_reconciler.plan.scope import ALL, Scope, in_scope
from connect_specs.desired import DeleteLimits, Desired, Overrides
from connect_specs.diagnostics import Diagnostic, Location, by_severity
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
    checked = check_connectors(context)
    allowed = [
        replace(change, pin=None) if change.name in checked.unpinned else change
        for change in diffs
        if change.name not in checked.blocked
    ]
    actions = without_put_off(ordered(allowed, context), narrow)
    of_plan = check_whole(context, actions)
    errors, warnings = by_severity((*of_plan, *checked.diagnostics))
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
    unchanged = _Unchanged(diffs, acting)
    return replace(
        plan,
        places={
            change.name: change.spec.where
            for change in diffs
            # the specs of a rollback are in no file
            if change.spec is not None and change.spec.where.line and change.name in acting
        },
        unchanged=tuple(problem for problem in plan.warnings if unchanged.concerns(problem)),
    )


class _Unchanged:
    """Places in specs, and names of connectors, that the plan does not touch."""

    def __init__(self, diffs: tuple[ConnectorDiff, ...], acting: set[str]) -> None:
        self._touched: set[Location | str] = set()
        self._places: set[Location | str] = set()
        for change in diffs:
            self._places |= {change.name, *_places(change)}
            if change.name in acting:
                self._touched |= {change.name, *_touched(change)}

    def concerns(self, warning: Diagnostic) -> bool:
        """Returns True if the warning concerns none of the changes."""
        if warning.code == UNFINISHED:
            return False
        return warning.where in self._places and warning.where not in self._touched


def _places(change: ConnectorDiff) -> Iterator[Location]:
    spec = change.spec
    if spec is None:
        return
    yield spec.where
    yield from spec.key_locations.values()
    yield from (place for place in (_pin_place(change), spec.renamed_from_where) if place)


def _touched(change: ConnectorDiff) -> Iterator[Location]:
    """Yields the spec's place and those of keys that change. A warning at the class concerns all
    keys: a warning about a missing key has its place."""
    spec = change.spec
    if spec is None:
        return
    if change.existence == "create":
        yield from _places(change)
        return
    keys = {field.key for field in (*change.config, *change.moved)}
    yield spec.where
    yield from (
        place
        for key, place in spec.key_locations.items()
        if key in keys or (keys and key == CLASS_KEY)
    )
    yield from (place for place in (_pin_place(change), spec.renamed_from_where) if place)


def _pin_place(change: ConnectorDiff) -> Location | None:
    pin = None if change.spec is None else change.spec.pin
    return None if pin is None else pin.where
