"""A saved plan on its way to an apply: read, held against the cluster, and made anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from connect_specs.diagnostics import Diagnostic, Invalid, Stale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from connect_reconciler.ledger.journal import Journal
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.policies.policy import Policy
    from connect_specs.desired import Desired, Project


def planned_as_saved(
    saved: Plan,
    project: Project,
    desired: Desired,
    policies: tuple[Policy, ...],
    properties: Mapping[str, str],
) -> tuple[Plan, Live]:
    """The plan to apply, judged by the policies of now, and the cluster that it was made for.

    Of a plan that an apply of ours began and did not end, what is left. Raises Stale where the
    cluster moved otherwise, or where the specs do not give the saved plan; Invalid for secrets
    without fingerprints, but in the first apply of all on this cluster.
    """
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.plan_output import ensure_secrets_can_be_told_apart
    from connect_reconciler.cli.planning import judged
    from connect_reconciler.observe.observe import observe
    from connect_reconciler.plan.agreement import ensure_rest, ensure_same, still_known
    from connect_reconciler.plan.target import target_of

    if saved.rolls_back is not None:
        what = f"this plan leads back from apply {saved.rolls_back}: no specs give it"
        hint = f"`connect rollback {saved.rolls_back} FILE` applies it"
        raise Invalid(Diagnostic("apply.rolls-back", what, hint=hint))
    live = observe(project, desired, properties)
    begun = None
    try:
        # First what it relies on: that says best what moved
        ensure_fresh(saved, desired, project, live)
        again, live = _made_again(saved, project, desired, live, properties, ensure_same)
    except Stale:
        begun = begun_by(saved, project, properties)
        if begun is None:
            raise
        ensure_fresh(without_actions(saved, live), desired, project, live)
        rest = still_known(saved, desired, live)
        again, live = _made_again(rest, project, desired, live, properties, ensure_rest)
    if begun is None:
        ensure_secrets_can_be_told_apart(saved, live)
    made = replace(as_saved(again, saved, begun), target=target_of(project))
    return judged(made, policies, live), live


def begun_by(saved: Plan, project: Project, properties: Mapping[str, str]) -> Journal | None:
    """The project's newest apply, if it carried out this very plan and did not end it."""
    from connect_reconciler.observe.ledger import ledger_seen
    from connect_reconciler.plan.plan_file.file import plan_hash

    if not properties:
        return None
    return ledger_seen(project, properties).begun(project.name, plan_hash(saved))


def without_actions(saved: Plan, live: Live) -> Plan:
    """The plan with what it relies on besides its actions. An apply may have made the project's
    first key since."""
    from connect_reconciler.plan.secrets.sensitive import key_id

    known = saved.key_id or key_id(live.ledger.fingerprint_key)
    return replace(saved, actions=(), key_id=known)


def as_saved(again: Plan, saved: Plan, begun: Journal | None) -> Plan:
    """The plan that was made anew, as the one in the file, or as what is left of it."""
    from connect_reconciler.plan.plan_file.file import plan_hash

    again = replace(again, saved_as=plan_hash(saved))
    if begun is None:
        return again
    left, whole = len(again.actions), len(saved.actions)
    what = f"apply {begun.id} did not end this plan: {left} of its {whole} actions are left to do"
    return replace(again, warnings=(Diagnostic("apply.goes-on", what), *again.warnings))


def _made_again(
    saved: Plan,
    project: Project,
    desired: Desired,
    live: Live,
    properties: Mapping[str, str],
    agrees: Callable[[Plan, Plan, Live], None],
) -> tuple[Plan, Live]:
    """What the specs give for the plan's connectors. Raises Stale."""
    from connect_reconciler.observe.validity import checked
    from connect_reconciler.plan.agreement import planned_again, scope_of_saved
    from connect_reconciler.plan.scope import narrowed

    if saved.actions:
        part = narrowed(desired, live, scope_of_saved(saved, desired, live))[0]
        live = checked(live, project, part, properties)
    again = planned_again(saved, desired, live, project.worker, agrees, project.deletes)
    return again, live
