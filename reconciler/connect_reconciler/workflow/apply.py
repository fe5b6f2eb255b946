"""From a plan to a cluster: shown, agreed to, applied under the lease, reported, and rolled back
where that is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from glob import escape
from typing import TYPE_CHECKING

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.context import ApplyContext, Limits
from connect_reconciler.apply.report import LATER, ApplyReport, Outcome
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.apply.sink_moves import rights_to_move
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.lease import Lease, LeaseRefused, OnWait, identity, no_progress
from connect_reconciler.model.live import Live
from connect_reconciler.plan.rollback import Configs
from connect_reconciler.plan.scope import ALL, Scope
from connect_reconciler.validation.configs import COMMITS, ensure_installed, whole_number
from connect_reconciler.workflow.planning import PlanChanged, Planned, PlanSource
from connect_reconciler.workflow.rollback import FromSnapshots
from connect_reconciler.workflow.tracing import traced
from connect_reconciler.workflow.user import Choices, StopRequest, User
from connect_runtime.kafka.client_checks import check_rights
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode
from connect_specs.plain_text import listed

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy

_COMMITS_MS = 60_000
_RETRY_S = 1.0
_CHANGED = "the cluster changed since the plan was shown; this is what there is to do now"
_DENIED = "not applied: the plan has errors that it did not have when it was shown"


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """Result of an automatic rollback: its plan, report or errors. `left_out` names connectors that
    are not rolled back, with the reason."""

    plan: Plan | None = None
    report: ApplyReport | None = None
    errors: tuple[Diagnostic, ...] = ()
    left_out: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of a run, and the plan that was shown last. `declined`: the user did not agree."""

    plan: Plan
    exit_code: ExitCode
    report: ApplyReport | None = None
    rollback: RollbackResult | None = None
    declined: bool = False


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """One run of `apply` or `rollback`.

    `source` makes the plan again once no other apply can change anything. `lease` was taken over
    for this run. `rollback_policies` judge the rollback of an apply that failed; None: it is not
    rolled back. Of the connectors that earlier applies left unproven, the run checks those in
    `scope` alone.
    """

    backend: Backend
    user: User
    choices: Choices
    source: PlanSource
    lease: Lease | None = None
    rollback_policies: tuple[Policy, ...] | None = None
    scope: Scope = ALL

    def run(self, planned: Planned) -> ApplyResult:
        """Shows the plan, asks, and applies it. A plan that has changed under the lease is shown,
        and asked for again. The exit code of a run that is rolled back stays that of the failure.

        Raises Stale where the plan is out of date, or the user cannot be asked about its successor.
        """
        while True:
            if (result := self._result_before(planned)) is not None:
                return result
            try:
                report = self._execute(planned, replan=True)
            except PlanChanged as changed:
                planned = changed.planned
                if not self.user.can_be_asked and not planned.plan.errors:
                    self.user.show(planned.plan)
                    raise changed.as_error() from None
                self.user.say(_DENIED if planned.plan.errors else _CHANGED)
            else:
                return self._reported(planned, report)

    def _result_before(self, planned: Planned) -> ApplyResult | None:
        """Shows the plan and asks. Returns None if it is to be applied."""
        plan, live = planned.plan, planned.live
        self.user.show(plan)
        if plan.errors:
            return ApplyResult(plan, ExitCode.INVALID)
        # A killed apply may have left an open journal and no change: it is closed then.
        if plan.empty and not live.ledger.unfinished and not self._health_is_open(live):
            return ApplyResult(plan, self._exit_code_unchanged())
        if plan.actions:
            self.user.ensure_agreement()
            if not self.user.agrees(plan):
                self.user.say("not applied: nothing was changed")
                return ApplyResult(plan, ExitCode.FAILED, declined=True)
        return None

    def _exit_code_unchanged(self) -> ExitCode:
        """Returns the exit code of a run with nothing to do."""
        if not self.choices.require_running:
            return ExitCode.OK
        client = self.backend.rest()
        if client is not None:
            client.close()
            return ExitCode.OK
        self.user.say(LATER)
        return ExitCode.FAILED

    def _health_is_open(self, live: Live) -> bool:
        """Returns True if only the health of what earlier applies changed is left to be checked."""
        names = self._unproven(live)
        client = self.backend.rest() if names else None
        if client is None:
            return False
        client.close()
        problem = "was changed by an earlier apply that did not see it healthy"
        if len(names) > 1:
            problem = "were changed by earlier applies that did not see them healthy"
        if live.rest_alone:
            problem = "failed, perhaps since an earlier apply"
        self.user.say(f"{listed(sorted(names))} {problem}: checking")
        return True

    def _unproven(self, live: Live) -> frozenset[str]:
        """Returns connectors that earlier applies changed and did not see healthy. REST alone has
        no record of applies: those that failed."""
        names = live.ledger.unproven
        if live.rest_alone:
            names = frozenset(
                name for name, connector in live.connectors.items() if connector.failed
            )
        owned = live.ledger.owned_by(self.backend.project.name)
        return frozenset(
            name for name in names & owned & live.connectors.keys() if self.scope.matches((name,))
        )

    def _reported(self, planned: Planned, report: ApplyReport) -> ApplyResult:
        """Reports the apply, and rolls it back if it is to be."""
        plan = planned.plan
        policies = self.rollback_policies if to_be_rolled_back(report) else None
        if policies is None:
            self.user.report(report, rollback_follows=False)
            return ApplyResult(plan, report.exit_code, report)
        unreported: OSError | None = None
        try:
            self.user.report(report, rollback_follows=True)
        except OSError as error:
            # A closed pipe or a full disk must not prevent the rollback
            unreported = error
        former = {name: live.config for name, live in planned.live.connectors.items()}
        result = self._roll_back(report.apply_id, planned.desired, former, policies)
        if unreported is not None:
            raise unreported
        return ApplyResult(plan, report.exit_code, report, result)

    def _execute(self, agreed: Planned, *, replan: bool) -> ApplyReport:
        """Applies the plan. `replan`: what remains of it; an automatic rollback is not made again.
        Raises LeaseRefused, Stale, PlanChanged; nothing was touched then."""
        backend, user = self.backend, self.user
        with user.stopping() as stop, self._context_once_free(agreed.desired, stop) as context:
            # Nothing has begun that is to be completed
            with user.at_once():
                if stop.is_set():
                    raise KeyboardInterrupt
                if replan:
                    planned = self.source.plan_under_lease(agreed)
                else:
                    planned = replace(agreed, live=backend.observe(agreed.desired))
                plan, desired, live = planned.plan, planned.desired, planned.live
                if not context.cluster.runs_tasks:
                    topics, groups = rights_to_move(plan, desired, live, backend.project)
                    check_rights(backend.kafka, topics=topics, groups=groups)
                    ensure_installed(plan, desired)
            user.may_change()
            denials = Denials(plan, self.source.policies, live.now_ms)
            unproven = self._unproven(live) if replan else ()

            def apply(context: ApplyContext) -> ApplyReport:
                return apply_plan(plan, desired, backend.project, live, context, unproven=unproven)

            return traced(plan, replace(context, denials=denials), apply, user.say)

    @contextmanager
    def _context_once_free(self, desired: Desired, stop: StopRequest) -> Iterator[ApplyContext]:
        """Opens the context as soon as no other apply runs. Raises LeaseRefused after the lock
        timeout, KeyboardInterrupt where the user stops waiting."""
        user, choices, is_reported = self.user, self.choices, False
        deadline = time.monotonic() + choices.lock_timeout

        def on_wait(text: str, limit_s: float) -> None:
            nonlocal is_reported
            if not is_reported:
                user.waits(text, max(limit_s, choices.lock_timeout))
            is_reported = True

        with ExitStack() as stack:
            context: ApplyContext | None = None
            while context is None:
                try:
                    opening = apply_context(
                        self.backend, desired, choices, user, stop, self.lease, on_wait
                    )
                    context = stack.enter_context(opening)
                except LeaseRefused as refused:
                    if stop.is_set():
                        raise KeyboardInterrupt from None
                    if time.monotonic() >= deadline:
                        raise
                    on_wait(refused.diagnostics[0].what, choices.lock_timeout)
                    if stop.wait(_RETRY_S):
                        raise KeyboardInterrupt from None
            yield context

    def _roll_back(
        self, apply_id: str, files: Desired, former: Configs, policies: tuple[Policy, ...]
    ) -> RollbackResult:
        """Rolls that apply back, but for connectors that cannot be: `former` holds the configs from
        before it. Raises no error that prevents it: the report of the apply itself must not be lost
        over it."""
        self.user.say(f"rolling back: apply {apply_id} failed")
        source = FromSnapshots(
            backend=self.backend, policies=policies, apply_id=apply_id, files=files, former=former
        )
        left_out: tuple[Diagnostic, ...] = ()
        try:
            while True:
                names = dict.fromkeys(str(problem.where) for problem in left_out)
                scope = Scope(exclude=tuple(escape(name) for name in names))
                planned = replace(source, scope=scope).plan()
                plan = planned.plan
                if not plan.errors:
                    break
                assert planned.rollback is not None
                of_connectors = _of_connectors(plan, planned.rollback.snapshots)
                if not of_connectors:
                    return RollbackResult(plan, errors=(*left_out, *plan.errors))
                left_out += of_connectors
            if not plan.actions:
                return RollbackResult(plan, errors=left_out)
            report = self._execute(planned, replan=False)
        except ConnectError as error:
            return RollbackResult(errors=(*left_out, *error.diagnostics))
        except KeyboardInterrupt:
            # Once it has begun, its report says so
            interrupted = Diagnostic(
                "rollback.interrupted", "interrupted before the rollback began"
            )
            return RollbackResult(errors=(interrupted,))
        return RollbackResult(plan, report, report.ended_by, left_out)


class Denials:
    """Judges offsets that are known only once their connector is stopped, in the place of the
    plan's estimate and beside those that were read for other connectors. Called by many threads."""

    def __init__(self, plan: Plan, policies: tuple[Policy, ...], now_ms: int) -> None:
        self._plan = plan
        self._policies = policies
        self._now_ms = now_ms
        self._lock = threading.Lock()

    def __call__(self, final: AlterOffsets) -> tuple[Diagnostic, ...]:
        """Returns the policies' objections to the plan with these offsets."""
        if not self._policies:
            return ()
        from connect_reconciler.policies.policy import judge

        with self._lock:
            actions = tuple(
                final
                if isinstance(action, AlterOffsets) and action.connector == final.connector
                else action
                for action in self._plan.actions
            )
            plan = judge(replace(self._plan, actions=actions), self._policies, self._now_ms)
            if not plan.errors:
                self._plan = plan
            return plan.errors


def _of_connectors(plan: Plan, names: Collection[str]) -> tuple[Diagnostic, ...]:
    """Returns the plan's errors, if each concerns one connector that can be left out; a policy that
    denies the rollback is obeyed."""
    denied = any(error.code.startswith("policy.") for error in plan.errors)
    concerns_all = any(error.where not in names for error in plan.errors)
    return () if denied or concerns_all else plan.errors


def to_be_rolled_back(report: ApplyReport) -> bool:
    """Returns True if something failed, and something can be undone. An apply that was ended from
    outside is not rolled back: the user is there, or another apply."""
    from_outside = bool(report.ended_by) or report.told_to_stop
    failures = any(not connector.ok for connector in report.connectors if connector.results)
    failed = report.exit_code == ExitCode.FAILED and failures and not from_outside
    return failed and bool(report.counts[Outcome.DONE] + report.counts[Outcome.UNKNOWN])


@contextmanager
def apply_context(
    backend: Backend,
    desired: Desired,
    choices: Choices,
    user: User | None = None,
    stop: StopRequest | None = None,
    lease: Lease | None = None,
    on_wait: OnWait | None = None,
) -> Iterator[ApplyContext]:
    """Opens the context of one apply, which `user` sees and `stop` ends; `lease` was taken over for
    it. `on_wait`, else the user, is called before another apply is waited for.

    Raises LeaseRefused while another apply runs.
    """
    by, worker = identity(), backend.project.worker
    at_once = nullcontext if user is None else user.at_once
    on_wait = on_wait or (no_progress if user is None else user.waits)
    with (
        backend.connection(desired, by, lease=lease, at_once=at_once, waits=on_wait) as connection,
        nullcontext() if user is None else user.progress() as progress,
    ):
        context = replace(
            ApplyContext.over(connection, by, worker),
            stop=lambda: stop is not None and stop.is_set(),
            parallelism=choices.parallelism,
            fail_fast=choices.fail_fast,
            require_running=choices.require_running,
            limits=_limits(choices, worker),
        )
        yield context if progress is None else replace(context, progress=progress)


def _limits(choices: Choices, worker: Mapping[str, str]) -> Limits:
    limits = Limits(
        health_s=choices.health_timeout, settle_s=choices.settle, commits_s=_commits_s(worker)
    )
    return limits if choices.healthy_for is None else limits.healthy_for(choices.healthy_for)


def _commits_s(worker: Mapping[str, str]) -> float:
    """Returns how often sinks commit, in seconds. Properties of workers that are not ours are not
    validated before a rollback."""
    interval_ms = whole_number(worker.get(COMMITS, ""))
    return (_COMMITS_MS if interval_ms is None else interval_ms) / 1000
