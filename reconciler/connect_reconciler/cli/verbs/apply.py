"""`connect plan`, `show` and `apply`: from the specs to a plan, and from a plan to the cluster.

`show` needs neither a project nor a cluster. `apply` goes through the leader of a runtime that is
up; with none, this process leads for as long as it takes, and the next runtime finds what it wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli import options as opt
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.session import invocation, origins_of, origins_text
from connect_specs.diagnostics import ExitCode


def plan(
    context: typer.Context,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the plan for `connect apply FILE`."),
    ] = None,
    options: opt.PlanOptions,
    forms: opt.PlanForms,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 4 if there are changes.")
    ] = False,
    explain_vars: opt.ExplainVars = False,
) -> int:
    """Show what apply would change. Changes nothing.

    Each change is shown with its reason and its effect on your data: how much is redelivered
    or not delivered. Secrets are redacted.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.plan_output import show_and_save
    from connect_reconciler.workflow.planning import observed, planned, specs_and_policies

    call = invocation(context)
    project = options.in_project(call.project())
    if explain_vars:
        progress(origins_text(origins_of(project)).rstrip())
    desired, policies = specs_and_policies(project)
    with backend_of(project) as backend:
        live = observed(backend, desired, options.scope)
        plan = planned(project, desired, live, policies, options.scope)
    show_and_save(plan, call, forms, live, out, options.words)
    if plan.errors:
        return ExitCode.INVALID
    return ExitCode.CHANGES if detailed_exitcode and not plan.empty else ExitCode.OK


def show(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`.")
    ],
    forms: opt.PlanForms,
) -> int:
    """Show a saved plan. Needs no project, Kafka or cluster.

    Does not check whether the cluster has changed since: `connect apply FILE` does, and refuses
    if it has.
    """
    from connect_reconciler.cli.plan_output import read_plan, show_plan, write_page

    call = invocation(context)
    plan = read_plan(call.path(file))
    note = None if forms.html is None else write_page(plan, call.path(forms.html))
    show_plan(plan, forms, full_plan=f"connect show {file}")
    if note is not None:
        progress(note)
    return ExitCode.OK


def apply(
    context: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`."),
    ] = None,
    options: opt.PlanOptions,
    yes: opt.Yes = False,
    as_json: opt.AsJson = False,
    warnings: opt.Warnings = opt.Warned.CHANGES,
    applying: opt.ApplyOptions,
    rollback_on_failure: Annotated[
        bool,
        typer.Option("--rollback-on-failure", help="If anything fails, roll back the whole apply."),
    ] = False,
    require_running: Annotated[
        bool,
        typer.Option(
            "--require-running", help="Exit with 1 if no runtime is up to run connectors."
        ),
    ] = False,
) -> int:
    """Change the cluster to match the specs: shows the plan, asks, and applies it.

    Safe to kill and rerun: no action is repeated, and unfinished connectors are completed. With
    FILE, applies that saved plan, or changes nothing if the specs no longer produce it.
    """
    from connect_reconciler.cli.apply_report import run_of
    from connect_reconciler.cli.plan_output import read_plan
    from connect_reconciler.cli.terminal import Terminal, backend_for, ensure_agreement
    from connect_reconciler.plan.scope import Scope
    from connect_reconciler.workflow.apply import ApplyRun
    from connect_reconciler.workflow.planning import FromSpecs, specs_and_policies
    from connect_reconciler.workflow.rollback import ensure_journal

    if applying.takeover:
        # Before another apply is ended for this one
        ensure_agreement(yes=yes)
    call, scope = invocation(context), options.scope
    project = options.in_project(call.project())
    if rollback_on_failure:
        ensure_journal(project)
    desired, policies = specs_and_policies(project)
    if file is not None:
        opt.ensure_whole(scope)
    saved = None if file is None else read_plan(call.path(file))
    run = run_of(call, project, scope, file, options=options.words)
    with backend_for(run, project, applying) as (backend, lease):
        source = FromSpecs(
            backend=backend, policies=policies, saved=saved, desired=desired, scope=scope
        )
        planned = source.plan()
        user = Terminal(yes, as_json, warnings, run)
        rollback_policies = policies if rollback_on_failure else None
        if saved is not None:
            scope = Scope.exactly(action.group for action in saved.actions)
        choices = applying.choices(require_running=require_running)
        applied = ApplyRun(backend, user, choices, source, lease, rollback_policies, scope).run(
            planned
        )
        user.tell_end(applied)
    return applied.exit_code
