"""`connect history` and `rollback`: shows past applies, and restores what was before one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli import options as opt
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan


def history(
    context: typer.Context,
    apply_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="An apply's id, or the start of it.")
    ] = None,
    as_json: opt.AsJson = False,
) -> int:
    """List this project's applies, newest first, or show one in detail.

    The ledger keeps the last 20.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.render import apply_history as shown
    from connect_reconciler.workflow.rollback import journal_of, ledger_of

    project = invocation(context).project()
    with backend_of(project) as backend:
        ledger = ledger_of(backend)
    if apply_id is not None:
        journal = journal_of(ledger, project, apply_id)
        details = journal, ledger.steps(journal.id), ledger.snapshots(journal.id)
        if as_json:
            result_json(shown.detail_json(*details))
        else:
            result(shown.detail_text(*details))
        return ExitCode.OK
    journals = reversed(ledger.of_project(project.name))
    applies = [(journal, ledger.steps(journal.id)) for journal in journals]
    if as_json:
        result_json({"applies": [shown.journal_json(*apply) for apply in applies]})
    elif applies:
        result(shown.list_text(applies))
    else:
        result(f"project {project.name} has no recorded applies")
    return ExitCode.OK


def rollback(
    context: typer.Context,
    *,
    apply_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="An apply from `connect history`: its id, or the start of it."
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan saved by `connect rollback ID --out`."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Only save the plan, for `connect rollback ID FILE`."
        ),
    ] = None,
    options: opt.ScopeOptions,
    yes: opt.Yes = False,
    forms: opt.PlanForms,
    applying: opt.ApplyOptions,
) -> int:
    """Restore config, state and offsets from before an apply: shows the plan, asks, applies it.

    Changes only connectors that the apply changed, and offsets only where it moved them. A
    rollback can itself be rolled back. With --out, --html or --markdown, it only plans.
    """
    from connect_reconciler.cli.apply_report import run_of
    from connect_reconciler.cli.plan_output import show_and_save
    from connect_reconciler.cli.terminal import Terminal, backend_for, ensure_agreement
    from connect_reconciler.plan.scope import Scope
    from connect_reconciler.workflow.apply import ApplyRun
    from connect_reconciler.workflow.planning import policies_of
    from connect_reconciler.workflow.rollback import FromSnapshots, specs_if_readable

    only_plan = out is not None or forms.html is not None or forms.as_markdown
    if only_plan:
        applying = replace(applying, takeover=False, lock_timeout=0.0)
    if applying.takeover:
        ensure_agreement(yes=yes)
    call, scope = invocation(context), options.scope
    project = call.project()
    policies, saved = policies_of(project), None
    run = run_of(call, project, scope, file, ("rollback", apply_id))
    if file is not None:
        opt.ensure_whole(scope)
        saved = _saved(call.path(file), apply_id)
        scope = Scope.exactly(action.group for action in saved.actions)
    with backend_for(run, project, applying) as (backend, lease):
        files = specs_if_readable(project, progress)
        source = FromSnapshots(
            backend=backend,
            policies=policies,
            saved=saved,
            apply_id=apply_id,
            files=files,
            scope=scope,
        )
        planned = source.plan()
        plan = planned.plan
        if only_plan:
            show_and_save(plan, call, forms, planned.live, out)
            return ExitCode.INVALID if plan.errors else ExitCode.OK
        user = Terminal(yes, forms.as_json, forms.warnings, run)
        assert planned.rollback is not None
        about = Scope.exactly(planned.rollback.snapshots)
        applied = ApplyRun(backend, user, applying.choices(), source, lease, scope=about).run(
            planned
        )
        user.tell_end(applied)
    if applied.exit_code == ExitCode.OK and plan.actions:
        progress(f"the specs still differ: `{run.command('plan')}` shows the differences")
    return applied.exit_code


def _saved(file: Path, apply_id: str) -> Plan:
    """Reads the plan in the file. Raises Invalid for one that is no rollback of this apply."""
    from connect_reconciler.cli.plan_output import read_plan

    saved = read_plan(file)
    if not (saved.rolls_back or "").startswith(apply_id):
        problem = f"this plan is not a rollback of apply {apply_id}"
        hint = "`connect show FILE` shows what it does"
        raise Invalid(Diagnostic("rollback.other-plan", problem, file.name, hint=hint))
    return saved
