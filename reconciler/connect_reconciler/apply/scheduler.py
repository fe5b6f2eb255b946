"""Applies one plan: checks all of it, then changes several connectors at a time.

Connectors that end do so before others start: the ranks of the plan's order are barriers. A
connector that fails is left where it is, and the others go on; only a lost lease, ledger or cluster
ends the apply. The health check comes last, for all connectors at once: nothing in a plan depends
on it, and the waits then overlap.
"""

from __future__ import annotations

import queue
import re
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from connect_reconciler.actions import Action
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.context import FATAL, ApplyContext, NewStarts
from connect_reconciler.apply.executor import Executor
from connect_reconciler.apply.health_check import await_health
from connect_reconciler.apply.report import (
    ApplyReport,
    Began,
    ConnectorDone,
    ConnectorReport,
    Health,
    Outcome,
    ResultRecorder,
    exit_code,
)
from connect_reconciler.ledger.config_entry import overtaken_stops, owned_by_configs
from connect_reconciler.ledger.journal import Ending, Journal
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import rank
from connect_reconciler.plan.remaining import ensure_fresh
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, ExitCode
from connect_specs.plain_text import time_text

_JOIN_S = 0.2
# Healthy as far as is known, without an observation
_UNSEEN = (Health.LATER, Health.NOT_AWAITED)


def apply_plan(
    plan: Plan,
    desired: Desired,
    project: Project,
    live: Live,
    context: ApplyContext,
    *,
    unproven: Collection[str] = (),
) -> ApplyReport:
    """Applies `plan` and reports the outcome of each action. `live` is the cluster as it was
    observed under the lease. `unproven` are connectors that earlier applies changed and did not see
    healthy: their health is checked, too.

    Raises Stale or Invalid before anything is touched. After that nothing is raised but what kills
    the process; every failure is in the report. An apply that is interrupted twice reports what is
    known by then, and leaves its journal open, as a killed apply does.
    """
    ensure_fresh(plan, desired, project, live)
    context.lease.keep()
    journal, began_s = _new_journal(plan, context), context.clock.now()
    recorder = ResultRecorder(plan, context.progress)
    context = replace(context, progress=recorder)
    try:
        report = _applied(plan, desired, live, context, journal, unproven)
    except KeyboardInterrupt:
        report = _report(journal, recorder.end(), context, ExitCode.INTERRUPTED, interrupted=True)
    return replace(report, seconds=context.clock.now() - began_s)


def run_jobs(jobs: Sequence[Callable[[], None]], parallelism: int) -> None:
    """Runs jobs on so many threads, and returns when all have ended. An error of a job is raised
    then, and no further job starts.

    The threads do not keep the process alive: a second Ctrl-C does not wait for them.
    """
    if parallelism == 1 or len(jobs) == 1:
        for job in jobs:
            job()
        return
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    raised: list[BaseException] = []

    def work() -> None:
        while not raised:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                job()
            except BaseException as error:
                raised.append(error)

    threads = [
        threading.Thread(target=work, name=f"apply-{number}", daemon=True)
        for number in range(min(parallelism, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # The kernel may give Ctrl-C to another thread, and Python's handler waits for this one
        while thread.is_alive():
            thread.join(_JOIN_S)
    if raised:
        raise raised[0]


def _applied(
    plan: Plan,
    desired: Desired,
    live: Live,
    context: ApplyContext,
    journal: Journal,
    unproven: Collection[str],
) -> ApplyReport:
    executor = Executor(plan, desired, live, context, apply_id=journal.id)
    starts = NewStarts(context.stop, fail_fast=context.fail_fast)
    if unproven and not plan.actions and not live.ledger.unfinished:
        # Nothing is changed, so there is no journal
        reports = _with_health({}, executor, starts, context, unproven)
        return _finish(
            journal, tuple(reports.values()), starts.ended_by, context, checked_only=True
        )
    try:
        # A project that applies for the first time gets a key, unless the user brought one.
        key = secrets.token_bytes(32) if live.ledger.fingerprint_key is None else None
        context.ledger.begin(journal, new_fingerprint_key=key)
        topic = context.ledger.topic
        context.ledger.correct(owned_by_configs(topic, context.ledger.state, plan.project, live))
        context.ledger.correct(overtaken_stops(topic, context.ledger.state, plan.project, live))
    except FATAL as error:
        starts.end(error)
    context.progress(Began(journal.id, journal.actions))
    reports = _run_connectors(plan, executor, starts, context.parallelism)
    reports = _with_health(reports, executor, starts, context, unproven)
    for report in reports.values():
        context.progress(ConnectorDone(report))
    return _finish(journal, tuple(reports.values()), starts.ended_by, context)


def _with_health(
    reports: dict[str, ConnectorReport],
    executor: Executor,
    starts: NewStarts,
    context: ApplyContext,
    unproven: Collection[str],
) -> dict[str, ConnectorReport]:
    """Returns the reports with the health of each connector, also of those that only earlier
    applies changed."""
    if starts.ended_by is not None:
        return reports
    reports = dict(reports)
    for name in sorted(set(unproven) - executor.changed.keys()):
        # A connector that was changed in the ledger alone is judged, too
        report = reports.get(name, ConnectorReport(name, ()))
        if not report.ok:
            continue
        try:
            if executor.watch(name):
                reports[name] = report
        except FATAL as error:
            starts.end(error)
            return reports
        except ConnectError as error:
            reports[name] = replace(report, health=Health.UNKNOWN, health_detail=str(error))
    return await_health(reports, executor, context)


def _run_connectors(
    plan: Plan, executor: Executor, starts: NewStarts, parallelism: int
) -> dict[str, ConnectorReport]:
    """Runs all connectors. Returns their reports in the plan's order."""
    groups = [
        (name, tuple(numbered))
        for name, numbered in groupby(
            enumerate(plan.actions, 1), key=lambda numbered: numbered[1].group
        )
    ]
    reports: dict[str, ConnectorReport] = {}

    def run(name: str, actions: Sequence[tuple[int, Action]]) -> None:
        reports[name] = executor.run(name, actions, starts)

    for _, peers in groupby(groups, key=lambda group: rank(tuple(a for _, a in group[1]))):
        run_jobs([partial(run, *group) for group in peers], parallelism)
    return {name: reports[name] for name, _ in groups}


def _new_journal(plan: Plan, context: ApplyContext) -> Journal:
    now_ms = context.clock.now_ms()
    moment = re.sub("[-:]", "", time_text(now_ms))
    return Journal(
        id=f"{moment}-{secrets.token_hex(4)}",
        project=plan.project,
        by=context.by,
        since_ms=now_ms,
        actions=len(plan.actions),
        rolls_back=plan.rolls_back,
        partial=plan.rolls_back is not None and plan.targeted,
        saved_as=plan.saved_as,
    )


def _finish(
    journal: Journal,
    reports: Sequence[ConnectorReport],
    ended_by: ConnectError | None,
    context: ApplyContext,
    *,
    checked_only: bool = False,
) -> ApplyReport:
    """Closes the journal; `checked_only`: there is none, and health alone was checked."""
    interrupted = context.stop() and not all(_complete(report) for report in reports)
    code = exit_code(
        reports, interrupted=interrupted, cause=None if ended_by is None else ended_by.exit_code
    )
    later = any(report.health is Health.LATER for report in reports)
    if code is ExitCode.OK and later and context.require_running:
        code = ExitCode.FAILED
    if ended_by is None:
        ending = Ending.DONE if code == 0 else Ending.FAILED
        proven = [report.name for report in reports if report.ok and report.health not in _UNSEEN]
        try:
            if checked_only:
                context.ledger.prove(journal.project, proven)
            else:
                context.ledger.finish(
                    Ending.INTERRUPTED if interrupted else ending,
                    exit_code=code,
                    now_ms=context.clock.now_ms(),
                    proven=proven,
                )
        except FATAL as error:
            # All is done and recorded; only the journal is still open, which the next apply closes
            ended_by = error
            code = exit_code(reports, interrupted=interrupted, cause=error.exit_code)
    if checked_only:
        # An id that no journal has would lead nowhere
        journal = replace(journal, id="")
    return _report(journal, reports, context, code, interrupted=interrupted, ended_by=ended_by)


def _report(
    journal: Journal,
    reports: Sequence[ConnectorReport],
    context: ApplyContext,
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
        told_to_stop=context.stop(),
        runtime_up=context.cluster.runs_tasks,
    )


def _complete(report: ConnectorReport) -> bool:
    skipped = any(result.outcome is Outcome.SKIPPED for result in report.results)
    return not skipped and report.health is not Health.NOT_AWAITED
