"""Plans the rollback of an apply, from its snapshots in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from connect_reconciler.actions.plan import TARGETED, Plan, target_of
from connect_reconciler.backend.backend import Backend
from connect_reconciler.ledger.journal import Journal
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import Live
from connect_reconciler.plan.rollback import (
    Configs,
    rollback_of,
    rollback_plan,
    snapshots_in_scope,
    specs_to_observe,
)
from connect_reconciler.plan.scope import ALL, Scope
from connect_reconciler.validation.configs import checked
from connect_reconciler.workflow.planning import PlanInputs, Planned, PlanSource
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, warning
from connect_specs.loader import load_specs
from connect_specs.plain_text import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSnapshots(PlanSource):
    """Plans the rollback of one of the project's applies, as far as `scope` goes.

    `apply_id` is its id or the beginning of it. Secrets are looked up in `files`, the current
    specs, and in `former`, the configs from before the apply where this process has read them.
    """

    apply_id: str
    files: Desired
    scope: Scope = ALL
    former: Configs = field(default_factory=dict)

    def plan(self, observed: PlanInputs | None = None) -> Planned:
        """Returns the plan, as its base does. Of a saved plan that is not possible by now, the plan
        with the errors: they say why, which its stale preconditions do not."""
        observed = observed or self.observe()
        if self.saved is not None and self.made(observed, self.saved).errors:
            return self._planned(observed, self.saved)
        return PlanSource.plan(self, observed)

    def observe(self) -> PlanInputs:
        """Reads the apply's snapshots, and observes its connectors. Raises Invalid for an unknown
        apply, and as `Backend.observe` does."""
        project = self.backend.project
        ledger = ledger_of(self.backend)
        apply_id = journal_of(ledger, project, self.apply_id).id
        of_apply = ledger.snapshots(apply_id)
        snapshots = snapshots_in_scope(of_apply, self.scope)
        live = self.backend.observe(specs_to_observe(apply_id, snapshots, project.name))
        rollback = rollback_of(
            apply_id,
            snapshots,
            ledger.later(apply_id),
            self.files,
            live,
            times=ledger.rolled_back(apply_id),
            former=self.former,
        )
        if left_out := sorted(of_apply.keys() - snapshots.keys()):
            warnings = (*rollback.warnings, _partial(apply_id, left_out))
            rollback = replace(rollback, warnings=warnings)
        return PlanInputs(desired=rollback.desired, live=live, rollback=rollback)

    def validated(self, observed: PlanInputs, agreed: Plan | None) -> Live:
        return checked(observed.live, observed.desired, self.backend)

    def made(self, observed: PlanInputs, agreed: Plan | None) -> Plan:
        project = self.backend.project
        assert observed.rollback is not None
        plan = rollback_plan(
            observed.rollback,
            observed.live,
            group_id=project.group_id,
            env=project.env,
            worker=project.worker,
        )
        plan = replace(plan, target=target_of(project))
        # Connectors that an agreed plan leaves out need no change
        return plan if agreed is None or agreed.targeted else plan.untargeted()


def _partial(apply_id: str, left_out: Sequence[str]) -> Diagnostic:
    problem = f"in part, without {listed(left_out)}"
    reason = f"apply {apply_id} changed them, too: they stay as they are"
    return warning(TARGETED, problem, why=reason)


def specs_if_readable(project: Project, say: Callable[[str], None]) -> Desired:
    """Reads the specs for their secrets: a rollback works with broken specs, too."""
    try:
        return load_specs(project)
    except Invalid:
        say("the specs cannot be read; secrets are looked for on the cluster alone")
        return Desired(project.name, {})


def ledger_of(backend: Backend) -> LedgerSnapshot:
    """Reads the ledger with its journals. Raises Invalid where there are none."""
    ensure_journal(backend.project)
    backend.ensure_kafka()
    return backend.ledger()


def ensure_journal(project: Project) -> None:
    """Raises Invalid where applies are not recorded."""
    if project.rest_only:
        problem = (
            "over REST alone there is no journal: nothing is known of earlier applies,"
            " nor of configs and secrets from before them"
        )
        hint = "add cluster.kafka with its bootstrap.servers, and apply again"
        raise Invalid(Diagnostic("history.no-journal", problem, str(project.file), hint=hint))


def journal_of(ledger: LedgerSnapshot, project: Project, prefix: str) -> Journal:
    """Returns the project's apply with this id, or the only one whose id begins so. Raises
    Invalid."""
    journals = {journal.id: journal for journal in ledger.of_project(project.name)}
    if prefix in journals:
        return journals[prefix]
    matching = [apply_id for apply_id in journals if prefix and apply_id.startswith(prefix)]
    if len(matching) == 1:
        return journals[matching[0]]
    problem = f"no apply {prefix} is known"
    if matching:
        problem = f"{len(matching)} applies begin with {prefix}"
    hint = "`connect history` lists those that are"
    raise Invalid(Diagnostic("history.unknown-apply", problem, project.name, hint=hint))
