"""From a project's files and its cluster to a plan that the policies have judged.

The files are read and checked without a cluster: every mistake is reported at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connect_reconciler.actions.plan import Plan, target_of
from connect_reconciler.backend.backend import Backend
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import key_id
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import (
    applicable_actions,
    ensure_fresh,
    remaining,
    scope_of,
)
from connect_reconciler.plan.rollback import Rollback
from connect_reconciler.plan.scope import ALL, Scope, in_scope
from connect_reconciler.render.plan_file import ensure_secrets_have_fingerprints, plan_hash
from connect_reconciler.validation.configs import check_project, check_specs, checked
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Stale, by_place, by_severity, warning
from connect_specs.loader import read_specs

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy


def observed(backend: Backend, desired: Desired, scope: Scope = ALL) -> Live:
    """Observes the cluster once, and validates the configs that it is to get. Raises Invalid for
    properties in connect.yaml that cannot be used, before the cluster is asked."""
    project_warnings(backend.project)
    return validated(backend, desired, backend.observe(desired), scope)


def validated(backend: Backend, desired: Desired, live: Live, scope: Scope = ALL) -> Live:
    """Returns `live` with the problems of connect.yaml and of the configs that are to be written.
    Raises Invalid as `observed` does."""
    live = replace(live, warnings=(*project_warnings(backend.project), *live.warnings))
    return checked(live, in_scope(desired, live, scope)[0], backend)


def project_warnings(project: Project) -> tuple[Diagnostic, ...]:
    """Returns the warnings about connect.yaml. Raises Invalid for properties that cannot be
    used."""
    errors, warnings = by_severity(check_project(project))
    if errors:
        raise Invalid(*errors)
    return warnings


def planned(
    project: Project,
    desired: Desired,
    live: Live,
    policies: tuple[Policy, ...],
    scope: Scope = ALL,
) -> Plan:
    """Returns the plan from there to the specs, judged by the policies."""
    plan = make_plan(
        desired,
        live,
        group_id=project.group_id,
        worker=project.worker,
        scope=scope,
        env=project.env,
        deletes=project.deletes,
        overrides=project.overrides,
    )
    return judged(replace(plan, target=target_of(project)), policies, live)


def judged(plan: Plan, policies: tuple[Policy, ...], live: Live) -> Plan:
    """Returns the plan with the verdicts of the policies."""
    if not policies:
        return plan
    from connect_reconciler.policies.policy import judge

    return judge(plan, policies, live.now_ms, live.unknown_keys)


@dataclass(frozen=True, slots=True)
class Files:
    """The specs without mistakes, the policies, and the mistakes by place.

    `warnings` are those that `Desired` does not carry.
    """

    desired: Desired
    policies: tuple[Policy, ...]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def specs_and_policies(project: Project) -> tuple[Desired, tuple[Policy, ...]]:
    """Reads the specs and policies of a project. Raises Invalid with every mistake in its files.

    Configs are checked only if there are other mistakes: else the plan checks them, which shows the
    diff as well.
    """
    files = read_files(project)
    if files.errors:
        raise Invalid(*with_configs(project, files).errors)
    return files.desired, files.policies


def read_files(project: Project) -> Files:
    """Reads connect.yaml, specs and policies; configs are not checked."""
    desired, wrong_specs = read_specs(project)
    errors, warnings = by_severity(check_project(project))
    policies: tuple[Policy, ...] = ()
    wrong_policies: tuple[Diagnostic, ...] = ()
    try:
        policies = policies_of(project)
    except Invalid as invalid:
        wrong_policies = invalid.diagnostics
    problems = dict.fromkeys((*errors, *wrong_specs, *wrong_policies))
    return Files(desired, policies, tuple(by_place(problems)), warnings)


def with_configs(project: Project, files: Files) -> Files:
    """Returns the files with the problems of configs and pins that need no cluster."""
    errors, warnings = by_severity(check_specs(project, files.desired))
    errors = tuple(by_place((*files.errors, *errors)))
    return replace(files, errors=errors, warnings=(*files.warnings, *warnings))


def policies_of(project: Project) -> tuple[Policy, ...]:
    """Reads the project's policies. Raises Invalid for a policy that cannot be used."""
    if not project.policies:
        return ()
    from connect_reconciler.policies.policy import load_policies

    return load_policies(project)


# --- made, and made again once no other apply can change anything: between plan and lease a request
# of a killed apply may still take effect, or another apply may end ---


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """The cluster, observed once, and the specs to plan for: those of the project, or those of a
    rollback."""

    desired: Desired
    live: Live
    rollback: Rollback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(PlanInputs):
    """A plan, and the observation that it was made from."""

    plan: Plan


class PlanChanged(Exception):
    """There is more to do than the plan that was shown says, or something else: `planned`."""

    def __init__(self, planned: Planned) -> None:
        super().__init__()
        self.planned = planned

    def as_error(self) -> Stale:
        """Returns the error of a run that cannot ask the user again."""
        problem = (
            "the cluster changed since the plan was shown, and there is more to do than it said"
        )
        hint = "run this again: it starts with a new plan"
        return Stale(Diagnostic("stale.moved", problem, hint=hint))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource(ABC):
    """Makes plans: any plan, or with `saved` the plan of an approved file or what remains of it.

    `policies` judge each plan.
    """

    backend: Backend
    policies: tuple[Policy, ...]
    saved: Plan | None = None

    @abstractmethod
    def observe(self) -> PlanInputs:
        """Observes the cluster. Raises as `Backend.observe` does."""

    @abstractmethod
    def validated(self, observed: PlanInputs, agreed: Plan | None) -> Live:
        """Returns the cluster with its answers about the configs that are to be written; of an
        agreed plan, about those of its connectors."""

    @abstractmethod
    def made(self, observed: PlanInputs, agreed: Plan | None) -> Plan:
        """Returns the plan, before policies judge it; of an agreed plan, for its connectors."""

    def plan(self, observed: PlanInputs | None = None) -> Planned:
        """Returns the plan.

        Of a saved plan that an apply of this project began and did not end, what remains. Raises
        Stale where specs or cluster do not give the saved plan, Invalid for secrets without
        fingerprints.
        """
        observed = observed or self.observe()
        if self.saved is None:
            return self._planned(observed, None)
        saved = replace(self.saved, saved_as=plan_hash(self.saved))
        project, live = self.backend.project, observed.live
        try:
            # The plan's preconditions first: they name best what changed
            ensure_fresh(saved, observed.desired, project, live)
            result = self._planned(observed, saved)
        except Stale:
            journal = self.backend.ledger().begun(project.name, saved.saved_as)
            if journal is None:
                raise
            return self._continued(observed, saved, journal.id)
        ensure_secrets_have_fingerprints(saved, key_comes=live.key_comes)
        return result

    def plan_under_lease(self, agreed: Planned) -> Planned:
        """Returns what remains of a plan that was shown, and the cluster as it is now.

        Raises PlanChanged where something else is to be done, Stale as `plan` does.
        """
        observed = _with_answers(self.observe(), agreed.live)
        live = observed.live
        try:
            ensure_fresh(agreed.plan, observed.desired, self.backend.project, live)
            # The cluster validated these very configs before
            plan = judged(self.made(observed, self.saved), self.policies, live)
            remaining(agreed.plan, plan, live)
            # Policies may deny it by now
            result = replace(agreed, live=live, plan=plan if plan.errors else agreed.plan)
        except Stale:
            result = self.plan(observed)
            try:
                remaining(agreed.plan, result.plan, result.live, partly_done=True)
            except Stale:
                raise PlanChanged(result) from None
        if result.plan.errors:
            raise PlanChanged(result)
        return result

    def _continued(self, observed: PlanInputs, saved: Plan, apply_id: str) -> Planned:
        """Returns what remains of a saved plan that an apply did not end. Raises Stale."""
        live = observed.live
        # An apply may have made the project's first key since
        key = saved.key_id or key_id(live.ledger.fingerprint_key)
        ensure_fresh(
            replace(saved, actions=(), key_id=key), observed.desired, self.backend.project, live
        )
        actions = applicable_actions(saved, observed.desired, live)
        result = self._planned(observed, replace(saved, actions=actions), partly_done=True)
        problem = (
            f"apply {apply_id} did not end this plan: {len(result.plan.actions)} of its"
            f" {len(saved.actions)} actions are left to do"
        )
        warnings = (warning("apply.goes-on", problem), *result.plan.warnings)
        return replace(result, plan=replace(result.plan, warnings=warnings))

    def _planned(
        self, observed: PlanInputs, agreed: Plan | None, *, partly_done: bool = False
    ) -> Planned:
        live = self.validated(observed, agreed)
        observed = replace(observed, live=live)
        plan = self.made(observed, agreed)
        if agreed is not None:
            plan = remaining(agreed, plan, live, partly_done=partly_done)
        return Planned(
            desired=observed.desired,
            live=live,
            rollback=observed.rollback,
            plan=judged(plan, self.policies, live),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSpecs(PlanSource):
    """Plans for the project's specs, as far as `scope` goes. Raises Invalid for the saved plan of a
    rollback."""

    desired: Desired
    scope: Scope = ALL

    def __post_init__(self) -> None:
        if self.saved is not None and self.saved.rolls_back is not None:
            apply_id = self.saved.rolls_back
            problem = f"this plan rolls apply {apply_id} back: no specs give it"
            hint = f"`connect rollback {apply_id} FILE` applies it"
            raise Invalid(Diagnostic("apply.rolls-back", problem, hint=hint))

    def observe(self) -> PlanInputs:
        return PlanInputs(desired=self.desired, live=self.backend.observe(self.desired))

    def validated(self, observed: PlanInputs, agreed: Plan | None) -> Live:
        live = observed.live
        if agreed is None:
            return validated(self.backend, self.desired, live, self.scope)
        if not agreed.actions:
            return live
        scope = scope_of(agreed, self.desired, live)
        return checked(live, in_scope(self.desired, live, scope)[0], self.backend)

    def made(self, observed: PlanInputs, agreed: Plan | None) -> Plan:
        project, live = self.backend.project, observed.live
        if agreed is None:
            return planned(project, self.desired, live, (), self.scope)
        if not agreed.actions:
            return replace(agreed, warnings=(), target=target_of(project))
        scope = scope_of(agreed, self.desired, live)
        # The saved plan says which connectors it is about: no warning of a targeted plan
        return planned(project, self.desired, live, (), scope).untargeted()


def _with_answers(observed: PlanInputs, earlier: Live) -> PlanInputs:
    """Returns the observation with the cluster's answers to the earlier validation."""
    keys = dict(observed.live.password_keys)
    for name, passwords in earlier.password_keys.items():
        keys[name] = keys.get(name, frozenset()) | passwords
    live = replace(observed.live, password_keys=keys, unknown_keys=earlier.unknown_keys)
    return replace(observed, live=live)
