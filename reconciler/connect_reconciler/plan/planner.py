"""Makes the plan: what differs, what forbids it, in which order. Pure: same values, same plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from connect_reconciler.plan.scope import Scope, narrowed
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
    scope: Scope | None = None,
    env: str | None = None,
    deletes: DeleteLimits = _ANY_NUMBER,
    overrides: Overrides | None = None,
) -> Plan:
    """What an apply would do, with every error and warning.

    `worker` holds the worker's properties, as far as they are known: they can name a sink's group
    and say where it begins. A plan with errors shows what it can, and is never applied. `scope`
    leaves connectors out; None leaves out none. Raises Invalid for one that matches nothing. `env`
    is the environment whose values the specs were read with. `deletes` says how much the plan may
    delete; that all is deleted is a warning where it is allowed. `overrides` says what else is
    allowed in spite of a check; None: all of it.
    """
    desired = with_recorded_renames(desired, live)
    part, narrow = narrowed(desired, live, scope or Scope())
    known = worker or {}
    changes = tuple(
        outside_marked(
            explained(each, narrow, known, desired.consequences), narrow, desired.project
        )
        for each in diff(part, narrow)
    )
    context = Context(
        desired=desired,
        whole=live,
        live=narrow,
        changes={each.name: each for each in changes},
        worker=known,
        readers=readers_of(changes, narrow, known),
        group_id=group_id,
        env=env,
        deletes=deletes,
        overrides=overrides,
    )
    checked = check_connectors(context)
    allowed = [
        replace(each, pin=None) if each.name in checked.unpinned else each
        for each in changes
        if each.name not in checked.blocked
    ]
    actions = without_put_off(ordered(allowed, context), narrow)
    of_plan = check_whole(context, actions)
    errors, warnings = by_severity((*of_plan, *checked.diagnostics))
    removed = any(each.code in (SPECS_EMPTY, SPECS_DISJOINT) for each in of_plan)
    made = Plan(
        project=desired.project,
        group_id=group_id,
        cluster_id=narrow.cluster_id,
        observed_ms=narrow.now_ms,
        actions=actions,
        warnings=(
            *(each for each in desired.warnings if not removed or each.code != NO_SPECS),
            *narrow.warnings,
            *warnings,
        ),
        errors=(*narrow.errors, *errors),
        key_id=key_id(narrow.ledger.fingerprint_key),
        env=env,
    )
    return attributed(made, changes)


def attributed(plan: Plan, changes: Iterable[ConnectorDiff]) -> Plan:
    """The plan with the places of its connectors' specs, and the warnings about unchanged parts."""
    found = tuple(changes)
    acting = {action.group for action in plan.actions}
    quiet = _Unchanged(found, acting)
    return replace(
        plan,
        places={
            each.name: each.spec.where
            for each in found
            # the specs of a rollback are in no file
            if each.spec is not None and each.spec.where.line and each.name in acting
        },
        unchanged=tuple(each for each in plan.warnings if quiet.holds(each)),
    )


class _Unchanged:
    """Places in specs and names of connectors that the plan does not touch."""

    def __init__(self, changes: tuple[ConnectorDiff, ...], acting: set[str]) -> None:
        self._touched: set[Location | str] = set()
        self._known: set[Location | str] = set()
        for each in changes:
            self._known |= {each.name, *_places(each)}
            if each.name in acting:
                self._touched |= {each.name, *_touched(each)}

    def holds(self, warning: Diagnostic) -> bool:
        """Whether the warning concerns none of the changes."""
        if warning.code == UNFINISHED:
            return False
        return warning.where in self._known and warning.where not in self._touched


def _places(changes: ConnectorDiff) -> Iterator[Location]:
    spec = changes.spec
    if spec is None:
        return
    yield spec.where
    yield from spec.key_locations.values()
    yield from (where for where in (_pin_place(changes), spec.renamed_from_where) if where)


def _touched(changes: ConnectorDiff) -> Iterator[Location]:
    """The spec as a whole, and the keys that change. A warning at the class concerns all keys: one
    about a missing key is there, too."""
    spec = changes.spec
    if spec is None:
        return
    if changes.existence == "create":
        yield from _places(changes)
        return
    keys = {each.key for each in (*changes.config, *changes.moved)}
    yield spec.where
    yield from (
        where
        for key, where in spec.key_locations.items()
        if key in keys or (keys and key == CLASS_KEY)
    )
    yield from (where for where in (_pin_place(changes), spec.renamed_from_where) if where)


def _pin_place(changes: ConnectorDiff) -> Location | None:
    pin = None if changes.spec is None else changes.spec.pin
    return None if pin is None else pin.where
