"""`connect plan`: what would an apply do, and what does that mean for the data?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.plan_forms import AsMarkdown, Forms, PageFile
from connect_reconciler.cli.scoping import Excludes, Targets, scope_of
from connect_specs.diagnostics import ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.plan.scope import Scope
    from connect_reconciler.policies.policy import Policy
    from connect_specs.desired import Desired, Project


def plan(
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the plan, for `connect apply FILE`."),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    html: PageFile = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="End with 4 if there are changes.")
    ] = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Show what apply would change. Changes nothing.

    Every change says why, and what it does to the data: how much is delivered again, or
    never. Secrets are not shown.
    """
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.plan_output import told_and_kept
    from connect_reconciler.cli.reading import specs_and_policies

    forms = Forms(out, html, as_markdown, as_json)
    call = invocation(context)
    project = call.project()
    scope = scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    with client(project) as properties:
        live = observed(project, desired, properties, scope)
        made = planned(project, desired, live, policies, scope)
    told_and_kept(made, call, forms)
    if made.errors:
        return ExitCode.INVALID
    return ExitCode.CHANGES if detailed_exitcode and not made.empty else ExitCode.OK


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

    made = make_plan(
        desired,
        live,
        group_id=project.group_id,
        worker=project.worker,
        scope=scope,
        env=project.env,
    )
    return judged(made, policies, live)


def judged(plan: Plan, policies: tuple[Policy, ...], live: Live) -> Plan:
    """The plan with what the policies say of it now."""
    if not policies:
        return plan
    from connect_reconciler.policies.judge import judge

    return judge(plan, policies, live.now_ms)
