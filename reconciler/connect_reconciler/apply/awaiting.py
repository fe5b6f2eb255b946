"""Waits until all connectors that an apply changed are as they are to be, or says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from connect_reconciler.apply.edges import FATAL, Edges
from connect_reconciler.apply.health import (
    Judged,
    Look,
    Periods,
    Verdict,
    Watch,
    failures,
    judge,
    watch,
    watch_lag,
)
from connect_reconciler.apply.progress import Waiting
from connect_reconciler.apply.report import ConnectorReport, Health
from connect_reconciler.apply.steps import Steps
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.values import ConnectorStatus
from connect_specs.diagnostics import ConnectError
from connect_specs.states import TargetState

_WELL = {
    TargetState.RUNNING: Health.RUNNING,
    TargetState.PAUSED: Health.PAUSED,
    TargetState.STOPPED: Health.STOPPED,
}
_UNTIL = {
    TargetState.RUNNING: "it runs",
    TargetState.PAUSED: "it is paused",
    TargetState.STOPPED: "it is stopped",
}


def await_health(
    reports: Mapping[str, ConnectorReport], steps: Steps, edges: Edges
) -> dict[str, ConnectorReport]:
    """The reports with what was seen of each connector's health, all awaited at once."""
    found = dict(reports)
    pending = {name: Watch(each.wanted, each.changed) for name, each in steps.waits.items()}
    if not edges.cluster.runs_tasks:
        for name, state in pending.items():
            if state.wanted.target is TargetState.RUNNING:
                found[name] = replace(found[name], health=Health.LATER)
        return found
    if not pending:
        return found
    waiting = _Waiting(edges, steps)
    edges.settings.progress(_waiting_for(pending))

    def look() -> bool:
        waiting.read()
        for name in list(pending):
            pending[name], final = waiting.look(name, pending[name])
            if final:
                found[name] = _judged(found[name], pending.pop(name), steps)
        return not pending

    try:
        # The time that all must be well comes on top of the time until they are
        edges.patience.until(look, edges.settings.limits.health_s + waiting.longest_s)
        edges.lease.keep()
        health, why = Health.TIMED_OUT, ""
        if edges.settings.stop():
            health = Health.NOT_AWAITED
    except ConnectError as error:
        # All is done and recorded; whether it is well could not be seen
        health, why = Health.UNKNOWN, str(error)
    for name, state in pending.items():
        found[name] = _unfinished(found[name], state, steps, health, why)
    return found


def _waiting_for(pending: Mapping[str, Watch]) -> Waiting:
    if len(pending) == 1:
        ((name, state),) = pending.items()
        return Waiting(name, _UNTIL[state.wanted.target])
    run = all(state.wanted.target is TargetState.RUNNING for state in pending.values())
    return Waiting(
        f"{len(pending)} connectors", "they run" if run else "they are as they are to be"
    )


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Looks at one connector after the other."""

    edges: Edges
    steps: Steps

    @property
    def periods(self) -> Periods:
        limits = self.edges.settings.limits
        settle_s = limits.settle_s if self.edges.evidence is None else 0
        return Periods(limits.well_s, settle_s, limits.settle_s)

    @property
    def longest_s(self) -> float:
        return max(self.periods.well_s, self.periods.settle_s)

    def read(self) -> None:
        if self.edges.evidence is not None:
            self.edges.evidence.read()

    def look(self, name: str, state: Watch) -> tuple[Watch, bool]:
        # Heard between looks, or Kafka takes the lease away from a member that is silent for
        # minutes
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
            seen = _over_rest(self.edges.cluster.status(name), self.steps.waits[name].before)
        state, final = watch(state, judge(seen, state.wanted), now, self.periods)
        well = final and state.judged.verdict is Verdict.WELL
        if well and self.edges.evidence is None and state.wanted.target is TargetState.RUNNING:
            # Last, because it is one more request: a task has no status before it has begun
            found = self.edges.read_back(name)
            tasks = max(seen.tasks, found.tasks if found else 0)
            state, final = watch(
                state, judge(replace(seen, tasks=tasks), state.wanted), now, self.periods
            )
        runs = state.judged.verdict is Verdict.WELL and state.wanted.target is TargetState.RUNNING
        # Between two of its commits a sink seems to stand still
        if runs and self.edges.standings is not None and limits.well_s >= limits.commits_s:
            return self._with_lag(name, state, final=final)
        return state, final

    def _with_lag(self, name: str, state: Watch, *, final: bool) -> tuple[Watch, bool]:
        standings = self.edges.standings
        if standings is None or (state.first is not None and not final):
            return state, final
        status = self.edges.cluster.status(name)
        if status is None or status.type != "sink":
            return state, final
        try:
            return watch_lag(state, standings(name), final=final)
        except FATAL:
            raise
        except ConnectError as error:
            # It runs; that its lag is not known is said, and is no failure of its own
            judged = Judged(Verdict.WELL, f"its lag could not be read: {error}")
            return (replace(state, judged=judged) if final else state), final


def _over_rest(status: ConnectorStatus | None, before: ConnectorStatus | None) -> Look:
    """Nothing tells when it was said; a failure that was there before is an old one."""
    if status is None:
        return Look(None, 0)
    then = failures(before)
    late = {number for number, part in failures(status).items() if then.get(number) == part}
    return Look(status, max(status.tasks, default=-1) + 1, late=frozenset(late))


def _judged(report: ConnectorReport, state: Watch, steps: Steps) -> ConnectorReport:
    well = state.judged.verdict is Verdict.WELL
    return replace(
        report,
        health=_WELL[state.wanted.target] if well else Health.FAILED,
        health_detail=steps.hidden(report.name, state.judged.detail),
    )


def _unfinished(
    report: ConnectorReport, state: Watch, steps: Steps, health: Health, why: str
) -> ConnectorReport:
    """One whose verdict was not final when the time was over."""
    detail = state.judged.detail
    if health is Health.TIMED_OUT and state.grew:
        health, detail = Health.FALLS_BEHIND, state.grew
    elif health is Health.TIMED_OUT and state.judged.verdict is Verdict.OLD_FAILURE:
        health = Health.FAILED
    return replace(report, health=health, health_detail=why or steps.hidden(report.name, detail))
