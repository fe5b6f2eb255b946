"""What is left to do of a plan that was shown, decided when nobody else can change anything.

Between the plan and the lease a request of an apply that was killed may still take effect, or
another apply comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from connect_specs.diagnostics import Diagnostic, Stale

if TYPE_CHECKING:
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.plan.scope import Scope
    from connect_reconciler.policies.policy import Policy
    from connect_specs.desired import Desired, Project

# Makes a plan anew, given the one that was shown. Raises Stale where it leads nowhere any more.
Again: TypeAlias = "Callable[[Plan], tuple[Plan, Live]]"


class Moved(Exception):
    """There is more to do now than the plan that was shown says, or something else."""

    def __init__(self, plan: Plan, live: Live) -> None:
        super().__init__()
        self.plan = plan
        self.live = live

    def stale(self) -> Stale:
        """The same for whoever cannot be asked again."""
        what = "the cluster changed since the plan was shown, and there is more to do than it said"
        hint = "run this again: it begins with the plan of now"
        return Stale(Diagnostic("stale.moved", what, hint=hint))


@dataclass(frozen=True, slots=True)
class FromSpecs:
    """Plans from the specs, as the plan that was shown was made."""

    project: Project
    desired: Desired
    policies: tuple[Policy, ...]
    properties: Mapping[str, str]
    scope: Scope

    def __call__(self, shown: Plan) -> tuple[Plan, Live]:
        """The plan that was shown, as long as it is what the specs give."""
        from connect_reconciler.apply.run import ensure_fresh
        from connect_reconciler.cli.planning import observed, planned
        from connect_reconciler.observe.observe import observe
        from connect_reconciler.plan.agreement import ensure_same, with_numbers_of

        def made(live: Live) -> Plan:
            return with_numbers_of(
                shown,
                self.desired,
                live,
                self.project.worker,
                lambda wanted: planned(self.project, wanted, live, self.policies, self.scope),
            )

        live = observe(self.project, self.desired, self.properties)
        try:
            ensure_fresh(shown, self.desired, self.project, live)
            # The cluster validated these very configs before
            ensure_same(shown, made(live), live)
            return shown, live
        except Stale:
            live = observed(self.project, self.desired, self.properties, self.scope)
            return made(live), live


@dataclass(frozen=True, slots=True)
class FromFile:
    """Plans as a saved plan says: what the specs give has to be that, or what is left of it."""

    saved: Plan
    project: Project
    desired: Desired
    policies: tuple[Policy, ...]
    properties: Mapping[str, str]

    def __call__(self, shown: Plan) -> tuple[Plan, Live]:
        """What was shown before does not matter. Raises Stale."""
        from connect_reconciler.cli.applying.saved import planned_as_saved

        return planned_as_saved(
            self.saved, self.project, self.desired, self.policies, self.properties
        )


def left_of(shown: Plan, before: Live, again: Again) -> tuple[Plan, Live]:
    """What is left to do, and the cluster as it is now; `before` is what the plan was made from.

    Raises Moved where that is not some of what was shown, Stale.
    """
    from connect_reconciler.plan.agreement import ensure_changes_shown, ensure_rest

    now, live = again(shown)
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
