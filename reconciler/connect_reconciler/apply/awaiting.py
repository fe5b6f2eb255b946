"""Waits until all connectors that an apply let run do run, or says what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.apply.edges import FATAL, Edges
from connect_reconciler.apply.health import Judged, Verdict, Watch, watch, watch_lag
from connect_reconciler.apply.progress import Waiting
from connect_reconciler.apply.report import ConnectorReport, Health
from connect_reconciler.apply.steps import Steps
from connect_runtime.herder.errors import RequestError
from connect_specs.diagnostics import ConnectError


def await_health(
    reports: Mapping[str, ConnectorReport], steps: Steps, edges: Edges
) -> dict[str, ConnectorReport]:
    """The reports with what was seen of each connector's health, all awaited at once."""
    found = dict(reports)
    settings, limits = edges.settings, edges.settings.limits
    pending = {name: Watch(before) for name, before in steps.waits.items()}
    if not edges.cluster.runs_tasks:
        for name in pending:
            found[name] = replace(found[name], health=Health.LATER)
        return found
    if len(pending) == 1:
        settings.progress(Waiting(next(iter(pending)), "it runs"))
    elif pending:
        settings.progress(Waiting(f"{len(pending)} connectors", "they run"))

    def look() -> bool:
        for name in list(pending):
            pending[name], final = _look(name, pending[name], edges)
            if final:
                found[name] = _judged(found[name], pending.pop(name), steps)
        return not pending

    try:
        # The time that all must run comes on top of the time until they do
        edges.patience.until(look, limits.health_s + limits.settle_s)
        edges.lease.keep()
        health, why = Health.TIMED_OUT, ""
        if settings.stop():
            health = Health.NOT_AWAITED
    except FATAL as error:
        health, why = Health.UNKNOWN, str(error)
    for name, state in pending.items():
        behind = health is Health.TIMED_OUT and state.grew
        detail = why or steps.hidden(name, state.grew if behind else state.judged.detail)
        ended = Health.FALLS_BEHIND if behind else health
        found[name] = replace(found[name], health=ended, health_detail=detail)
    return found


def _look(name: str, state: Watch, edges: Edges) -> tuple[Watch, bool]:
    # Heard between looks, or Kafka takes the lease away from a member that is silent for minutes.
    edges.lease.keep()
    try:
        return _seen(name, state, edges)
    except RequestError:
        # A cluster that rebalances has no answer right now; the deadline bounds this.
        return state, False


def _seen(name: str, state: Watch, edges: Edges) -> tuple[Watch, bool]:
    status = edges.cluster.status(name)
    now = edges.settings.clock.now()
    state, final = watch(state, status, now, edges.settings.limits.settle_s)
    if final and state.judged.verdict is Verdict.RUNNING:
        # Last, because it is read from Kafka: a task has no status before it has begun.
        found = edges.read_back(name)
        told = status.tasks if status else {}
        silent = [number for number in range(found.tasks if found else 0) if number not in told]
        if silent:
            detail = f"task {silent[0]} has no status yet"
            return Watch(state.before, Judged(Verdict.UNSETTLED, detail), now), False
    limits = edges.settings.limits
    runs = state.judged.verdict is Verdict.RUNNING
    # Between two of its commits a sink seems to stand still
    if runs and status and status.type == "sink" and limits.settle_s >= limits.commits_s:
        return _with_lag(name, state, edges, final=final)
    return state, final


def _with_lag(name: str, state: Watch, edges: Edges, *, final: bool) -> tuple[Watch, bool]:
    if edges.standings is None or (state.first is not None and not final):
        return state, final
    try:
        return watch_lag(state, edges.standings(name), final=final)
    except FATAL:
        raise
    except ConnectError as error:
        # It runs; that its lag is not known is said, and is no failure of its own
        judged = Judged(Verdict.RUNNING, f"its lag could not be read: {error}")
        return (replace(state, judged=judged) if final else state), final


def _judged(report: ConnectorReport, state: Watch, steps: Steps) -> ConnectorReport:
    failed = state.judged.verdict is Verdict.FAILED
    return replace(
        report,
        health=Health.FAILED if failed else Health.RUNNING,
        health_detail=steps.hidden(report.name, state.judged.detail),
    )
