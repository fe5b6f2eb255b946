"""From a plan to a cluster: shown, agreed to, applied under the lease, reported, and rolled back
where that is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from glob import escape
from typing import TYPE_CHECKING

from connect_reconciler.actions import Action, AlterOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.edges import Edges, Limits, Settings, edges_over
from connect_reconciler.apply.preconditions import ensure_fresh, rights_to_move
from connect_reconciler.apply.report import LATER, ApplyReport, Outcome
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.lease import Lease, LeaseRefused, Waits, silently, who
from connect_reconciler.model.live import Live
from connect_reconciler.plan.rollback import Configs
from connect_reconciler.plan.scope import Scope
from connect_reconciler.validation.configs import COMMITS, ensure_installed, whole_number
from connect_reconciler.workflow.planning import judged
from connect_reconciler.workflow.replanning import Moved, Replan, left_of
from connect_reconciler.workflow.rollback import find_rollback
from connect_reconciler.workflow.tracing import traced
from connect_reconciler.workflow.user import Choices, Stop, User
from connect_runtime.kafka.client_checks import check_rights
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode
from connect_specs.plain_text import listed

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy

_COMMITS_MS = 60_000
_AGAIN_S = 1.0
_MOVED = "the cluster changed since the plan was shown; this is what there is to do now"
_DENIED = "not applied: the plan has errors that it did not have when it was shown"


@dataclass(frozen=True, slots=True)
class Undone:
    """The plan that rolls a failed apply back, and its report; what prevented it, if anything.
    `left_out` says why connectors are not rolled back with the others."""

    plan: Plan | None = None
    report: ApplyReport | None = None
    errors: tuple[Diagnostic, ...] = ()
    left_out: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, and the plan that was shown last. `declined`: the user did not agree."""

    plan: Plan
    exit_code: ExitCode
    report: ApplyReport | None = None
    undone: Undone | None = None
    declined: bool = False


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """One run of `apply` or `rollback`. `lease` is one that was taken over for it. With `replan`
    the plan is made again once nobody else can apply. `policies` judge offsets that are known only
    once a connector is stopped, `rollback_policies` the rollback of an apply that failed; None: it
    is not rolled back. `scope` is what the run is about: of what earlier applies left, it checks
    these connectors alone."""

    backend: Backend
    user: User
    choices: Choices
    lease: Lease | None = None
    replan: Replan | None = None
    rollback_policies: tuple[Policy, ...] | None = None
    policies: tuple[Policy, ...] = ()
    scope: Scope = field(default_factory=Scope)

    def run(self, plan: Plan, desired: Desired, live: Live) -> Ended:
        """Shows the plan, asks, and applies it. What is new once nobody else can apply is shown and
        asked for, too. The exit code of a run that is rolled back stays that of the failure.

        Raises Stale where the plan is out of date, or the user cannot be asked about a newer one.
        """
        while True:
            ended = self._shown(plan, desired, live)
            if ended is not None:
                return ended
            try:
                report = self._execute(plan, desired, live, self.replan)
            except Moved as moved:
                plan, live = moved.plan, moved.live
                if not self.user.can_be_asked and not plan.errors:
                    self.user.show(plan)
                    raise moved.stale() from None
                self.user.say(_DENIED if plan.errors else _MOVED)
            else:
                return self._reported(plan, desired, live, report)

    def _shown(self, plan: Plan, desired: Desired, live: Live) -> Ended | None:
        """Shows the plan and asks; None where it is to be applied."""
        self.user.show(plan)
        if plan.errors:
            return Ended(plan, ExitCode.INVALID)
        # A killed apply may have left an open journal and no change: it is closed then.
        if plan.empty and not live.ledger.unfinished and not self._to_be_checked(live):
            return Ended(plan, self._unchanged())
        if plan.actions:
            self.user.ensure_agreement()
        # Before anything is opened: leading a new cluster already creates its topics.
        ensure_fresh(plan, desired, self.backend.project, live)
        if plan.actions and not self.user.agrees(plan):
            self.user.say("not applied: nothing was changed")
            return Ended(plan, ExitCode.FAILED, declined=True)
        return None

    def _unchanged(self) -> ExitCode:
        """The exit code where there is nothing to do."""
        if not self.choices.require_running:
            return ExitCode.OK
        rest = self.backend.rest()
        if rest is not None:
            rest.close()
            return ExitCode.OK
        self.user.say(LATER)
        return ExitCode.FAILED

    def _to_be_checked(self, live: Live) -> bool:
        """Whether only the health of what earlier applies changed is left to be seen."""
        names = self._unproven(live)
        rest = self.backend.rest() if names else None
        if rest is None:
            return False
        rest.close()
        what = "was changed by an earlier apply that did not see it healthy"
        if len(names) > 1:
            what = "were changed by earlier applies that did not see them healthy"
        if live.rest_alone:
            what = "failed, perhaps since an earlier apply"
        self.user.say(f"{listed(sorted(names))} {what}: checking")
        return True

    def _unproven(self, live: Live) -> frozenset[str]:
        """The connectors that earlier applies changed and did not see healthy. Over REST alone
        nothing is known of earlier applies: those that failed."""
        names = live.ledger.unproven
        if live.rest_alone:
            names = frozenset(name for name, each in live.connectors.items() if each.failed)
        owned = live.ledger.owned_by(self.backend.project.name)
        return frozenset(
            name for name in names & owned & live.connectors.keys() if self.scope.holds((name,))
        )

    def _reported(self, plan: Plan, desired: Desired, live: Live, report: ApplyReport) -> Ended:
        """Reports the apply, and rolls it back where that is wanted, to what `live` was."""
        policies = self.rollback_policies if to_be_rolled_back(report) else None
        if policies is None:
            self.user.report(report, rollback_follows=False)
            return Ended(plan, report.exit_code, report)
        unread: OSError | None = None
        try:
            self.user.report(report, rollback_follows=True)
        except OSError as error:
            # A closed pipe or a full disk must not prevent the rollback
            unread = error
        former = {name: each.config for name, each in live.connectors.items()}
        undone = self._roll_back(report.apply_id, desired, former, policies)
        if unread is not None:
            raise unread
        return Ended(plan, report.exit_code, report, undone)

    def _execute(
        self, plan: Plan, desired: Desired, live: Live, replan: Replan | None
    ) -> ApplyReport:
        """Applies the plan, or what is left of it. Without `replan` it rolls another one back.
        Raises LeaseRefused, Stale, Moved; nothing was touched then."""
        backend, user = self.backend, self.user
        with user.stopping() as stop, self._edges_once_free(desired, stop) as edges:
            now: Live | None = None
            # Nothing has begun that is to be completed
            with user.at_once():
                if stop.is_set():
                    raise KeyboardInterrupt
                if replan is not None:
                    plan, now = left_of(plan, live, replan)
                if not edges.cluster.runs_tasks:
                    topics, groups = rights_to_move(plan, desired, live, backend.project)
                    check_rights(backend.kafka, topics=topics, groups=groups)
                    ensure_installed(plan, desired)
            user.may_change()

            def apply(edges: Edges) -> ApplyReport:
                return apply_plan(
                    plan,
                    desired,
                    backend.project,
                    replace(edges, denials=Denials(plan, self.policies, live.now_ms)),
                    observe=lambda: now or backend.observe(desired),
                    unproven=() if replan is None else self._unproven(now or live),
                )

            return traced(plan, edges, apply, user.say)

    @contextmanager
    def _edges_once_free(self, desired: Desired, stop: Stop) -> Iterator[Edges]:
        """The edges, as soon as no other apply runs. Raises LeaseRefused after the lock timeout,
        KeyboardInterrupt where the user stops waiting."""
        user, choices, told = self.user, self.choices, False
        deadline = time.monotonic() + choices.lock_timeout

        def waits(what: str, limit_s: float) -> None:
            nonlocal told
            if not told:
                user.waits(what, max(limit_s, choices.lock_timeout))
            told = True

        with ExitStack() as stack:
            found: Edges | None = None
            while found is None:
                try:
                    opened = edges_for(
                        self.backend, desired, choices, user, stop, self.lease, waits
                    )
                    found = stack.enter_context(opened)
                except LeaseRefused as refused:
                    if stop.is_set():
                        raise KeyboardInterrupt from None
                    if time.monotonic() >= deadline:
                        raise
                    waits(refused.diagnostics[0].what, choices.lock_timeout)
                    if stop.wait(_AGAIN_S):
                        raise KeyboardInterrupt from None
            yield found

    def _roll_back(
        self, apply_id: str, desired: Desired, former: Configs, policies: tuple[Policy, ...]
    ) -> Undone:
        """Rolls that apply back, but for connectors that cannot be: `former` holds the configs from
        before it. Raises no error that prevents it: the report of the apply itself must not be lost
        over it."""
        self.user.say(f"rolling back: apply {apply_id} failed")
        left_out: tuple[Diagnostic, ...] = ()
        try:
            while True:
                names = [str(each.where) for each in left_out]
                scope = Scope(exclude=tuple(escape(name) for name in dict.fromkeys(names)))
                found = find_rollback(self.backend, apply_id, scope, desired, former)
                plan = judged(found.plan(self.backend.project), policies, found.live)
                if not plan.errors:
                    break
                more = _of_connectors(plan, found.rollback.before)
                if not more:
                    return Undone(plan, errors=(*left_out, *plan.errors))
                left_out += more
            if not plan.actions:
                return Undone(plan, errors=left_out)
            wanted, live = found.rollback.desired, found.live
            ensure_fresh(plan, wanted, self.backend.project, live)
            report = self._execute(plan, wanted, live, None)
        except ConnectError as error:
            return Undone(errors=(*left_out, *error.diagnostics))
        except KeyboardInterrupt:
            # Once it has begun, its report says so
            what = "interrupted before the rollback began"
            return Undone(errors=(Diagnostic("rollback.interrupted", what),))
        return Undone(plan, report, report.ended_by, left_out)


class Denials:
    """Judges offsets that are known only once their connector is stopped, in the place of the
    plan's estimate and beside those that were found for other connectors. Asked by many threads."""

    def __init__(self, plan: Plan, policies: tuple[Policy, ...], now_ms: int) -> None:
        self._plan = plan
        self._policies = policies
        self._now_ms = now_ms
        self._lock = threading.Lock()

    def __call__(self, final: AlterOffsets) -> tuple[Diagnostic, ...]:
        """Why the policies deny the plan with these offsets; none if they do not."""
        if not self._policies:
            return ()
        from connect_reconciler.policies.policy import judge

        with self._lock:
            actions = (_in_place(each, final) for each in self._plan.actions)
            plan = judge(replace(self._plan, actions=tuple(actions)), self._policies, self._now_ms)
            if not plan.errors:
                self._plan = plan
            return plan.errors


def _in_place(action: Action, final: AlterOffsets) -> Action:
    same = isinstance(action, AlterOffsets) and action.connector == final.connector
    return final if same else action


def _of_connectors(plan: Plan, names: Collection[str]) -> tuple[Diagnostic, ...]:
    """The plan's errors, if each is about one connector that can be left out; a policy that denies
    the rollback is obeyed."""
    policy = any(each.code.startswith("policy.") for each in plan.errors)
    about_all = any(each.where not in names for each in plan.errors)
    return () if policy or about_all else plan.errors


def to_be_rolled_back(report: ApplyReport) -> bool:
    """Whether something failed, and something can be undone. An apply that was ended from outside
    is not rolled back: the user is there, or another apply."""
    from_outside = bool(report.ended_by) or report.told_to_stop
    own = any(not each.ok for each in report.connectors if each.results)
    failed = report.exit_code == ExitCode.FAILED and own and not from_outside
    return failed and bool(report.counts[Outcome.DONE] + report.counts[Outcome.UNKNOWN])


@contextmanager
def edges_for(
    backend: Backend,
    desired: Desired,
    choices: Choices,
    user: User | None = None,
    stop: Stop | None = None,
    lease: Lease | None = None,
    waits: Waits | None = None,
) -> Iterator[Edges]:
    """The edges of one apply, which `user` sees and `stop` ends; `lease` is one that was taken over
    for it. `waits`, else the user, is told of another apply that is waited for.

    Raises LeaseRefused while another apply runs.
    """
    worker = backend.project.worker
    settings = Settings(
        by=who(),
        stop=lambda: stop is not None and stop.is_set(),
        parallelism=choices.parallelism,
        fail_fast=choices.fail_fast,
        require_running=choices.require_running,
        limits=_limits(choices, worker),
    )
    at_once = nullcontext if user is None else user.at_once
    tell = waits or (silently if user is None else user.waits)
    with (
        backend.connection(
            desired, settings.by, lease=lease, at_once=at_once, waits=tell
        ) as connection,
        nullcontext(settings.progress) if user is None else user.progress() as told,
    ):
        yield edges_over(connection, replace(settings, progress=told), worker)


def _limits(choices: Choices, worker: Mapping[str, str]) -> Limits:
    limits = Limits(
        health_s=choices.health_timeout, settle_s=choices.settle, commits_s=_commits_s(worker)
    )
    return limits if choices.healthy_for is None else limits.healthy_for(choices.healthy_for)


def _commits_s(worker: Mapping[str, str]) -> float:
    """How often sinks commit. What a project says of workers that are not ours is not validated
    before a rollback."""
    given_ms = whole_number(worker.get(COMMITS, ""))
    return (_COMMITS_MS if given_ms is None else given_ms) / 1000
