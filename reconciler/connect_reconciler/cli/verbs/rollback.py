"""`connect rollback`: the way back from an apply, as a plan that is shown and applied."""

from __future__ import annotations

import glob
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.applying.choices import (
    DEFAULT,
    Choices,
    FailFast,
    HealthTimeout,
    HealthyFor,
    LockTimeout,
    Parallelism,
    Settle,
    TakeOver,
    Yes,
)
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.plan_forms import AsMarkdown, Forms, PageFile, Warned, Warnings
from connect_reconciler.cli.scoping import Excludes, Targets, ensure_whole, scope_of
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, Stale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.cli.applying.way_back import Found
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Project


def rollback(
    context: typer.Context,
    apply_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="An apply of `connect history`, or how its id begins."),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan that `connect rollback ID --out` saved."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Only save the plan, for `connect rollback ID FILE`."
        ),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    yes: Yes = False,
    html: PageFile = None,
    warnings: Warnings = Warned.CHANGES,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    parallelism: Parallelism = DEFAULT.parallelism,
    fail_fast: FailFast = False,
    takeover: TakeOver = False,
    health_timeout: HealthTimeout = DEFAULT.health_timeout,
    healthy_for: HealthyFor = DEFAULT.healthy_for,
    settle: Settle = DEFAULT.settle,
    lock_timeout: LockTimeout = DEFAULT.lock_timeout,
) -> int:
    """Bring back config, state and offsets from before an apply: shows the plan, asks, applies it.

    Only connectors that the apply changed are touched, and offsets only where it moved them. Can be
    rolled back itself. With --out, --html or --markdown it only plans.
    """
    from connect_reconciler.cli.applying.leasing import ensure_lease, taken_over
    from connect_reconciler.cli.applying.running import advised, run_of
    from connect_reconciler.cli.applying.show_and_apply import need_someone_to_ask, show_and_apply
    from connect_reconciler.cli.applying.way_back import find_way_back, specs_if_readable
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.plan_output import told_and_kept
    from connect_reconciler.cli.planning import judged
    from connect_reconciler.cli.reading import policies_of

    forms = Forms(out, html, as_markdown, as_json, warnings)
    only_plan = out is not None or html is not None or as_markdown
    takes_over = takeover and not only_plan
    if takes_over:
        need_someone_to_ask(yes=yes)
    choices = Choices(parallelism, fail_fast, health_timeout, healthy_for, settle, lock_timeout)
    call = invocation(context)
    project, scope = call.project(), scope_of(target, exclude)
    policies, saved, asked = policies_of(project), None, scope
    if file is not None:
        ensure_whole(scope)
        saved = _saved(call.path(file), apply_id)
        scope = _scope_of(saved)
    run = run_of(call, project, asked, file, ("rollback", apply_id))
    with advised(run), client(project) as properties, ExitStack() as stack:
        if lock_timeout and not only_plan:
            ensure_lease(project, properties)
        lease = stack.enter_context(taken_over(project, properties)) if takes_over else None
        files = specs_if_readable(project)

        def way_back() -> tuple[Plan, Found]:
            found = find_way_back(project, properties, apply_id, scope, files)
            made = found.plan(project)
            if saved is not None and not made.errors:
                made = _as_saved(made, saved, found, project, properties)
            return judged(made, policies, found.live), found

        def again(shown: Plan) -> tuple[Plan, Live]:
            plan, found = way_back()
            return plan, found.live

        plan, found = way_back()
        if only_plan:
            told_and_kept(plan, call, forms, found.live)
            return ExitCode.INVALID if plan.errors else ExitCode.OK
        code = show_and_apply(
            plan,
            project,
            found.way.desired,
            found.live,
            properties,
            choices,
            yes=yes,
            as_json=as_json,
            warned=warnings,
            run=run,
            lease=lease,
            again=again,
        )
    if code == ExitCode.OK and plan.actions:
        shown = run.command("plan")
        progress(f"the specs still say otherwise: `{shown}` shows the differences again")
    return code


def _saved(file: Path, apply_id: str) -> Plan:
    """The plan in the file. Raises Invalid for one that leads back from another apply, or ahead."""
    from connect_reconciler.cli.plan_output import read_plan

    saved = read_plan(file)
    if not (saved.rolls_back or "").startswith(apply_id):
        what = f"this plan does not lead back from apply {apply_id}"
        hint = "`connect show FILE` says what it does"
        raise Invalid(Diagnostic("rollback.other-plan", what, file.name, hint=hint))
    return saved


def _scope_of(saved: Plan) -> Scope:
    """The connectors that the plan is about."""
    from connect_reconciler.plan.scope import Scope

    return Scope(tuple(dict.fromkeys(glob.escape(each.connector) for each in saved.actions)))


def _as_saved(
    made: Plan, saved: Plan, found: Found, project: Project, properties: Mapping[str, str]
) -> Plan:
    """The plan, if it is the saved one, or what is left of it. Raises Stale."""
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.applying.saved import as_saved, begun_by, without_actions
    from connect_reconciler.cli.plan_output import ensure_secrets_can_be_told_apart
    from connect_reconciler.plan.agreement import ensure_rest, ensure_same

    desired, live, begun = found.way.desired, found.live, None
    try:
        ensure_fresh(saved, desired, project, live)
        ensure_same(saved, made, live, source="the ledger", hint="make the plan again")
    except Stale:
        begun = begun_by(saved, project, properties)
        if begun is None:
            raise
        ensure_fresh(without_actions(saved, live), desired, project, live)
        ensure_rest(saved, made, live)
    if begun is None:
        ensure_secrets_can_be_told_apart(saved, live)
    return as_saved(made, saved, begun)
