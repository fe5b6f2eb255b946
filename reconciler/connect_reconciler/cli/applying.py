"""From a plan to a cluster: shown, agreed to, carried out, and told what became of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from connect_reconciler.cli.choices import Choices
from connect_reconciler.cli.output import progress, result, result_json
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.apply.report import ApplyReport
    from connect_reconciler.ledger.lease import Lease
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_specs.desired import Desired, Project


def need_someone_to_ask(*, yes: bool) -> None:
    """Raises Invalid where the user neither agreed nor can be asked."""
    if not yes and not sys.stdin.isatty():
        what = "stdin is not a terminal, so nobody can be asked whether to apply the plan"
        raise Invalid(
            Diagnostic(
                "apply.nobody-to-ask",
                what,
                hint="if the plan is what you want, run this again with --yes",
            )
        )


def show_and_apply(
    plan: Plan,
    project: Project,
    desired: Desired,
    live: Live,
    properties: Mapping[str, str],
    choices: Choices,
    *,
    yes: bool,
    as_json: bool,
    lease: Lease | None = None,
) -> int:
    """Shows the plan, asks, carries it out and tells what became of it; returns the exit code."""
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.plan_output import tell
    from connect_reconciler.render.plan_json import render_plan_json

    document: dict[str, object] = {"plan": render_plan_json(plan), "report": None}
    if not as_json:
        tell(plan)
    # An apply that was killed may have left an open journal and no change: it is closed then.
    if plan.errors or (plan.empty and not live.ledger.unfinished):
        if as_json:
            result_json(document)
        return ExitCode.INVALID if plan.errors else ExitCode.OK
    if plan.actions:
        need_someone_to_ask(yes=yes)
    # Before anything is opened: leading a new cluster already creates its topics.
    ensure_fresh(plan, desired, project, live)
    if plan.actions and not yes and not _agreed():
        progress("not applied")
        return ExitCode.FAILED
    report = _carry_out(plan, project, desired, live, properties, choices, lease)
    _tell(report, document, as_json=as_json)
    return report.exit_code


def _agreed() -> bool:
    # On stderr, like all that is not the result: the question must be seen when stdout is a file.
    return typer.confirm("Apply this plan?", default=False, err=True)


def _carry_out(
    plan: Plan,
    project: Project,
    desired: Desired,
    live: Live,
    properties: Mapping[str, str],
    choices: Choices,
    lease: Lease | None,
) -> ApplyReport:
    from connect_reconciler.apply.rights import rights_to_move
    from connect_reconciler.apply.run import apply_plan
    from connect_reconciler.cli.apply_edges import edges_for
    from connect_reconciler.cli.signals import told_to_stop
    from connect_reconciler.observe.observe import observe
    from connect_runtime.kafka.rights import check_rights

    with (
        told_to_stop() as told,
        edges_for(project, desired, properties, told.is_set, choices, lease) as edges,
    ):
        if not edges.cluster.runs_tasks:
            topics, groups = rights_to_move(plan, desired, live, project)
            check_rights(properties, topics=topics, groups=groups)
        return apply_plan(
            plan,
            desired,
            project,
            edges,
            observe=lambda: observe(project, desired, properties),
        )


def _tell(report: ApplyReport, document: dict[str, object], *, as_json: bool) -> None:
    from connect_reconciler.cli.apply_output import render_report, report_json
    from connect_specs.diagnostics_text import render_diagnostics

    if report.ended_by:
        sys.stderr.write(render_diagnostics(report.ended_by))
    if as_json:
        result_json(document | {"report": report_json(report)})
    else:
        result(render_report(report))
