"""Does a plan delete too much? A failed generator or a missing submodule looks like specs that were
removed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connect_reconciler.plan.actions import Action, Delete
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live
from connect_specs.desired import DeleteLimits, Desired
from connect_specs.diagnostics import Diagnostic

SPECS_EMPTY, SPECS_DISJOINT = "specs.empty", "specs.disjoint"
# The hint where the option was given
ALLOWED = "--allow-empty allows it"

_NAMED = 5


def none_left(changes: Iterable[Changes], desired: Desired, live: Live) -> Diagnostic | None:
    """The project owns connectors, no spec names any of them, and some are to be removed.

    `changes` are those of the plan, which may be about a part of the project; `desired` and `live`
    are the whole. A spec that says `renamed_from` names the old connector too.
    """
    if not any(each.existence in ("delete", "forget") for each in changes):
        return None
    specs = desired.connectors
    named = {spec.renamed_from for spec in specs.values()} | specs.keys()
    owned = [
        name for name, each in live.ledger.connectors.items() if each.project == desired.project
    ]
    if not named.isdisjoint(owned):
        return None
    override = "if the plan is what you want, run this again with --allow-empty"
    if not specs:
        return Diagnostic(
            SPECS_EMPTY,
            f"there are no specs, but project {desired.project} owns {_connectors(owned)}",
            why="the plan removes what has no spec",
            hint=f"check 'specs' in connect.yaml, and what fills that folder; {override}",
        )
    return Diagnostic(
        SPECS_DISJOINT,
        f"project {desired.project} owns {_connectors(owned)}, and no spec here names any of them",
        why="the plan removes what has no spec; these may be the specs of another project",
        hint="if so, give one of the two another 'project' in connect.yaml; to rename a connector,"
        f" use renamed_from; {override}",
    )


def too_many(actions: Iterable[Action], limits: DeleteLimits) -> Diagnostic | None:
    """The plan deletes more connectors than it may. A rename deletes none."""
    names = [action.connector for action in actions if isinstance(action, Delete)]
    if limits.most is None or len(names) <= limits.most:
        return None
    return Diagnostic(
        "plan.max-deletes",
        f"the plan deletes {_connectors(names)}, and max_deletes is {limits.most}",
        limits.where or "--max-deletes",
        hint=f"if the plan is what you want, run this again with --max-deletes {len(names)}",
    )


def _connectors(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    count = "1 connector" if len(names) == 1 else f"{len(names)} connectors"
    return f"{count} ({', '.join(sorted(names)[:_NAMED])}{more})"
