"""Waits until all connectors that an apply changed are healthy, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.apply.edges import FATAL, Edges
from connect_reconciler.apply.executor import Executor
from connect_reconciler.apply.health import (
    NO_STATUS,
    Judged,
    Observation,
    Periods,
    Verdict,
    Watch,
    failures,
    judge,
    watch,
    watch_lag,
)
from connect_reconciler.apply.report import ConnectorReport, Health, Waiting
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_specs.diagnostics import ConnectError
from connect_specs.states import TargetState

_HEALTHY = {
    TargetState.RUNNING: Health.RUNNING,
    TargetState.PAUSED: Health.PAUSED,
    TargetState.STOPPED: Health.STOPPED,
}
_UNTIL = {
    TargetState.RUNNING: "it runs",
    TargetState.PAUSED: "it is paused",
    TargetState.STOPPED: "it is stopped",
}
_DELETED = "it was deleted outside connect"
_FAILURES = (Verdict.FAILED, Verdict.OLD_FAILURE)


def await_health(
    reports: Mapping[str, ConnectorReport], executor: Executor, edges: Edges
) -> dict[str, ConnectorReport]:
    """The reports with the health of each connector. All are waited for at once, and watched until
    they are healthy together: one that fails meanwhile has failed."""
    found = dict(reports)
    pending = {name: Watch(each.wanted, each.changed) for name, each in executor.changed.items()}
    if not edges.cluster.runs_tasks:
        for name, state in pending.items():
            if state.wanted.target is TargetState.RUNNING:
                found[name] = replace(found[name], health=Health.LATER)
        return found
    if not pending:
        return found
    check = _HealthCheck(edges, executor)
    edges.settings.progress(_waiting_for(pending))
    healthy: set[str] = set()

    def look() -> bool:
        check.read()
        healthy.clear()
        for name in list(pending):
            pending[name], final = check.look(name, pending[name])
            if final and pending[name].judged.verdict is Verdict.HEALTHY:
                healthy.add(name)
            elif final:
                found[name] = _judged(found[name], pending.pop(name), executor)
        return healthy == pending.keys()

    def waits_for(verdict: Callable[[Watch], bool]) -> bool:
        return any(verdict(state) for name, state in pending.items() if name not in healthy)

    try:
        if not edges.patience.until(look, edges.settings.limits.health_s):
            # The time that a connector must stay healthy comes on top of the time until it is
            edges.patience.until(lambda: look() or not waits_for(_is_healthy), check.longest_s)
            # So does the time that an unsure verdict must stand
            if waits_for(_is_unsure):
                edges.patience.until(
                    lambda: look() or not waits_for(_is_unsure), check.periods.unsure_s
                )
        health, why = Health.TIMED_OUT, ""
        if edges.settings.stop():
            health = Health.NOT_AWAITED
    except ConnectError as error:
        # All is done and recorded; only the health could not be read
        health, why = Health.UNKNOWN, str(error)
        healthy.clear()
    for name, state in pending.items():
        if name in healthy:
            found[name] = _judged(found[name], state, executor)
        elif health is Health.TIMED_OUT and state.judged.detail == NO_STATUS and _gone(name, edges):
            found[name] = replace(found[name], health=Health.DELETED, health_detail=_DELETED)
        else:
            found[name] = _unfinished(found[name], state, executor, health, why)
    return found


def _gone(name: str, edges: Edges) -> bool:
    """Whether somebody deleted the connector meanwhile."""
    try:
        return edges.read_back(name) is None
    except ConnectError:
        return False


def _is_healthy(state: Watch) -> bool:
    return state.judged.verdict is Verdict.HEALTHY


def _is_unsure(state: Watch) -> bool:
    return state.judged.unsure


def _waiting_for(pending: Mapping[str, Watch]) -> Waiting:
    if len(pending) == 1:
        ((name, state),) = pending.items()
        return Waiting(name, _UNTIL[state.wanted.target])
    run = all(state.wanted.target is TargetState.RUNNING for state in pending.values())
    return Waiting(f"{len(pending)} connectors", "they run" if run else "they are healthy")


@dataclass(frozen=True, slots=True)
class _HealthCheck:
    """Checks the health of one connector after the other."""

    edges: Edges
    executor: Executor

    @property
    def periods(self) -> Periods:
        limits = self.edges.settings.limits
        settle_s = limits.settle_s if self.edges.evidence is None else 0
        return Periods(limits.healthy_s, limits.unproven_s, settle_s, limits.settle_s)

    @property
    def longest_s(self) -> float:
        periods = self.periods
        return max(periods.healthy_s, periods.unproven_s, periods.settle_s)

    def read(self) -> None:
        if self.edges.evidence is not None:
            self.edges.evidence.read()

    def look(self, name: str, state: Watch) -> tuple[Watch, bool]:
        # Between any two looks, so that a lost lease ends the health check at once
        self.edges.lease.keep()
        try:
            return self._seen(name, state)
        except RequestError:
            # A cluster that rebalances has no answer right now; the deadline bounds this.
            return state, False

    def _seen(self, name: str, state: Watch) -> tuple[Watch, bool]:
        now, limits = self.edges.settings.clock.now(), self.edges.settings.limits
        if self.edges.evidence is not None:
            long_ago = now - state.changed >= limits.settle_s
            seen = self.edges.evidence.look(name, long_ago=long_ago)
        else:
            seen = _over_rest(self.edges.cluster.status(name), self.executor.changed[name].before)
        judged = judge(seen, state.wanted)
        state, final = watch(state, judged, now, self.periods, proven=seen.proven)
        healthy = final and state.judged.verdict is Verdict.HEALTHY
        if healthy and self.edges.evidence is None and state.wanted.target is TargetState.RUNNING:
            # Last, because it is one more request: a task has no status before it has started
            found = self.edges.read_back(name)
            tasks = max(seen.tasks, found.tasks if found else 0)
            state, final = watch(
                state, judge(replace(seen, tasks=tasks), state.wanted), now, self.periods
            )
        healthy = state.judged.verdict is Verdict.HEALTHY
        runs = healthy and state.wanted.target is TargetState.RUNNING
        # Between two of its commits a sink seems to stand still
        if runs and self.edges.lags is not None and limits.healthy_s >= limits.commits_s:
            return self._with_lag(name, state, final=final)
        return state, final

    def _with_lag(self, name: str, state: Watch, *, final: bool) -> tuple[Watch, bool]:
        lags = self.edges.lags
        if lags is None or state.keeps_up or (state.first is not None and not final):
            return state, final
        status = self.edges.cluster.status(name)
        if status is None or status.type != "sink":
            return state, final
        try:
            return watch_lag(state, lags(name), final=final)
        except FATAL:
            raise
        except ConnectError as error:
            # The connector runs; an unknown lag is reported, and is no failure of its own
            judged = Judged(Verdict.HEALTHY, f"its lag could not be read: {error}")
            return (replace(state, judged=judged) if final else state), final


def _over_rest(status: ConnectorStatus | None, before: ConnectorStatus | None) -> Observation:
    """REST does not tell when a status was written. A failure that was there before is an old one;
    a new one of a task that existed before may be of its old config."""
    if status is None:
        return Observation(None, 0)
    then, now = failures(before), failures(status)
    old = {number for number, part in now.items() if then.get(number) == part}
    existed = () if before is None else before.tasks
    unsure = {number for number in existed if number in now and number not in then}
    count = max(status.tasks, default=-1) + 1
    return Observation(status, count, outdated=frozenset(old), unsure=frozenset(unsure))


def _judged(report: ConnectorReport, state: Watch, executor: Executor) -> ConnectorReport:
    healthy = state.judged.verdict is Verdict.HEALTHY
    return replace(
        report,
        health=_HEALTHY[state.wanted.target] if healthy else Health.FAILED,
        health_detail=executor.redact(report.name, state.judged.detail),
    )


def _unfinished(
    report: ConnectorReport, state: Watch, executor: Executor, health: Health, why: str
) -> ConnectorReport:
    """The report of a connector whose verdict was not final when the time was over."""
    detail = state.judged.detail
    if health is Health.TIMED_OUT and state.judged.unsure and not detail:
        detail = "a task may still run with its old config"
    if health is Health.TIMED_OUT and state.grew:
        health, detail = Health.FALLS_BEHIND, state.grew
    elif health is Health.TIMED_OUT and state.judged.verdict in _FAILURES:
        health = Health.FAILED
    return replace(report, health=health, health_detail=why or executor.redact(report.name, detail))
