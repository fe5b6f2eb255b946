"""`connect plan` and `connect show`: what would an apply do, and what does that mean for the data?

`show` needs neither a project nor a cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.options import (
    AllowEmpty,
    AsJson,
    AsMarkdown,
    Excludes,
    ExplainVars,
    Forms,
    MaxDeletes,
    PageFile,
    Targets,
    Warned,
    Warnings,
    delete_options,
    ensure_one_form,
    scope_of,
    with_delete_limits,
)
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.session import invocation, origins_of, origins_text
from connect_specs.diagnostics import ExitCode


def plan(
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the plan for `connect apply FILE`."),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    allow_empty: AllowEmpty = False,
    max_deletes: MaxDeletes = None,
    html: PageFile = None,
    warnings: Warnings = Warned.CHANGES,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 4 if there are changes.")
    ] = False,
    explain_vars: ExplainVars = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Show what apply would change. Changes nothing.

    Each change is shown with its reason and its effect on your data: how much is redelivered
    or not delivered. Secrets are redacted.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.plan_output import show_and_save
    from connect_reconciler.workflow.planning import observed, planned, specs_and_policies

    forms = Forms(out, html, as_markdown, as_json, warnings)
    call = invocation(context)
    project = with_delete_limits(call.project(), max_deletes, allow_empty=allow_empty)
    if explain_vars:
        progress(origins_text(origins_of(project)).rstrip())
    scope = scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    with backend_of(project) as backend:
        live = observed(backend, desired, scope)
        made = planned(project, desired, live, policies, scope)
    limits = delete_options(max_deletes, allow_empty=allow_empty)
    show_and_save(made, call, forms, live, limits)
    if made.errors:
        return ExitCode.INVALID
    return ExitCode.CHANGES if detailed_exitcode and not made.empty else ExitCode.OK


def show(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`.")
    ],
    html: PageFile = None,
    warnings: Warnings = Warned.CHANGES,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Show a saved plan. Needs no project, Kafka or cluster.

    Does not check whether the cluster has changed since: `connect apply FILE` does, and refuses
    if it has.
    """
    from connect_reconciler.cli.plan_output import read_plan, show_plan, write_page

    ensure_one_form(as_json=as_json, as_markdown=as_markdown)
    call = invocation(context)
    plan = read_plan(call.path(file))
    written = None if html is None else write_page(plan, call.path(html))
    show_plan(
        plan,
        as_json=as_json,
        as_markdown=as_markdown,
        whole=f"connect show {file}",
        warned=warnings,
    )
    if written is not None:
        progress(written)
    return ExitCode.OK
