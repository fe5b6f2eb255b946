"""Rolls an apply back: finds its snapshots in the ledger, and plans for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from connect_reconciler.actions.plan import TARGETED, Plan, target_of
from connect_reconciler.backend.backend import Backend
from connect_reconciler.ledger.journal import Journal
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import Live
from connect_reconciler.plan.rollback import (
    Configs,
    Rollback,
    in_scope,
    rollback_of,
    rollback_plan,
    specs_to_observe,
)
from connect_reconciler.plan.scope import Scope
from connect_reconciler.validation.configs import checked
from connect_reconciler.workflow.planning import judged
from connect_reconciler.workflow.replanning import Agrees, as_saved
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, warning
from connect_specs.loader import load_specs
from connect_specs.plain_text import listed

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy


@dataclass(frozen=True, slots=True)
class Found:
    """What to plan for, and the cluster as it is now."""

    rollback: Rollback
    live: Live

    def plan(self, project: Project) -> Plan:
        """The plan for it; policies have not judged it yet."""
        made = rollback_plan(
            self.rollback,
            self.live,
            group_id=project.group_id,
            env=project.env,
            worker=project.worker,
        )
        return replace(made, target=target_of(project))


def find_rollback(
    backend: Backend,
    apply_id: str,
    scope: Scope,
    files: Desired,
    former: Configs = MappingProxyType({}),
) -> Found:
    """The rollback of one of the project's applies, given by its id or the beginning of it. `files`
    are the specs of now, and `former` the configs from before it, if known: for secrets.

    Raises Invalid for an unknown apply.
    """
    project = backend.project
    ledger = ledger_of(backend)
    apply_id = journal_of(ledger, project, apply_id).id
    whole = ledger.snapshots(apply_id)
    snapshots = in_scope(whole, scope)
    live = backend.observe(specs_to_observe(apply_id, snapshots, project.name))
    times = ledger.rolled_back(apply_id)
    later = ledger.later(apply_id)
    rollback = rollback_of(apply_id, snapshots, later, files, live, times=times, former=former)
    if left_out := sorted(whole.keys() - snapshots.keys()):
        rollback = replace(rollback, warnings=(*rollback.warnings, _partial(apply_id, left_out)))
    return Found(rollback, checked(live, rollback.desired, backend))


def _partial(apply_id: str, left_out: Sequence[str]) -> Diagnostic:
    what = f"in part, without {listed(left_out)}"
    why = f"apply {apply_id} changed them, too: they stay as they are"
    return warning(TARGETED, what, why=why)


def specs_if_readable(project: Project, say: Callable[[str], None]) -> Desired:
    """The specs of now, for their secrets: a rollback works with broken specs, too."""
    try:
        return load_specs(project)
    except Invalid:
        say("the specs cannot be read; secrets are looked for on the cluster alone")
        return Desired(project.name, {})


@dataclass(frozen=True, slots=True)
class FromSnapshots:
    """Plans the rollback of an apply; with a `saved` plan, that plan or what is left of it."""

    backend: Backend
    apply_id: str
    scope: Scope
    files: Desired
    policies: tuple[Policy, ...]
    saved: Plan | None

    def planned(self) -> tuple[Plan, Found]:
        """The plan now, judged by the policies. Raises Stale."""
        found = find_rollback(self.backend, self.apply_id, self.scope, self.files)
        made = found.plan(self.backend.project)
        if self.saved is not None and not self.saved.targeted:
            # It leaves the others out because they need no change
            made = made.untargeted()
        if self.saved is not None and not made.errors:
            made = self._as_saved(made, self.saved, found)
        return judged(made, self.policies, found.live), found

    def _as_saved(self, plan: Plan, saved: Plan, found: Found) -> Plan:
        def made(wanted: Plan, agrees: Agrees) -> Plan:
            agrees(wanted, plan, found.live)
            return plan

        desired, backend = found.rollback.desired, self.backend
        return as_saved(saved, desired, found.live, backend.project, backend.ledger, made)

    def __call__(self, shown: Plan) -> tuple[Plan, Live]:
        """The same as a `Replan`: what was shown before does not matter. Raises Stale."""
        plan, found = self.planned()
        return plan, found.live


def ledger_of(backend: Backend) -> LedgerSnapshot:
    """The ledger with its journals. Raises Invalid where there are none."""
    ensure_journal(backend.project)
    backend.ensure_kafka()
    return backend.ledger()


def ensure_journal(project: Project) -> None:
    """Raises Invalid where applies are not written down."""
    if project.rest_only:
        what = (
            "over REST alone there is no journal: nothing is known of earlier applies,"
            " nor of configs and secrets from before them"
        )
        hint = "add cluster.kafka with its bootstrap.servers, and apply again"
        raise Invalid(Diagnostic("history.no-journal", what, str(project.file), hint=hint))


def journal_of(ledger: LedgerSnapshot, project: Project, begins: str) -> Journal:
    """The project's apply of that id, or the only one whose id begins so. Raises Invalid."""
    known = {each.id: each for each in ledger.of_project(project.name)}
    if begins in known:
        return known[begins]
    found = [each for each in known if begins and each.startswith(begins)]
    if len(found) == 1:
        return known[found[0]]
    what = f"{len(found)} applies begin with {begins}" if found else f"no apply {begins} is known"
    hint = "`connect history` lists those that are"
    raise Invalid(Diagnostic("history.unknown-apply", what, project.name, hint=hint))
