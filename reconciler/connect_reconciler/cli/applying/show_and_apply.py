"""From a plan to a cluster: shown, agreed to, carried out, and told what became of it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from connect_reconciler.cli.applying.choices import Choices
from connect_reconciler.cli.applying.next_steps import Run
from connect_reconciler.cli.applying.replanning import Moved
from connect_reconciler.cli.output import agreed, progress, result, result_json
from connect_reconciler.cli.plan_forms import Warned
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, NextStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from connect_reconciler.apply.report import ApplyReport
    from connect_reconciler.cli.applying.replanning import Again
    from connect_reconciler.cli.applying.undo import Undo, Undone
    from connect_reconciler.ledger.lease import Lease
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_specs.desired import Desired, Project


_APPLY = Run()


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
    warned: Warned = Warned.CHANGES,
    run: Run = _APPLY,
    lease: Lease | None = None,
    undo: Undo | None = None,
    again: Again | None = None,
) -> int:
    """Shows the plan, asks, carries it out and tells what became of it; returns the exit code.

    What failed is led back from, where there is an `undo`: the exit code stays that of the failure.
    With `again` the plan is made anew once nobody else can apply; what is new then is shown and
    asked for, too. Raises Stale where nobody can be asked.
    """
    from connect_reconciler.apply.run import ensure_fresh
    from connect_reconciler.cli.applying.report import render_outcome, render_report
    from connect_reconciler.cli.plan_output import tell
    from connect_reconciler.render.plan_json import render_plan_json

    document: dict[str, object] = {"plan": render_plan_json(plan), "report": None}
    if not as_json:
        tell(plan, warned=warned)
    # An apply that was killed may have left an open journal and no change: it is closed then.
    if plan.errors or (plan.empty and not live.ledger.unfinished):
        if as_json:
            result_json(document)
        return ExitCode.INVALID if plan.errors else ExitCode.OK
    if plan.actions:
        need_someone_to_ask(yes=yes)
    # Before anything is opened: leading a new cluster already creates its topics.
    ensure_fresh(plan, desired, project, live)
    if plan.actions and not yes and not _agreed(plan):
        progress("not applied: nothing was changed")
        return ExitCode.FAILED
    try:
        report = carry_out(plan, project, desired, live, properties, choices, lease, again)
    except Moved as moved:
        if yes or not sys.stdin.isatty():
            if not as_json:
                tell(moved.plan, warned=warned)
            raise moved.stale() from None
        progress("the cluster changed since the plan was shown; this is what there is to do now")
        return show_and_apply(
            moved.plan,
            project,
            desired,
            moved.live,
            properties,
            choices,
            yes=yes,
            as_json=as_json,
            warned=warned,
            run=run,
            lease=lease,
            undo=undo,
            again=again,
        )
    undoing = undo is not None and undo.wanted(report)
    if not as_json:
        _tell(report, render_outcome if undoing else partial(render_report, run=run))
    undone = undo.way_back(report.apply_id) if undo is not None and undoing else None
    if as_json:
        result_json(document | _reports_json(report, undone, run))
    elif undone is not None:
        _tell_undone(undone, report.apply_id, run)
    return report.exit_code


def _agreed(plan: Plan) -> bool:
    from connect_reconciler.render.words import question
    from connect_specs.printable import one_line

    return agreed(one_line(question(plan)))


def carry_out(
    plan: Plan,
    project: Project,
    desired: Desired,
    live: Live,
    properties: Mapping[str, str],
    choices: Choices,
    lease: Lease | None,
    again: Again | None = None,
) -> ApplyReport:
    """Opens the cluster and the ledger, and applies the plan, or with `again` what is left of it.

    Raises LeaseRefused, Stale, Moved; nothing was touched then.
    """
    from connect_reconciler.apply.rights import rights_to_move
    from connect_reconciler.apply.run import apply_plan
    from connect_reconciler.cli.applying.edges import edges_for
    from connect_reconciler.cli.applying.leasing import once_free
    from connect_reconciler.cli.applying.replanning import left_of
    from connect_reconciler.cli.interruption import may_change
    from connect_reconciler.cli.signals import at_once, told_to_stop
    from connect_reconciler.observe.observe import observe
    from connect_runtime.kafka.rights import check_rights

    with (
        told_to_stop() as told,
        once_free(
            lambda: edges_for(project, desired, properties, told.is_set, choices, lease),
            choices.lock_timeout,
            told,
        ) as edges,
    ):
        now: Live | None = None
        # Nothing has begun that is to come to its end
        with at_once():
            if told.is_set():
                raise KeyboardInterrupt
            if again is not None:
                plan, now = left_of(plan, live, again)
            if not edges.cluster.runs_tasks:
                topics, groups = rights_to_move(plan, desired, live, project)
                check_rights(properties, topics=topics, groups=groups)
        may_change()
        return apply_plan(
            plan,
            desired,
            project,
            edges,
            observe=lambda: now or observe(project, desired, properties),
        )


def _tell(report: ApplyReport, render: Callable[[ApplyReport], str]) -> None:
    from connect_specs.diagnostics_text import render_diagnostics

    if report.ended_by:
        sys.stderr.write(render_diagnostics(report.ended_by))
    result(render(report))


def _tell_undone(undone: Undone, apply_id: str, run: Run) -> None:
    from connect_reconciler.cli.applying.next_steps import after_rollback, steps_text
    from connect_reconciler.cli.applying.report import render_outcome
    from connect_specs.diagnostics_text import render_diagnostics

    if undone.report is not None:
        _tell(undone.report, render_outcome)
    elif undone.errors:
        sys.stderr.write(render_diagnostics(undone.errors))
    if undone.report is not None and undone.report.exit_code == ExitCode.OK:
        result(f"Rolled back: what apply {apply_id} did is undone")
        result(steps_text(after_rollback(run)))
    else:
        result("Not rolled back")
        result(steps_text([NextStep(run.command("rollback", apply_id), "plans the way back")]))


def _reports_json(report: ApplyReport, undone: Undone | None, run: Run) -> dict[str, object]:
    from connect_reconciler.cli.applying.report import report_json
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.render.plan_json import render_plan_json

    document: dict[str, object] = {"report": report_json(report, run)}
    if undone is not None:
        document["rollback"] = {
            "plan": None if undone.plan is None else render_plan_json(undone.plan),
            "report": None if undone.report is None else report_json(undone.report),
            "errors": to_json(undone.errors),
        }
    return document
