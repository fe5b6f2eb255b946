"""What is left to do of a plan that was shown or saved, once nobody else can change anything.

Between the plan and the lease a request of a killed apply may still take effect, or another apply
may end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from connect_reconciler.actions import ConfigAction
from connect_reconciler.actions.plan import Plan, target_of
from connect_reconciler.apply.preconditions import ensure_fresh
from connect_reconciler.backend.backend import Backend
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import key_id
from connect_reconciler.plan.scope import Scope, narrowed
from connect_reconciler.plan.verification import (
    ensure_changes_shown,
    ensure_left,
    ensure_rest,
    ensure_same,
    planned_again,
    scope_of_saved,
    still_known,
)
from connect_reconciler.render.plan_file import check_saved, plan_hash
from connect_reconciler.validation.configs import checked
from connect_reconciler.workflow.planning import judged, observed, planned
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Stale, warning

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy

# Raises Stale where the second plan is not the first one, or what is left of it.
Agrees: TypeAlias = Callable[[Plan, Plan, Live], None]
# Makes a plan again, given the one that was shown. Raises Stale where that is out of date.
Replan: TypeAlias = Callable[[Plan], tuple[Plan, Live]]


class Moved(Exception):
    """There is more to do now than the plan that was shown says, or something else."""

    def __init__(self, plan: Plan, live: Live) -> None:
        super().__init__()
        self.plan = plan
        self.live = live

    def stale(self) -> Stale:
        """The same for whoever cannot be asked again."""
        what = "the cluster changed since the plan was shown, and there is more to do than it said"
        hint = "run this again: it starts with a new plan"
        return Stale(Diagnostic("stale.moved", what, hint=hint))


@dataclass(frozen=True, slots=True)
class FromSpecs:
    """Plans from the specs, as the plan that was shown was made."""

    backend: Backend
    desired: Desired
    policies: tuple[Policy, ...]
    scope: Scope

    def __call__(self, shown: Plan) -> tuple[Plan, Live]:
        """The plan that was shown, as long as it is what the specs give."""
        project = self.backend.project

        def made(live: Live) -> Plan:
            return planned(project, self.desired, live, self.policies, self.scope)

        live = self.backend.observe(self.desired)
        try:
            ensure_fresh(shown, self.desired, project, live)
            # The cluster validated these very configs before, and said what is secret in them
            again = made(_with_secrets_of(shown, live))
            ensure_same(shown, again, live)
            # A policy may deny by now what it allowed then
            return again if again.errors else shown, live
        except Stale:
            live = observed(self.backend, self.desired, self.scope)
            return made(live), live


def _with_secrets_of(shown: Plan, live: Live) -> Live:
    """`live`, with what is sensitive in the plan that was shown: policies see the same values."""
    known = dict(live.password_keys)
    for action in shown.actions:
        if isinstance(action, ConfigAction):
            keys = {key for key, value in action.config.items() if isinstance(value, Secret)}
            known[action.connector] = known.get(action.connector, frozenset()) | keys
    return replace(live, password_keys=known)


@dataclass(frozen=True, slots=True)
class FromFile:
    """Plans as a saved plan says: what the specs give has to be that, or what is left of it."""

    saved: Plan
    backend: Backend
    desired: Desired
    policies: tuple[Policy, ...]

    def __call__(self, shown: Plan) -> tuple[Plan, Live]:
        """What was shown before does not matter. Raises Stale."""
        return planned_as_saved(self.saved, self.backend, self.desired, self.policies)


def left_of(shown: Plan, before: Live, replan: Replan) -> tuple[Plan, Live]:
    """What is left to do, and the cluster as it is now; `before` is what the plan was made from.

    Raises Moved where that is not some of what was shown, Stale.
    """
    now, live = replan(shown)
    try:
        ensure_rest(shown, now, live)
        ensure_changes_shown(shown, now)
    except Stale:
        raise Moved(now, live) from None
    if now.errors:
        raise Moved(now, live)
    # What the cluster said of secrets when it validated the configs
    names = live.password_keys.keys() | before.password_keys.keys()
    none: frozenset[str] = frozenset()
    known = {
        name: live.password_keys.get(name, none) | before.password_keys.get(name, none)
        for name in names
    }
    return now, replace(live, password_keys=known)


def planned_as_saved(
    saved: Plan, backend: Backend, desired: Desired, policies: tuple[Policy, ...]
) -> tuple[Plan, Live]:
    """The plan to apply, judged by the policies of now, and the cluster that it was made for.

    Of a plan that an apply of ours began and did not end, what is left. Raises Stale where the
    cluster moved otherwise, or where the specs do not give the saved plan; Invalid for secrets
    without fingerprints, but in the first apply of all on this cluster.
    """
    if saved.rolls_back is not None:
        what = f"this plan rolls apply {saved.rolls_back} back: no specs give it"
        hint = f"`connect rollback {saved.rolls_back} FILE` applies it"
        raise Invalid(Diagnostic("apply.rolls-back", what, hint=hint))
    project = backend.project
    before = live = backend.observe(desired)

    def made(wanted: Plan, agrees: Agrees) -> Plan:
        nonlocal live
        if wanted.actions:
            part = narrowed(desired, before, scope_of_saved(wanted, desired, before))[0]
            live = checked(before, part, backend)
        return planned_again(
            wanted, desired, live, project.worker, agrees, project.deletes, project.overrides
        )

    again = as_saved(saved, desired, before, project, backend.ledger, made)
    return judged(replace(again, target=target_of(project)), policies, live), live


def as_saved(
    saved: Plan,
    desired: Desired,
    live: Live,
    project: Project,
    ledger: Callable[[], LedgerSnapshot],
    made: Callable[[Plan, Agrees], Plan],
) -> Plan:
    """The plan in the file, `made` again; what is left of it where an apply of ours began it and
    did not end it. `made` gets the plan, and how to compare it with the new one.

    Raises Stale, and Invalid for secrets without fingerprints.
    """
    try:
        # First what it relies on: that says best what moved
        ensure_fresh(saved, desired, project, live)
        again = made(saved, ensure_same)
    except Stale:
        begun = ledger().begun(project.name, plan_hash(saved))
        if begun is None:
            raise
        # An apply may have made the project's first key since
        known = saved.key_id or key_id(live.ledger.fingerprint_key)
        ensure_fresh(replace(saved, actions=(), key_id=known), desired, project, live)
        again = made(still_known(saved, desired, live), ensure_left)
        left, whole = len(again.actions), len(saved.actions)
        what = (
            f"apply {begun.id} did not end this plan: {left} of its {whole} actions are left to do"
        )
        again = replace(again, warnings=(warning("apply.goes-on", what), *again.warnings))
    else:
        ensure_secrets_can_be_told_apart(saved, live)
    return replace(again, saved_as=plan_hash(saved))


def ensure_secrets_can_be_told_apart(plan: Plan, live: Live) -> None:
    """Raises Invalid for a plan whose file could not, though the project has applied before."""
    problems = check_saved(plan, key_comes=live.key_comes)
    if problems:
        raise Invalid(*problems)
