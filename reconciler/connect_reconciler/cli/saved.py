"""A saved plan on its way to an apply: read, held against the cluster, and made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    Raises Stale where the cluster moved, or where the specs do not give the saved plan.
    """
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.plan import judged
    from connect_reconciler.observe.observe import observe
    from connect_reconciler.observe.validity import checked
    from connect_reconciler.plan.agreement import planned_again, scope_of_saved
    from connect_reconciler.plan.scope import narrowed

    if saved.rolls_back is not None:
        what = f"this plan leads back from apply {saved.rolls_back}: no specs give it"
        hint = f"`connect rollback {saved.rolls_back} FILE` applies it"
        raise Invalid(Diagnostic("apply.rolls-back", what, hint=hint))
    live = observe(project, desired, properties)
    # First what it relies on: that says best what moved
    ensure_fresh(saved, desired, project, live)
    if saved.actions:
        part = narrowed(desired, live, scope_of_saved(saved, desired, live))[0]
        live = checked(live, project, part, properties)
    again = planned_again(saved, desired, live, project.worker)
    return judged(again, policies, live), live
