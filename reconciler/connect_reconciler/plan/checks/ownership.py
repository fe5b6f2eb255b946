"""May this project change and delete these connectors, and as many of them? Pure.

Specs may be another environment's or another repository's, a ledger may have been lost, and a
failed generator or a missing submodule looks like specs that were removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator

from connect_reconciler.actions import Action, Delete
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.plan.diff import ConnectorDiff, Context
from connect_specs.desired import Desired, TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import counted, listed

SPECS_EMPTY, SPECS_DISJOINT = "specs.empty", "specs.disjoint"


def owned_by_other(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a spec of a connector that belongs to another project."""
    owned = diff.owned
    if owned is not None and owned.project != context.desired.project:
        yield Diagnostic(
            "plan.owned-by-other",
            f"connector {diff.name} belongs to project {owned.project}",
            diff.place,
            hint=f"remove this spec, or remove the connector from project {owned.project} first",
            blocks="connector",
        )


def owner_unseen(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses connectors that their own config does not call this project's over REST alone,
    where owners and protection that the ledger topic holds cannot be seen."""
    overrides = context.overrides
    if overrides is None or not context.live.rest_alone:
        return
    for name in _unmarked(diff):
        if name not in overrides.take_over:
            yield Diagnostic(
                "plan.owner-unseen",
                f"{name}: its config does not say that it is this project's, and owners cannot be"
                " seen without cluster.kafka",
                diff.place,
                why="another project may own it, or protect it against deletion",
                hint="add cluster.kafka to connect.yaml; or if it is to be this project's, run this"
                f" again with --take-over {shlex.quote(name)}",
                blocks="connector",
            )


def _unmarked(diff: ConnectorDiff) -> Iterator[str]:
    """Returns the existing connectors that nothing calls this project's, and that would be changed.

    An adoption alone changes nothing, but the config of a connector that is stopped.
    """
    connector, rename = diff.live, diff.rename
    renamed = rename is not None and rename.stage != "unrelated"
    if rename is not None and renamed and rename.live is not None and rename.owned is None:
        yield rename.old
    if connector is not None and diff.owned is None:
        stopped = connector.target is TargetState.STOPPED
        if diff.config or diff.pin or stopped or diff.goal is not connector.target:
            yield diff.name


def protected(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses to delete a connector with `prevent_delete`."""
    if diff.existence == "delete" and diff.owned is not None and diff.owned.prevent_delete:
        yield Diagnostic(
            "plan.protected",
            f"connector {diff.name} has no spec any more, but is protected against deletion",
            diff.name,
            hint="put the spec back with prevent_delete: false and apply, then remove the file",
            blocks="connector",
        )


def other_environment(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a deletion, and warns of a change, that may come from the environment alone: the
    connector may have a spec, or its earlier config, in the one that it was applied with."""
    last = _other_environment(diff, context.desired, context.env)
    if last is None:
        return
    place = environment(context.env)
    allowed = context.overrides is not None and context.overrides.change_env
    if diff.existence == "delete" and not allowed:
        yield Diagnostic(
            "plan.other-environment",
            f"{diff.name} was applied with --env {last}, and has no spec {place}",
            diff.name,
            why="it would be deleted, although its spec may be there in that environment",
            hint=f"plan with --env {last}; environments on one cluster need projects of their own",
            blocks="connector",
        )
    elif diff.config:
        yield warning(
            "plan.other-environment",
            f"{diff.name} was applied with --env {last} before, and its config changes to that"
            f" {place}",
            diff.place,
        )


def environment_changed(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Refuses an environment if the project was applied to this cluster with another one last, or
    with none."""
    last = context.whole.ledger.last_applied(context.desired.project)
    overrides = context.overrides
    if overrides is None or overrides.change_env or last is None or last.env == context.env:
        return
    advice = "leave out --env" if last.env is None else f"use --env {last.env}"
    project, place = context.desired.project, environment(context.env)
    yield Diagnostic(
        "plan.environment",
        f"project {project} was applied to this cluster {environment(last.env)} last, and this plan"
        f" is made {place}",
        why="the plan would write the values of another environment",
        hint=f"{advice}; if the cluster is to have the other environment from now on, run this"
        " again with --change-env",
    )


def environment(env: str | None) -> str:
    """Returns the environment in words, for the end of a sentence."""
    return "without an environment" if env is None else f"with --env {env}"


def no_specs_left(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Refuses a plan that removes connectors where no spec names any that the project owns.

    A spec with `renamed_from` names the old connector, too. `--allow-empty` makes it a warning.
    """
    if not any(diff.existence in ("delete", "forget") for diff in context.changes.values()):
        return
    project = context.desired.project
    owned = context.whole.ledger.owned_by(project)
    code = no_owned_is_named(context.desired, context.whole.ledger)
    if code is None:
        return
    message = f"project {project} owns {_connectors(owned)}, and no spec here names any of them"
    reason = "the plan removes what has no spec; these may be the specs of another project"
    hint = "if so, give one of the two another 'project' in connect.yaml; to rename a connector,"
    hint += " use renamed_from"
    if code == SPECS_EMPTY:
        message = f"there are no specs, but project {project} owns {_connectors(owned)}"
        reason = "the plan removes what has no spec"
        hint = "check 'specs' in connect.yaml, and what fills that folder"
    if context.deletes.allow_empty:
        hint = "--allow-empty allows it"
        yield warning(code, message, why=reason, hint=hint)
    else:
        hint += "; if the plan is what you want, run this again with --allow-empty"
        yield Diagnostic(code, message, why=reason, hint=hint)


def no_owned_is_named(desired: Desired, ledger: LedgerState) -> str | None:
    """Returns the code with which a plan is refused because no spec names any connector of the
    project."""
    specs = desired.connectors
    names = {spec.renamed_from for spec in specs.values()} | specs.keys()
    if not names.isdisjoint(ledger.owned_by(desired.project)):
        return None
    return SPECS_DISJOINT if specs else SPECS_EMPTY


def too_many_deletes(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Refuses a plan that deletes more connectors than `max_deletes`. A rename deletes none."""
    limits = context.deletes
    deletes = [action for action in actions if isinstance(action, Delete)]
    names = [action.connector for action in deletes if action.renamed_to is None]
    if limits.most is not None and len(names) > limits.most:
        yield Diagnostic(
            "plan.max-deletes",
            f"the plan deletes {_connectors(names)}, and max_deletes is {limits.most}",
            limits.where or "--max-deletes",
            hint=f"if the plan is what you want, run this again with --max-deletes {len(names)}",
        )


def _other_environment(diff: ConnectorDiff, desired: Desired, env: str | None) -> str | None:
    """Returns the environment that it was applied with, if that is another, and still is one."""
    owned = diff.owned
    if owned is None or owned.project != desired.project or owned.env in (None, env):
        return None
    return owned.env if owned.env in desired.environments else None


def _connectors(names: Collection[str]) -> str:
    return f"{counted(len(names), 'connector')} ({listed(sorted(names))})"
