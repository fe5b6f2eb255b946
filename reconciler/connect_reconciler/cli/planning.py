"""From what the files say and the cluster is to a plan that the policies have judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from connect_specs.diagnostics import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.plan.scope import Scope
    from connect_reconciler.policies.policy import Policy
    from connect_specs.desired import Desired, Project


def observed(
    project: Project,
    desired: Desired,
    properties: Mapping[str, str],
    scope: Scope | None = None,
) -> Live:
    """The cluster as it is now, and what is wrong with the configs that it is to get.

    Raises Invalid for properties in connect.yaml that cannot be used.
    """
    from connect_reconciler.observe.observe import observe
    from connect_reconciler.observe.project_checks import check_project
    from connect_reconciler.observe.validity import checked
    from connect_reconciler.plan.scope import narrowed

    errors, warnings = check_project(project)
    if errors:
        raise Invalid(*errors)
    seen = observe(project, desired, properties)
    live = replace(seen, warnings=(*warnings, *seen.warnings))
    part = desired if scope is None else narrowed(desired, live, scope)[0]
    return checked(live, project, part, properties)


def planned(
    project: Project,
    desired: Desired,
    live: Live,
    policies: tuple[Policy, ...],
    scope: Scope | None = None,
) -> Plan:
    """The plan from there to the specs, judged by the project's policies."""
    from connect_reconciler.plan.planner import make_plan
    from connect_reconciler.plan.target import target_of

    made = make_plan(
        desired,
        live,
        group_id=project.group_id,
        worker=project.worker,
        scope=scope,
        env=project.env,
        deletes=project.deletes,
    )
    return judged(replace(made, target=target_of(project)), policies, live)


def judged(plan: Plan, policies: tuple[Policy, ...], live: Live) -> Plan:
    """The plan with what the policies say of it now."""
    if not policies:
        return plan
    from connect_reconciler.policies.judge import judge

    return judge(plan, policies, live.now_ms)
