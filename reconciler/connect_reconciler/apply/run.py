"""Carries out one plan: checks all of it, then several connectors at a time, action by action.

What ends comes to its end before anything starts: the ranks of the plan's order are barriers. A
connector that fails is left where it is, and the others go on; only a lost lease, ledger or cluster
ends the apply. Waiting for health comes last, for all connectors at once: nothing in a plan depends
on it, and the waits then overlap.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

from connect_reconciler.apply.awaiting import await_health
from connect_reconciler.apply.configs import reveal_configs
from connect_reconciler.apply.course import Course, run_together
from connect_reconciler.apply.edges import FATAL, Edges
from connect_reconciler.apply.known import Known
from connect_reconciler.apply.progress import Began, ConnectorDone
from connect_reconciler.apply.report import (
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
    exit_code,
)
from connect_reconciler.apply.steps import Steps, known_from_configs, overtaken_holds
from connect_reconciler.ledger.journal import Ending, Journal
from connect_reconciler.plan.actions import Action
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.order import rank
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.predict import check_plan
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Invalid, Stale


def ensure_fresh(plan: Plan, desired: Desired, project: Project, live: Live) -> None:
    """Raises Invalid for a plan that must not be applied, Stale for one that cannot be any more."""
    if plan.errors:
        raise Invalid(*plan.errors)
    if (plan.project, plan.group_id) != (project.name, project.group_id):
        what = f"the plan is for project {plan.project} on {plan.group_id}"
        raise Stale(Diagnostic("stale.project", what, f"{project.name} on {project.group_id}"))
    if plan.env != project.env:
        what = f"the plan is for {_environment(plan.env)}"
        hint = "apply it without --env" if plan.env is None else f"apply it with --env {plan.env}"
        raise Stale(Diagnostic("stale.environment", what, _environment(project.env), hint=hint))
    problems = check_plan(plan, live)
    if problems:
        raise Stale(*problems)
    reveal_configs(plan, desired, live)


def _environment(env: str | None) -> str:
    return "no environment" if env is None else f"environment {env}"


def apply_plan(
    plan: Plan,
    desired: Desired,
    project: Project,
    edges: Edges,
    *,
    observe: Callable[[], Live],
) -> ApplyReport:
    """Applies `plan` and says what became of each action.

    Observes first: raises Stale or Invalid, and nothing was touched. After that nothing is raised
    but what kills the process; every failure is in the report. An apply that is interrupted twice
    reports what is known by then, and leaves its journal open, as one that was killed does.
    """
    live = observe()
    ensure_fresh(plan, desired, project, live)
    edges.lease.keep()
    journal = _journal(plan, edges)
    known = Known(plan, edges.settings.progress)
    edges = replace(edges, settings=replace(edges.settings, progress=known))
    try:
        return _applied(plan, desired, live, edges, journal)
    except KeyboardInterrupt:
        return _report(journal, known.end(), edges, ExitCode.INTERRUPTED, interrupted=True)


def _applied(
    plan: Plan, desired: Desired, live: Live, edges: Edges, journal: Journal
) -> ApplyReport:
    steps = Steps(plan, desired, live, edges, apply_id=journal.id)
    course = Course(edges.settings.stop, fail_fast=edges.settings.fail_fast)
    try:
        # A project that applies for the first time gets a key, unless the user brought one.
        key = secrets.token_bytes(32) if live.ledger.fingerprint_key is None else None
        edges.ledger.begin(journal, new_fingerprint_key=key)
        edges.ledger.correct(known_from_configs(edges.ledger, plan, live))
        edges.ledger.correct(overtaken_holds(edges.ledger, plan, live))
    except FATAL as error:
        course.end(error)
    edges.settings.progress(Began(journal.id, journal.actions))
    reports = _carry_out(plan, steps, course, edges.settings.parallelism)
    if course.ended_by is None:
        reports = await_health(reports, steps, edges)
    for report in reports.values():
        edges.settings.progress(ConnectorDone(report))
    return _finish(journal, tuple(reports.values()), course.ended_by, edges)


def _carry_out(
    plan: Plan, steps: Steps, course: Course, parallelism: int
) -> dict[str, ConnectorReport]:
    """The reports in the plan's order, once all that may begin has ended."""
    groups = [
        (name, tuple(numbered))
        for name, numbered in groupby(
            enumerate(plan.actions, 1), key=lambda numbered: numbered[1].connector
        )
    ]
    reports: dict[str, ConnectorReport] = {}

    def carry_out(name: str, actions: Sequence[tuple[int, Action]]) -> None:
        reports[name] = steps.group(name, actions, course)

    for _, peers in groupby(groups, key=lambda group: rank(tuple(a for _, a in group[1]))):
        run_together([partial(carry_out, *group) for group in peers], parallelism)
    return {name: reports[name] for name, _ in groups}


def _journal(plan: Plan, edges: Edges) -> Journal:
    now_ms = edges.settings.clock.now_ms()
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return Journal(
        id=f"{moment}-{secrets.token_hex(4)}",
        project=plan.project,
        by=edges.settings.by,
        since_ms=now_ms,
        actions=len(plan.actions),
        rolls_back=plan.rolls_back,
        saved_as=plan.saved_as,
    )


def _finish(
    journal: Journal,
    reports: Sequence[ConnectorReport],
    ended_by: ConnectError | None,
    edges: Edges,
) -> ApplyReport:
    interrupted = edges.settings.stop() and not all(_complete(report) for report in reports)
    code = exit_code(
        reports, interrupted=interrupted, ended=None if ended_by is None else ended_by.exit_code
    )
    if ended_by is None:
        ending = Ending.DONE if code == 0 else Ending.FAILED
        try:
            edges.ledger.finish(
                Ending.INTERRUPTED if interrupted else ending,
                exit_code=code,
                now_ms=edges.settings.clock.now_ms(),
            )
        except FATAL as error:
            # All is done and recorded; only the journal does not say so, which the next one mends.
            ended_by = error
            code = exit_code(reports, interrupted=interrupted, ended=error.exit_code)
    return _report(journal, reports, edges, code, interrupted=interrupted, ended_by=ended_by)


def _report(
    journal: Journal,
    reports: Sequence[ConnectorReport],
    edges: Edges,
    code: ExitCode,
    *,
    interrupted: bool,
    ended_by: ConnectError | None = None,
) -> ApplyReport:
    return ApplyReport(
        apply_id=journal.id,
        connectors=tuple(reports),
        interrupted=interrupted,
        ended_by=() if ended_by is None else ended_by.diagnostics,
        exit_code=code,
        seconds=(edges.settings.clock.now_ms() - journal.since_ms) / 1000,
        told_to_stop=edges.settings.stop(),
    )


def _complete(report: ConnectorReport) -> bool:
    skipped = any(result.outcome is Outcome.SKIPPED for result in report.results)
    return not skipped and report.health is not Health.NOT_AWAITED
