"""May this project change and delete these connectors, and as many of them? Pure.

Specs may be another environment's or another repository's, a ledger may have been lost, and a
failed generator or a missing submodule looks like specs that were removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from connect_reconciler.model.actions import Action, Delete
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.plan.context import Context, place_of
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.counting import counted, listed
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic, warning

SPECS_EMPTY, SPECS_DISJOINT = "specs.empty", "specs.disjoint"


def owned_by_other(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A connector of another project is left to it."""
    owned = changes.owned
    if owned is not None and owned.project != context.desired.project:
        yield Diagnostic(
            "plan.owned-by-other",
            f"connector {changes.name} belongs to project {owned.project}",
            place_of(changes),
            hint=f"remove this spec, or remove the connector from project {owned.project} first",
            blocks="connector",
        )


def protected(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A connector with `prevent_delete` is not deleted."""
    if changes.existence == "delete" and changes.owned is not None and changes.owned.prevent_delete:
        yield Diagnostic(
            "plan.protected",
            f"connector {changes.name} has no spec any more, but is protected against deletion",
            changes.name,
            hint="put the spec back with prevent_delete: false and apply, then remove the file",
            blocks="connector",
        )


def other_environment(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A connector without a spec may have one in the environment that it was applied with, and a
    config may differ only because the environment does."""
    other = _other_environment(changes, context.desired, context.env)
    if other is None:
        return
    here = "without an environment" if context.env is None else f"with --env {context.env}"
    if changes.existence == "delete":
        yield Diagnostic(
            "plan.other-environment",
            f"{changes.name} was applied with --env {other}, and has no spec {here}",
            changes.name,
            why="it would be deleted, although its spec may be there in that environment",
            hint=f"plan with --env {other}; environments on one cluster need projects of their own",
            blocks="connector",
        )
    elif changes.config:
        yield warning(
            "plan.other-environment",
            f"{changes.name} was applied with --env {other} before, and its config changes to that"
            f" {here}",
            place_of(changes),
        )


def no_specs_left(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """The project owns connectors, no spec names any of them, and the plan removes some.

    A spec with `renamed_from` names the old connector, too. `--allow-empty` makes it a warning.
    """
    if not any(each.existence in ("delete", "forget") for each in context.changes.values()):
        return
    project = context.desired.project
    owned = context.whole.ledger.owned_by(project)
    code = no_owned_is_named(context.desired, context.whole.ledger)
    if code is None:
        return
    what = f"project {project} owns {_connectors(owned)}, and no spec here names any of them"
    why = "the plan removes what has no spec; these may be the specs of another project"
    hint = "if so, give one of the two another 'project' in connect.yaml; to rename a connector,"
    hint += " use renamed_from"
    if code == SPECS_EMPTY:
        what = f"there are no specs, but project {project} owns {_connectors(owned)}"
        why = "the plan removes what has no spec"
        hint = "check 'specs' in connect.yaml, and what fills that folder"
    if context.deletes.allow_empty:
        hint = "--allow-empty allows it"
        yield warning(code, what, why=why, hint=hint)
    else:
        hint += "; if the plan is what you want, run this again with --allow-empty"
        yield Diagnostic(code, what, why=why, hint=hint)


def no_owned_is_named(desired: Desired, ledger: LedgerState) -> str | None:
    """The code with which a plan is refused because no spec names any connector of the project."""
    specs = desired.connectors
    named = {spec.renamed_from for spec in specs.values()} | specs.keys()
    if not named.isdisjoint(ledger.owned_by(desired.project)):
        return None
    return SPECS_DISJOINT if specs else SPECS_EMPTY


def too_many_deletes(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """The plan deletes more connectors than `max_deletes`. A rename deletes none."""
    limits = context.deletes
    names = [action.connector for action in actions if isinstance(action, Delete)]
    if limits.most is not None and len(names) > limits.most:
        yield Diagnostic(
            "plan.max-deletes",
            f"the plan deletes {_connectors(names)}, and max_deletes is {limits.most}",
            limits.where or "--max-deletes",
            hint=f"if the plan is what you want, run this again with --max-deletes {len(names)}",
        )


def _other_environment(changes: ConnectorDiff, desired: Desired, env: str | None) -> str | None:
    """The environment that it was applied with, if that is another, and still is one."""
    owned = changes.owned
    if owned is None or owned.project != desired.project or owned.env in (None, env):
        return None
    return owned.env if owned.env in desired.environments else None


def _connectors(names: Collection[str]) -> str:
    return f"{counted(len(names), 'connector')} ({listed(sorted(names))})"
