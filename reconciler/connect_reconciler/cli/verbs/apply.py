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
from connect_reconciler.workflow.user import Choices
from connect_specs.diagnostics import ExitCode


def plan(
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the plan for `connect apply FILE`."),
    ] = None,
    target: opt.Targets = None,
    exclude: opt.Excludes = None,
    allow_empty: opt.AllowEmpty = False,
    max_deletes: opt.MaxDeletes = None,
    take_over: opt.TakenOver = None,
    change_env: opt.ChangeEnv = False,
    apply_pin: opt.ApplyPins = None,
    html: opt.PageFile = None,
    warnings: opt.Warnings = opt.Warned.CHANGES,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 4 if there are changes.")
    ] = False,
    explain_vars: opt.ExplainVars = False,
    as_markdown: opt.AsMarkdown = False,
    as_json: opt.AsJson = False,
) -> int:
    """Show what apply would change. Changes nothing.

    Each change is shown with its reason and its effect on your data: how much is redelivered
    or not delivered. Secrets are redacted.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.plan_output import show_and_save
    from connect_reconciler.workflow.planning import observed, planned, specs_and_policies

    forms = opt.Forms(out, html, as_markdown, as_json, warnings)
    call = invocation(context)
    project = opt.with_delete_limits(call.project(), max_deletes, allow_empty=allow_empty)
    project = opt.with_overrides(project, take_over, apply_pin, change_env=change_env)
    if explain_vars:
        progress(origins_text(origins_of(project)).rstrip())
    scope = opt.scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    with backend_of(project) as backend:
        live = observed(backend, desired, scope)
        plan = planned(project, desired, live, policies, scope)
    limits = opt.delete_options(max_deletes, allow_empty=allow_empty)
    show_and_save(plan, call, forms, live, (*limits, *opt.override_options(project)))
    if plan.errors:
        return ExitCode.INVALID
    return ExitCode.CHANGES if detailed_exitcode and not plan.empty else ExitCode.OK


def show(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`.")
    ],
    html: opt.PageFile = None,
    warnings: opt.Warnings = opt.Warned.CHANGES,
    as_markdown: opt.AsMarkdown = False,
    as_json: opt.AsJson = False,
) -> int:
    """Show a saved plan. Needs no project, Kafka or cluster.

    Does not check whether the cluster has changed since: `connect apply FILE` does, and refuses
    if it has.
    """
    from connect_reconciler.cli.plan_output import read_plan, show_plan, write_page

    opt.ensure_one_form(as_json=as_json, as_markdown=as_markdown)
    call = invocation(context)
    plan = read_plan(call.path(file))
    note = None if html is None else write_page(plan, call.path(html))
    show_plan(
        plan,
        as_json=as_json,
        as_markdown=as_markdown,
        full_plan=f"connect show {file}",
        warned=warnings,
    )
    if note is not None:
        progress(note)
    return ExitCode.OK


SavedPlan = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`."),
]
RollbackOnFailure = Annotated[
    bool,
    typer.Option("--rollback-on-failure", help="If anything fails, roll back the whole apply."),
]


RequireRunning = Annotated[
    bool,
    typer.Option("--require-running", help="Exit with 1 if no runtime is up to run connectors."),
]


def apply(
    context: typer.Context,
    file: SavedPlan = None,
    target: opt.Targets = None,
    exclude: opt.Excludes = None,
    allow_empty: opt.AllowEmpty = False,
    max_deletes: opt.MaxDeletes = None,
    take_over: opt.TakenOver = None,
    change_env: opt.ChangeEnv = False,
    apply_pin: opt.ApplyPins = None,
    yes: opt.Yes = False,
    as_json: opt.AsJson = False,
    warnings: opt.Warnings = opt.Warned.CHANGES,
    parallelism: opt.Parallelism = opt.DEFAULT.parallelism,
    fail_fast: opt.FailFast = False,
    takeover: opt.TakeOver = False,
    rollback_on_failure: RollbackOnFailure = False,
    require_running: RequireRunning = False,
    health_timeout: opt.HealthTimeout = opt.DEFAULT.health_timeout,
    healthy_for: opt.HealthyFor = opt.DEFAULT.healthy_for,
    settle: opt.Settle = opt.DEFAULT.settle,
    lock_timeout: opt.LockTimeout = opt.DEFAULT.lock_timeout,
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
    from connect_reconciler.workflow.plan_sources import FromSpecs
    from connect_reconciler.workflow.planning import specs_and_policies
    from connect_reconciler.workflow.rollback import ensure_journal

    if takeover:
        # Before another apply is ended for this one
        ensure_agreement(yes=yes)
    choices = Choices(
        parallelism, fail_fast, health_timeout, healthy_for, settle, lock_timeout, require_running
    )
    call = invocation(context)
    project = opt.with_delete_limits(call.project(), max_deletes, allow_empty=allow_empty)
    project = opt.with_overrides(project, take_over, apply_pin, change_env=change_env)
    if rollback_on_failure:
        ensure_journal(project)
    scope = opt.scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    if file is not None:
        opt.ensure_whole(scope)
    saved = None if file is None else read_plan(call.path(file))
    limits = opt.delete_options(max_deletes, allow_empty=allow_empty)
    allowed = (*limits, *opt.override_options(project))
    run = run_of(call, project, scope, file, options=allowed)
    with backend_for(run, project, waits=bool(lock_timeout), takeover=takeover) as (backend, lease):
        source = FromSpecs(
            backend=backend, policies=policies, saved=saved, desired=desired, scope=scope
        )
        planned = source.plan()
        user = Terminal(yes, as_json, warnings, run)
        rollback_policies = policies if rollback_on_failure else None
        if saved is not None:
            scope = Scope.exactly(action.group for action in saved.actions)
        applying = ApplyRun(backend, user, choices, source, lease, rollback_policies, scope)
        applied = applying.run(planned)
        user.tell_end(applied)
    return applied.exit_code
