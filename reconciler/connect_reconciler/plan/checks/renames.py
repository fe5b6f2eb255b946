"""Checks of renames: a connector gets another name, and its offsets with it. Pure.

The loader sees to it that a name is renamed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from connect_reconciler.actions.connector_state import SINK_SERVERS
from connect_reconciler.model.ledger import begun
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.plan.diff import ConnectorDiff, Context, Rename
from connect_specs.desired import Consequence, Desired, DesiredConnector, TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.names import sink_group

# Consequences of a changed key after which carried offsets mean nothing
_ANEW: frozenset[Consequence] = frozenset({"reread", "redelivery", "new-offsets-topic"})


def not_possible(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Yields why the connector cannot be renamed as its spec says, or must be."""
    spec, desired, live = diff.spec, context.desired, context.live
    if spec is None:
        return
    problem = _given_up(spec, desired, live)
    if problem is None and diff.rename is not None:
        problem = _old_spec(diff.rename.old, desired) or _on_cluster(
            diff, diff.rename, desired.project, live
        )
    if problem is not None:
        yield replace(problem, where=diff.rename_place)


def conflicting_group(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Yields an error where the new name would get offsets in a consumer group of other sinks."""
    spec, rename = diff.spec, diff.rename
    if spec is None or rename is None or rename.live is None or not diff.carries:
        return
    if diff.kind != "sink" or rename.live.kind != "sink":
        return
    group = sink_group(diff.name, diff.written or {}, context.worker)
    readers = context.other_readers(group, diff.name, rename.old)
    if readers and group != sink_group(rename.old, rename.live.config, context.worker):
        yield Diagnostic(
            "plan.rename-into-group",
            f"{diff.name} is to read with the consumer group of {', '.join(readers)}, whose"
            f" offsets those of {rename.old} would replace",
            diff.rename_place,
            hint="rename it with a consumer group of its own",
            blocks="connector",
        )


def nothing_to_rename(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Yields a warning of a connector that is created although its spec renames one."""
    spec = diff.spec
    if spec is None or spec.renamed_from is None or diff.rename is not None:
        return
    if diff.live is not None or diff.owned is not None:
        return
    old_name, orphans = spec.renamed_from, context.live.orphan_offsets
    unused = "; its offsets are still there, and are not used" if orphans.get(old_name) else ""
    yield warning(
        "plan.nothing-to-rename",
        f"there is no connector {old_name} to rename, so {spec.name} is a new connector{unused}",
        diff.rename_place,
        hint="take renamed_from out if that is what you want",
    )


def reversed_rename(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Yields a warning of a connector that runs again although another one has gone on from its
    offsets, and cannot give them back."""
    name, live = diff.name, context.live
    if diff.spec is None or diff.live is None or diff.rename is not None:
        return
    for successor in live.ledger.carried_to(name):
        if diff.goal is TargetState.STOPPED or live.ledger.owner(name) is None:
            continue
        gone = "" if successor in live.connectors else ", which is not there any more"
        yield warning(
            "plan.rename-taken-back",
            f"the offsets of {name} were carried to {successor}{gone}: what {successor} did since,"
            f" {name} does again",
            diff.place,
            hint=f"to prevent that, set the offsets of {name} with a pin",
        )


def _given_up(spec: DesiredConnector, desired: Desired, live: Live) -> Diagnostic | None:
    """Returns a problem for a rename that an apply began, and that no spec names."""
    renames = live.ledger.renames_of(spec.name)
    for name in sorted(renames):
        present = name in live.connectors and name not in desired.connectors
        given_up = name != spec.renamed_from and begun(renames, name)
        if given_up and present and spec.name in live.connectors:
            return _problem(
                "plan.rename-given-up",
                f"an apply began to rename {name} to {spec.name}, and its offsets are still there",
                f"put renamed_from: {name} back; or, to keep {name}, put its spec in place of this",
            )
    return None


def _old_spec(old_name: str, desired: Desired) -> Diagnostic | None:
    """Returns a problem if the name that a rename is to remove has a spec."""
    spec = desired.connectors.get(old_name)
    if spec is None:
        return None
    return _problem(
        "plan.rename-keeps-old",
        f"there is still a spec of {old_name}, which this one says was renamed",
        "remove that spec, or remove renamed_from to have both",
        reason=f"its spec is at {spec.where}; a rename deletes the old connector",
    )


def _on_cluster(diff: ConnectorDiff, rename: Rename, project: str, live: Live) -> Diagnostic | None:
    name, old_name, connector = diff.name, rename.old, rename.live
    if refused := _not_allowed(name, rename, project):
        return refused
    if connector is None:
        if rename.stage == "carried":
            return None
        return _problem(
            "plan.rename-lost",
            f"{old_name} was deleted while it was renamed to {name},"
            " before its offsets were carried",
            f"set the offsets of {name} with a pin and take renamed_from out",
        )
    if old_name in live.unread_offsets and rename.carries:
        return _problem(
            "plan.rename-offsets-unknown",
            f"{name} is to go on from the offsets of {old_name}, which could not be read:"
            f" {live.unread_offsets[old_name]}",
            "make the plan again once they can be read",
        )
    if rename.stage == "carried":
        return _running_again(name, old_name, connector.target)
    return (
        _carried_elsewhere(name, old_name, live)
        or _goes_on_elsewhere(diff, old_name, connector)
        or _own_rename(name, old_name, live)
    )


def _not_allowed(name: str, rename: Rename, project: str) -> Diagnostic | None:
    """Returns a problem if the old connector must stay, or no apply began to rename it."""
    old_name, owned = rename.old, rename.owned
    if owned is not None and owned.project != project:
        return _problem(
            "plan.owned-by-other",
            f"{name} is renamed from {old_name}, which belongs to project {owned.project}",
            f"remove {old_name} from project {owned.project} first",
        )
    if owned is not None and owned.prevent_delete:
        return _problem(
            "plan.protected",
            f"{name} is renamed from {old_name}, which is protected against deletion",
            f"apply prevent_delete: false for {old_name} first, under its old name",
        )
    if rename.stage == "unrelated":
        return _problem(
            "plan.rename-both-exist",
            f"{name} is renamed from {old_name}, and both are there",
            f"take renamed_from out to keep both, or delete one: `connect delete {old_name}` makes"
            " the rename done",
        )
    return None


def _carried_elsewhere(name: str, old_name: str, live: Live) -> Diagnostic | None:
    """Returns a problem if a third connector has gone on from the offsets of the old one."""
    for successor in live.ledger.carried_to(old_name):
        if successor != name and successor in live.connectors:
            return _problem(
                "plan.rename-carried-elsewhere",
                f"{name} is renamed from {old_name}, whose offsets were carried to {successor}",
                f"write renamed_from: {successor}, which goes on where {old_name} stopped",
            )
    return None


def _goes_on_elsewhere(
    diff: ConnectorDiff, old_name: str, connector: LiveConnector
) -> Diagnostic | None:
    """Returns a problem if the old connector's offsets mean something else with the new config."""
    name = diff.name
    if {diff.kind, connector.kind} == {"source", "sink"}:
        return _problem(
            "plan.rename-other-kind",
            f"{old_name} is a {connector.kind}, and {name} is a {diff.kind}: offsets do not fit",
            f"take renamed_from out: {name} is then created, and {old_name} deleted",
        )
    grave = [change.key for change in diff.moved if change.consequence in _ANEW]
    if grave and connector.offsets:
        return _problem(
            "plan.rename-begins-anew",
            f"{name} is renamed from {old_name}, and with another {', '.join(grave)} it does not go"
            f" on where {old_name} stops",
            f"rename it first, and change {', '.join(grave)} after that",
        )
    if connector.config.get(SINK_SERVERS) != (diff.written or {}).get(SINK_SERVERS):
        return _problem(
            "plan.rename-other-kafka",
            f"{name} reads another Kafka cluster than {old_name}: its offsets mean nothing there",
            "rename it first, and change the cluster after that",
        )
    return None


def _running_again(name: str, old_name: str, target: TargetState) -> Diagnostic | None:
    if target is TargetState.STOPPED:
        return None
    return _problem(
        "plan.rename-runs-again",
        f"{old_name} is {target.value} again, after its offsets were carried to {name}: what it did"
        f" since, {name} does too",
        f"stop it with `connect stop {old_name}`; the next apply deletes it",
    )


def _own_rename(name: str, old_name: str, live: Live) -> Diagnostic | None:
    """Returns a problem if the old connector is itself being renamed, also from a name that has
    been deleted since."""
    renames = live.ledger.renames_of(old_name)
    for first_name in sorted(renames):
        if begun(renames, first_name) and (first_name in live.connectors or first_name == name):
            return _problem(
                "plan.rename-unfinished",
                f"{old_name} is still being renamed from {first_name}",
                f"finish that first: put the spec of {old_name} back, renamed_from: {first_name}",
            )
    return None


def _problem(code: str, message: str, hint: str, *, reason: str = "") -> Diagnostic:
    return Diagnostic(code, message, why=reason, hint=hint, blocks="connector")
