"""`connect plan`: what would an apply do, and what does that mean for the data?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.plan_forms import AsMarkdown, Forms, PageFile, Warned, Warnings
from connect_reconciler.cli.scoping import (
    AllowEmpty,
    Excludes,
    MaxDeletes,
    Targets,
    delete_options,
    scope_of,
    with_delete_limits,
)
from connect_reconciler.cli.variables import ExplainVars, origins_of, origins_text
from connect_specs.diagnostics import ExitCode


def plan(
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the plan, for `connect apply FILE`."),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    allow_empty: AllowEmpty = False,
    max_deletes: MaxDeletes = None,
    html: PageFile = None,
    warnings: Warnings = Warned.CHANGES,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="End with 4 if there are changes.")
    ] = False,
    explain_vars: ExplainVars = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Show what apply would change. Changes nothing.

    Every change says why, and what it does to the data: how much is delivered again, or
    never. Secrets are not shown.
    """
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.plan_output import told_and_kept
    from connect_reconciler.cli.planning import observed, planned
    from connect_reconciler.cli.reading import specs_and_policies

    forms = Forms(out, html, as_markdown, as_json, warnings)
    call = invocation(context)
    project = with_delete_limits(call.project(), max_deletes, allow_empty=allow_empty)
    if explain_vars:
        progress(origins_text(origins_of(project)).rstrip())
    scope = scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    with client(project) as properties:
        live = observed(project, desired, properties, scope)
        made = planned(project, desired, live, policies, scope)
    limits = delete_options(max_deletes, allow_empty=allow_empty)
    told_and_kept(made, call, forms, live, limits)
    if made.errors:
        return ExitCode.INVALID
    return ExitCode.CHANGES if detailed_exitcode and not made.empty else ExitCode.OK
