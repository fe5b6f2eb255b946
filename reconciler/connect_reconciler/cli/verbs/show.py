"""`connect show`: draws a saved plan. Needs neither a project nor a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.plan_forms import (
    AsMarkdown,
    PageFile,
    Warned,
    Warnings,
    ensure_one_form,
)
from connect_specs.diagnostics import ExitCode


def show(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan that `connect plan --out` saved.")
    ],
    html: PageFile = None,
    warnings: Warnings = Warned.CHANGES,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Show a saved plan, without a project, Kafka or a cluster.

    Whether the cluster has moved since is not asked: `connect apply FILE` does, and refuses if so.
    """
    from connect_reconciler.cli.plan_output import read_plan, tell, write_page

    ensure_one_form(as_json=as_json, as_markdown=as_markdown)
    call = invocation(context)
    plan = read_plan(call.path(file))
    if html is not None:
        write_page(plan, call.path(html))
    tell(
        plan,
        as_json=as_json,
        as_markdown=as_markdown,
        whole=f"connect show {file}",
        warned=warnings,
    )
    return ExitCode.OK
