"""Waits until all connectors that an apply changed are healthy, and reports those that are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.apply.context import FATAL, ApplyContext
from connect_reconciler.apply.executor import Executor
from connect_reconciler.apply.health import (
    NO_STATUS,
    HealthVerdict,
    HealthWatch,
    Observation,
    Periods,
    Verdict,
    failures,
    judge,
    watch,
    watch_lag,
)
from connect_reconciler.apply.report import ConnectorReport, Health, Waiting
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_specs.desired import TargetState
from connect_specs.diagnostics import ConnectError

_UNTIL = {
    TargetState.RUNNING: "it runs",
    TargetState.PAUSED: "it is paused",
    TargetState.STOPPED: "it is stopped",
}
_DELETED = "it was deleted outside connect"
_FAILURES = (Verdict.FAILED, Verdict.OLD_FAILURE)


def await_health(
    reports: Mapping[str, ConnectorReport], executor: Executor, context: ApplyContext
) -> dict[str, ConnectorReport]:
    """Returns the reports with the health of each connector. All are waited for at once, and
    watched until they are healthy together: a connector that fails until then has failed."""
    judged = dict(reports)
    pending = {
        name: HealthWatch(changed.goal, changed.at) for name, changed in executor.changed.items()
    }
    if not context.cluster.runs_tasks:
        for name, state in pending.items():
            if state.goal.target is TargetState.RUNNING:
                judged[name] = replace(judged[name], health=Health.LATER)
        return judged
    if not pending:
        return judged
    check = _HealthCheck(context, executor)
    context.progress(_waiting_for(pending))
    healthy: set[str] = set()

    def all_are_healthy() -> bool:
        check.read()
        healthy.clear()
        for name in list(pending):
            pending[name], final = check.watched(name, pending[name])
            if final and _is_healthy(pending[name]):
                healthy.add(name)
            elif final:
                judged[name] = _judged(judged[name], pending.pop(name), executor)
        return healthy == pending.keys()

    def is_awaited(condition: Callable[[HealthWatch], bool]) -> bool:
        return any(condition(state) for name, state in pending.items() if name not in healthy)

    waiter, reason, health = context.waiter, "", Health.TIMED_OUT
    try:
        if not waiter.until(all_are_healthy, context.limits.health_s):
            # The time that a connector must stay healthy comes on top of the time until it is
            waiter.until(lambda: all_are_healthy() or not is_awaited(_is_healthy), check.longest_s)
            # So does the time that an unsure verdict must stand
            if is_awaited(_is_unsure):
                waiter.until(
                    lambda: all_are_healthy() or not is_awaited(_is_unsure), check.periods.unsure_s
                )
        if context.stop():
            health = Health.NOT_AWAITED
    except ConnectError as error:
        # All is done and recorded; only the health could not be read
        health, reason = Health.UNKNOWN, str(error)
        healthy.clear()
    for name, state in pending.items():
        report = judged[name]
        if name in healthy:
            judged[name] = _judged(report, state, executor)
        elif (
            health is Health.TIMED_OUT and state.judged.detail == NO_STATUS and _gone(name, context)
        ):
            judged[name] = replace(report, health=Health.DELETED, health_detail=_DELETED)
        else:
            judged[name] = _unfinished(report, state, executor, health, reason)
    return judged


def _gone(name: str, context: ApplyContext) -> bool:
    """Returns True if the connector was deleted since."""
    try:
        return context.read_connector(name) is None
    except ConnectError:
        return False


def _is_healthy(state: HealthWatch) -> bool:
    return state.judged.verdict is Verdict.HEALTHY


def _is_unsure(state: HealthWatch) -> bool:
    return state.judged.unsure


def _waiting_for(pending: Mapping[str, HealthWatch]) -> Waiting:
    if len(pending) == 1:
        ((name, state),) = pending.items()
        return Waiting(name, _UNTIL[state.goal.target])
    run = all(state.goal.target is TargetState.RUNNING for state in pending.values())
    return Waiting(f"{len(pending)} connectors", "they run" if run else "they are healthy")


@dataclass(frozen=True, slots=True)
class _HealthCheck:
    """Checks the health of one connector after the other."""

    context: ApplyContext
    executor: Executor

    @property
    def periods(self) -> Periods:
        limits = self.context.limits
        settle_s = limits.settle_s if self.context.observer is None else 0
        return Periods(limits.healthy_s, limits.unproven_s, settle_s, limits.settle_s)

    @property
    def longest_s(self) -> float:
        periods = self.periods
        return max(periods.healthy_s, periods.unproven_s, periods.settle_s)

    def read(self) -> None:
        if self.context.observer is not None:
            self.context.observer.read()

    def watched(self, name: str, state: HealthWatch) -> tuple[HealthWatch, bool]:
        """Returns the watch after one more observation, and whether its verdict is final."""
        # Between any two observations, so that a lost lease ends the health check at once
        self.context.lease.keep()
        try:
            return self._observed(name, state)
        except RequestError:
            # A cluster that rebalances has no answer right now; the deadline bounds this.
            return state, False

    def _observed(self, name: str, state: HealthWatch) -> tuple[HealthWatch, bool]:
        context, limits = self.context, self.context.limits
        now_s, runs = context.clock.now(), state.goal.target is TargetState.RUNNING
        if context.observer is not None:
            long_ago = now_s - state.changed_at >= limits.settle_s
            observation = context.observer.observe(name, long_ago=long_ago)
        else:
            earlier = self.executor.changed[name].earlier
            observation = _over_rest(context.cluster.status(name), earlier)
        judged = judge(observation, state.goal)
        state, final = watch(state, judged, now_s, self.periods, proven=observation.proven)
        if final and _is_healthy(state) and runs and context.observer is None:
            # Last, because it is one more request: a task has no status before it has started
            stored = context.read_connector(name)
            tasks = max(observation.tasks, stored.tasks if stored else 0)
            judged = judge(replace(observation, tasks=tasks), state.goal)
            state, final = watch(state, judged, now_s, self.periods)
        # Between two of its commits a sink seems to stand still
        commits = context.lags is not None and limits.healthy_s >= limits.commits_s
        if commits and runs and _is_healthy(state):
            return self._with_lag(name, state, final=final)
        return state, final

    def _with_lag(self, name: str, state: HealthWatch, *, final: bool) -> tuple[HealthWatch, bool]:
        lags = self.context.lags
        if lags is None or state.keeps_up or (state.first_lags is not None and not final):
            return state, final
        status = self.context.cluster.status(name)
        if status is None or status.type != "sink":
            return state, final
        try:
            return watch_lag(state, lags(name), final=final)
        except FATAL:
            raise
        except ConnectError as error:
            # The connector runs; an unknown lag is reported, and is no failure of its own
            judged = HealthVerdict(Verdict.HEALTHY, f"its lag could not be read: {error}")
            return (replace(state, judged=judged) if final else state), final


def _over_rest(status: ConnectorStatus | None, earlier: ConnectorStatus | None) -> Observation:
    """Returns an observation from REST, which has no times of statuses. A failure that was there
    before the change is an old one; a new one of a task that existed then may be of its old
    config."""
    if status is None:
        return Observation(None, 0)
    earlier_failed, failed = failures(earlier), failures(status)
    outdated = {number for number, task in failed.items() if earlier_failed.get(number) == task}
    existed = () if earlier is None else earlier.tasks
    unsure = {number for number in existed if number in failed and number not in earlier_failed}
    count = max(status.tasks, default=-1) + 1
    return Observation(status, count, outdated=frozenset(outdated), unsure=frozenset(unsure))


def _judged(report: ConnectorReport, state: HealthWatch, executor: Executor) -> ConnectorReport:
    return replace(
        report,
        health=Health(state.goal.target) if _is_healthy(state) else Health.FAILED,
        health_detail=executor.redact(report.name, state.judged.detail),
    )


def _unfinished(
    report: ConnectorReport, state: HealthWatch, executor: Executor, health: Health, reason: str
) -> ConnectorReport:
    """Returns the report of a connector whose verdict was not final when the time was over."""
    detail = state.judged.detail
    if health is Health.TIMED_OUT and state.judged.unsure and not detail:
        detail = "a task may still run with its old config"
    if health is Health.TIMED_OUT and state.lag_growth:
        health, detail = Health.FALLS_BEHIND, state.lag_growth
    elif health is Health.TIMED_OUT and state.judged.verdict in _FAILURES:
        health = Health.FAILED
    return replace(
        report, health=health, health_detail=reason or executor.redact(report.name, detail)
    )
