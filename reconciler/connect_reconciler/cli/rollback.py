"""`connect rollback`: the way back from an apply, as a plan that is shown and applied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.choices import Choices
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.plan_forms import AsMarkdown, ensure_one_form
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.ledger.journal import Journal
    from connect_reconciler.ledger.topic import LedgerSnapshot
    from connect_reconciler.plan.plan import Plan
    from connect_specs.desired import Desired, Project


def rollback(
    context: typer.Context,
    apply_id: Annotated[
        str, typer.Argument(metavar="ID", help="An apply that `connect history` lists.")
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A plan that `connect rollback ID --out` saved."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Only save the plan, for `connect rollback ID FILE`."
        ),
    ] = None,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Bring back config, state and offsets from before an apply: shows the plan, asks, applies it.

    Only connectors that the apply changed are touched, and offsets only where it moved them. Can be
    rolled back itself. With --out or --markdown it only plans.
    """
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.applying import show_and_apply
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.history import journal_of, ledger_of
    from connect_reconciler.cli.plan import judged, observed
    from connect_reconciler.cli.plan_output import save, tell, where_whole
    from connect_reconciler.cli.reading import policies_of
    from connect_reconciler.observe.observe import observe
    from connect_reconciler.plan.agreement import ensure_same
    from connect_reconciler.plan.rollback import rollback_plan, way_back

    ensure_one_form(as_json=as_json, as_markdown=as_markdown)
    only_plan = out is not None or as_markdown
    call = invocation(context)
    project = call.project()
    saved = None if file is None else _saved(call.path(file), apply_id)
    files, policies = _specs(project), policies_of(project)
    with client(project) as properties:
        ledger = ledger_of(project, properties)
        journal = journal_of(ledger, project, apply_id)
        seen = observe(project, files, properties)
        before = ledger.before(apply_id)
        way = way_back(apply_id, before, later_applies(ledger, journal), files, seen)
        live = observed(project, way.desired, properties)
        made = rollback_plan(
            way, live, group_id=project.group_id, env=project.env, worker=project.worker
        )
        if saved is not None and not made.errors:
            ensure_fresh(saved, way.desired, project, live)
            ensure_same(saved, made, live, source="the ledger", hint="make the plan again")
        plan = judged(made, policies, live)
        if only_plan:
            if out is not None and not plan.errors:
                save(plan, call.path(out))
            tell(plan, as_json=as_json, as_markdown=as_markdown, whole=where_whole(out, None))
            return ExitCode.INVALID if plan.errors else ExitCode.OK
        choices = Choices(rolls_back=apply_id)
        code = show_and_apply(
            plan, project, way.desired, live, properties, choices, yes=yes, as_json=as_json
        )
    if code == ExitCode.OK and plan.actions:
        progress("the specs still say otherwise: `connect plan` shows the differences again")
    return code


def _saved(file: Path, apply_id: str) -> Plan:
    """The plan in the file. Raises Invalid for one that leads back from another apply, or ahead."""
    from connect_reconciler.cli.plan_output import read_saved

    saved = read_saved(file)
    if saved.rolls_back != apply_id:
        what = f"this plan does not lead back from apply {apply_id}"
        hint = "`connect show FILE` says what it does"
        raise Invalid(Diagnostic("rollback.other-plan", what, file.name, hint=hint))
    return saved


def later_applies(ledger: LedgerSnapshot, journal: Journal) -> Mapping[str, str]:
    """By connector the newest apply that changed it after this one."""
    later = sorted(
        (each.since_ms, each.id)
        for each in ledger.applies.values()
        if (each.since_ms, each.id) > (journal.since_ms, journal.id)
    )
    return {name: apply_id for _, apply_id in later for name in ledger.raw_before.get(apply_id, ())}


def _specs(project: Project) -> Desired:
    """The specs of now, for secrets only: with broken ones there must be a way back, too."""
    from connect_specs.desired import Desired
    from connect_specs.loader import load_specs

    try:
        return load_specs(project)
    except Invalid:
        progress("the specs cannot be read; secrets are looked for on the cluster alone")
        return Desired(project.name, {})
