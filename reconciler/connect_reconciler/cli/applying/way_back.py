"""The way back from an apply, found in the ledger, on the cluster and in the specs of now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connect_reconciler.cli.output import progress
from connect_specs.diagnostics import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan
    from connect_reconciler.plan.rollback.way_back import WayBack
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Desired, Project


@dataclass(frozen=True, slots=True)
class Found:
    """What to plan for, and the cluster as it is now."""

    way: WayBack
    live: Live

    def plan(self, project: Project) -> Plan:
        """The plan for it; policies have not judged it yet."""
        from connect_reconciler.plan.rollback.way_back import rollback_plan
        from connect_reconciler.plan.target import target_of

        made = rollback_plan(
            self.way,
            self.live,
            group_id=project.group_id,
            env=project.env,
            worker=project.worker,
        )
        return replace(made, target=target_of(project))


def find_way_back(
    project: Project,
    properties: Mapping[str, str],
    apply_id: str,
    scope: Scope,
    files: Desired,
) -> Found:
    """The way back from one of the project's applies, given by its id or how that begins.
    `files` are the specs of now, for secrets.

    Raises Invalid for an apply that is not known.
    """
    from connect_reconciler.cli.journals import journal_of, ledger_of
    from connect_reconciler.observe.observe import observe
    from connect_reconciler.observe.validity import checked
    from connect_reconciler.plan.rollback.way_back import in_scope, to_look_at, way_back

    ledger = ledger_of(project, properties)
    apply_id = journal_of(ledger, project, apply_id).id
    before = in_scope(ledger.before(apply_id), scope)
    live = observe(project, to_look_at(apply_id, before, project.name), properties)
    times = ledger.rolled_back(apply_id)
    way = way_back(apply_id, before, ledger.later(apply_id), files, live, times=times)
    return Found(way, checked(live, project, way.desired, properties))


def specs_if_readable(project: Project) -> Desired:
    """The specs of now, for their secrets: with broken ones there must be a way back, too."""
    from connect_specs.desired import Desired
    from connect_specs.loader import load_specs

    try:
        return load_specs(project)
    except Invalid:
        progress("the specs cannot be read; secrets are looked for on the cluster alone")
        return Desired(project.name, {})
