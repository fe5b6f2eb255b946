"""Applies one plan: checks all of it, then changes several connectors at a time.

What ends a connector's work is over before anything starts: the ranks of the plan's order are
barriers. A connector that fails is left where it is, and the others go on; only a lost lease,
ledger or cluster ends the apply. The health check comes last, for all connectors at once: nothing
in a plan depends on it, and the waits then overlap.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

from connect_reconciler.actions import Action
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.edges import FATAL, Edges
from connect_reconciler.apply.executor import Executor, NewStarts
from connect_reconciler.apply.health_gate import await_health
from connect_reconciler.apply.preconditions import ensure_fresh
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
from connect_reconciler.ledger.journal import Ending, Journal
from connect_reconciler.ledger.snapshots import overtaken_stops, owned_by_configs
from connect_reconciler.model.live import Live
from connect_reconciler.plan.order import rank
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, ExitCode

_JOIN_S = 0.2
# Nothing is wrong with these, and nothing was seen of them
_UNSEEN = (Health.LATER, Health.NOT_AWAITED)


def apply_plan(
    plan: Plan,
    desired: Desired,
    project: Project,
    edges: Edges,
    *,
    observe: Callable[[], Live],
    unproven: Collection[str] = (),
) -> ApplyReport:
    """Applies `plan` and reports what became of each action. `unproven` are connectors that earlier
    applies changed and did not see healthy: their health is checked, too.

    Observes first: raises Stale or Invalid, and nothing was touched. After that nothing is raised
    but what kills the process; every failure is in the report. An apply that is interrupted twice
    reports what is known by then, and leaves its journal open, as a killed apply does.
    """
    live = observe()
    ensure_fresh(plan, desired, project, live)
    edges.lease.keep()
    journal, began = _new_journal(plan, edges), edges.settings.clock.now()
    recorder = ResultRecorder(plan, edges.settings.progress)
    edges = replace(edges, settings=replace(edges.settings, progress=recorder))
    try:
        report = _applied(plan, desired, live, edges, journal, unproven)
    except KeyboardInterrupt:
        report = _report(journal, recorder.end(), edges, ExitCode.INTERRUPTED, interrupted=True)
    return replace(report, seconds=edges.settings.clock.now() - began)


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
    edges: Edges,
    journal: Journal,
    unproven: Collection[str],
) -> ApplyReport:
    settings = edges.settings
    executor = Executor(plan, desired, live, edges, apply_id=journal.id)
    starts = NewStarts(settings.stop, fail_fast=settings.fail_fast)
    if unproven and not plan.actions and not live.ledger.unfinished:
        # Nothing is changed, so there is no journal
        reports = _with_health({}, executor, starts, edges, unproven)
        return _finish(journal, tuple(reports.values()), starts.ended_by, edges, checked_only=True)
    try:
        # A project that applies for the first time gets a key, unless the user brought one.
        key = secrets.token_bytes(32) if live.ledger.fingerprint_key is None else None
        edges.ledger.begin(journal, new_fingerprint_key=key)
        topic = edges.ledger.topic
        edges.ledger.correct(owned_by_configs(topic, edges.ledger.state, plan.project, live))
        edges.ledger.correct(overtaken_stops(topic, edges.ledger.state, plan.project, live))
    except FATAL as error:
        starts.end(error)
    settings.progress(Began(journal.id, journal.actions))
    reports = _run_connectors(plan, executor, starts, settings.parallelism)
    reports = _with_health(reports, executor, starts, edges, unproven)
    for report in reports.values():
        settings.progress(ConnectorDone(report))
    return _finish(journal, tuple(reports.values()), starts.ended_by, edges)


def _with_health(
    reports: dict[str, ConnectorReport],
    executor: Executor,
    starts: NewStarts,
    edges: Edges,
    unproven: Collection[str],
) -> dict[str, ConnectorReport]:
    """The reports with the health of each connector, also of those that only earlier applies
    changed."""
    if starts.ended_by is not None:
        return reports
    found = dict(reports)
    for name in sorted(set(unproven) - executor.changed.keys()):
        # One that was changed in the ledger alone is judged, too
        known = found.get(name, ConnectorReport(name, ()))
        if not known.ok:
            continue
        try:
            if executor.watch(name):
                found[name] = known
        except FATAL as error:
            starts.end(error)
            return found
        except ConnectError as error:
            found[name] = replace(known, health=Health.UNKNOWN, health_detail=str(error))
    return await_health(found, executor, edges)


def _run_connectors(
    plan: Plan, executor: Executor, starts: NewStarts, parallelism: int
) -> dict[str, ConnectorReport]:
    """The reports in the plan's order, once all that may start has ended."""
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


def _new_journal(plan: Plan, edges: Edges) -> Journal:
    now_ms = edges.settings.clock.now_ms()
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return Journal(
        id=f"{moment}-{secrets.token_hex(4)}",
        project=plan.project,
        by=edges.settings.by,
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
    edges: Edges,
    *,
    checked_only: bool = False,
) -> ApplyReport:
    """Closes the journal; `checked_only`: there is none, and health alone was checked."""
    interrupted = edges.settings.stop() and not all(_complete(report) for report in reports)
    code = exit_code(
        reports, interrupted=interrupted, ended=None if ended_by is None else ended_by.exit_code
    )
    later = any(each.health is Health.LATER for each in reports)
    if code is ExitCode.OK and later and edges.settings.require_running:
        code = ExitCode.FAILED
    if ended_by is None:
        ending = Ending.DONE if code == 0 else Ending.FAILED
        proven = [each.name for each in reports if each.ok and each.health not in _UNSEEN]
        try:
            if checked_only:
                edges.ledger.prove(journal.project, proven)
            else:
                edges.ledger.finish(
                    Ending.INTERRUPTED if interrupted else ending,
                    exit_code=code,
                    now_ms=edges.settings.clock.now_ms(),
                    proven=proven,
                )
        except FATAL as error:
            # All is done and recorded; only the journal is still open, which the next apply closes
            ended_by = error
            code = exit_code(reports, interrupted=interrupted, ended=error.exit_code)
    if checked_only:
        # An id that no journal has would lead nowhere
        journal = replace(journal, id="")
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
        told_to_stop=edges.settings.stop(),
        runtime_up=edges.cluster.runs_tasks,
    )


def _complete(report: ConnectorReport) -> bool:
    skipped = any(result.outcome is Outcome.SKIPPED for result in report.results)
    return not skipped and report.health is not Health.NOT_AWAITED
