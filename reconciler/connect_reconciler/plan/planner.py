"""Makes the plan: what differs, what forbids it, in which order. Pure: same values, same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.plan.attribution import attributed
from connect_reconciler.plan.checks.changes import check_changes
from connect_reconciler.plan.checks.deletes import ALLOWED, none_left, too_many
from connect_reconciler.plan.checks.group_readers import readers_of
from connect_reconciler.plan.consequences.explain import explained
from connect_reconciler.plan.diff import diff
from connect_reconciler.plan.limits import check_limits, check_masks, without_put_off
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.order import ordered
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.scope import Scope, narrowed
from connect_reconciler.plan.secrets.sensitive import key_id
from connect_specs.desired import DeleteLimits, Desired
from connect_specs.loader import NO_SPECS

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
) -> Plan:
    """What an apply would do, with every error and warning.

    `worker` holds the worker's properties, as far as they are known: they can name a sink's group
    and say where it begins. A plan with errors shows what it can, and is never applied. `scope`
    leaves connectors out; None leaves out none. Raises Invalid for one that matches nothing. `env`
    is the environment whose values the specs were read with. `deletes` says how much the plan may
    delete; that all is deleted is a warning where it is allowed.
    """
    whole = live
    part, live = narrowed(desired, live, scope or Scope())
    known = worker or {}
    changes = tuple(explained(each, live, known, desired.consequences) for each in diff(part, live))
    readers = readers_of(changes, live, known)
    problems = check_changes(changes, desired, live, known, readers, group_id=group_id, env=env)
    allowed = [
        replace(each, pin=None) if each.name in problems.unpinned else each
        for each in changes
        if each.name not in problems.blocked
    ]
    wanted = ordered(allowed, live, readers, project=desired.project, worker=known)
    actions = without_put_off(wanted, live)
    removed = none_left(changes, desired, whole)
    excess = too_many(actions, deletes)
    made = Plan(
        project=desired.project,
        group_id=group_id,
        cluster_id=live.cluster_id,
        observed_ms=live.now_ms,
        actions=actions,
        warnings=(
            *(each for each in desired.warnings if removed is None or each.code != NO_SPECS),
            *live.warnings,
            *check_limits(changes, live),
            *((replace(removed, hint=ALLOWED),) if removed and deletes.allow_empty else ()),
            *problems.warnings,
        ),
        errors=(
            *live.errors,
            *check_masks(changes),
            *((removed,) if removed and not deletes.allow_empty else ()),
            *((excess,) if excess is not None else ()),
            *problems.errors,
        ),
        key_id=key_id(live.ledger.fingerprint_key),
        env=env,
    )
    return attributed(made, changes)
