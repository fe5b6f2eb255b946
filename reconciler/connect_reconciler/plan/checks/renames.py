"""Can a connector get another name, and its offsets with it? Pure.

The loader sees to it that a name is renamed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from connect_reconciler.model.ledger import begun
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.plan.context import Context, place_of
from connect_reconciler.plan.diff import ConnectorDiff, Rename
from connect_reconciler.plan.predict import SINK_SERVERS
from connect_specs.desired import Consequence, Desired, DesiredConnector
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.names import sink_group
from connect_specs.states import TargetState

# What a change of a key does that makes carried offsets worth nothing
_ANEW: frozenset[Consequence] = frozenset({"reread", "redelivery", "new-offsets-topic"})


def not_possible(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Why the connector cannot be renamed as its spec says, or must be."""
    spec, desired, live = changes.spec, context.desired, context.live
    if spec is None:
        return
    problem = _given_up(spec, desired, live)
    if problem is None and changes.rename is not None:
        problem = _old_spec(changes.rename.old, desired) or _on_cluster(
            changes, changes.rename, desired.project, live
        )
    if problem is not None:
        yield replace(problem, where=spec.renamed_from_where or spec.where)


def into_group(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """The new name gets the old one's offsets and no others: in a group of its own, or the same."""
    spec, rename = changes.spec, changes.rename
    if spec is None or rename is None or rename.live is None or not changes.carries:
        return
    if changes.kind != "sink" or rename.live.kind != "sink":
        return
    group = sink_group(changes.name, changes.written or {}, context.worker)
    others = context.other_readers(group, changes.name, rename.old)
    if others and group != sink_group(rename.old, rename.live.config, context.worker):
        yield Diagnostic(
            "plan.rename-into-group",
            f"{changes.name} is to read with the consumer group of {', '.join(others)}, whose"
            f" offsets those of {rename.old} would replace",
            spec.renamed_from_where or spec.where,
            hint="rename it with a consumer group of its own",
            blocks="connector",
        )


def nothing_to_rename(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A warning of a connector that is created although its spec renames one."""
    spec = changes.spec
    if spec is None or spec.renamed_from is None or changes.rename is not None:
        return
    if changes.live is not None or changes.owned is not None:
        return
    old, orphans = spec.renamed_from, context.live.orphan_offsets
    left = "; its offsets are still there, and are not used" if orphans.get(old) else ""
    yield warning(
        "plan.nothing-to-rename",
        f"there is no connector {old} to rename, so {spec.name} is a new connector{left}",
        spec.renamed_from_where or spec.where,
        hint="take renamed_from out if that is what you want",
    )


def taken_back(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A warning of a connector that runs again although another one has gone on from its
    offsets, and cannot give them back."""
    name, live = changes.name, context.live
    if changes.spec is None or changes.live is None or changes.rename is not None:
        return
    for new in live.ledger.carried_to(name):
        if changes.goal is TargetState.STOPPED or live.ledger.owner(name) is None:
            continue
        gone = "" if new in live.connectors else ", which is not there any more"
        yield warning(
            "plan.rename-taken-back",
            f"the offsets of {name} were carried to {new}{gone}: what {new} did since, {name} does"
            " again",
            place_of(changes),
            hint=f"to prevent that, set the offsets of {name} with a pin",
        )


def _given_up(spec: DesiredConnector, desired: Desired, live: Live) -> Diagnostic | None:
    """A rename that an apply began, and whose old name neither files nor this spec name."""
    renames = live.ledger.renames_of(spec.name)
    for old in sorted(renames):
        there = old in live.connectors and old not in desired.connectors
        given_up = old != spec.renamed_from and begun(renames, old)
        if given_up and there and spec.name in live.connectors:
            return _problem(
                "plan.rename-given-up",
                f"an apply began to rename {old} to {spec.name}, and its offsets are still there",
                f"put renamed_from: {old} back; or, to keep {old}, put its spec in place of this",
            )
    return None


def _old_spec(old: str, desired: Desired) -> Diagnostic | None:
    """Returns a problem if the name that a rename is to remove has a spec."""
    spec = desired.connectors.get(old)
    if spec is None:
        return None
    return _problem(
        "plan.rename-keeps-old",
        f"there is still a spec of {old}, which this one says was renamed",
        "remove that spec, or remove renamed_from to have both",
        why=f"its spec is at {spec.where}; a rename deletes the old connector",
    )


def _on_cluster(
    changes: ConnectorDiff, rename: Rename, project: str, live: Live
) -> Diagnostic | None:
    name, old, connector = changes.name, rename.old, rename.live
    if refused := _not_allowed(name, rename, project):
        return refused
    if connector is None:
        if rename.stage == "carried":
            return None
        return _problem(
            "plan.rename-lost",
            f"{old} was deleted while it was renamed to {name}, before its offsets were carried",
            f"set the offsets of {name} with a pin and take renamed_from out",
        )
    if old in live.unread_offsets and rename.carries:
        return _problem(
            "plan.rename-offsets-unknown",
            f"{name} is to go on from the offsets of {old}, which could not be read:"
            f" {live.unread_offsets[old]}",
            "make the plan again once they can be read",
        )
    if rename.stage == "carried":
        return _running_again(name, old, connector.target)
    return (
        _carried_elsewhere(name, old, live)
        or _goes_on_elsewhere(changes, old, connector)
        or _own_rename(name, old, live)
    )


def _not_allowed(name: str, rename: Rename, project: str) -> Diagnostic | None:
    """Whether the old connector must stay, or nobody began to rename it."""
    old, owned = rename.old, rename.owned
    if owned is not None and owned.project != project:
        return _problem(
            "plan.owned-by-other",
            f"{name} is renamed from {old}, which belongs to project {owned.project}",
            f"remove {old} from project {owned.project} first",
        )
    if owned is not None and owned.prevent_delete:
        return _problem(
            "plan.protected",
            f"{name} is renamed from {old}, which is protected against deletion",
            f"apply prevent_delete: false for {old} first, under its old name",
        )
    if rename.stage == "unrelated":
        return _problem(
            "plan.rename-both-exist",
            f"{name} is renamed from {old}, and both are there",
            f"take renamed_from out to keep both, or delete one: `connect delete {old}` makes the"
            " rename done",
        )
    return None


def _carried_elsewhere(name: str, old: str, live: Live) -> Diagnostic | None:
    """A problem where a third connector has gone on from the offsets of the old one."""
    others = [new for new in live.ledger.carried_to(old) if new != name and new in live.connectors]
    if not others:
        return None
    return _problem(
        "plan.rename-carried-elsewhere",
        f"{name} is renamed from {old}, whose offsets were carried to {others[0]}",
        f"write renamed_from: {others[0]}, which goes on where {old} stopped",
    )


def _goes_on_elsewhere(
    changes: ConnectorDiff, old: str, connector: LiveConnector
) -> Diagnostic | None:
    """Whether the new config makes the old connector's offsets mean something else, or nothing."""
    name = changes.name
    if {changes.kind, connector.kind} == {"source", "sink"}:
        return _problem(
            "plan.rename-other-kind",
            f"{old} is a {connector.kind}, and {name} is a {changes.kind}: offsets do not fit",
            f"take renamed_from out: {name} is then created, and {old} deleted",
        )
    grave = [each.key for each in changes.moved if each.consequence in _ANEW]
    if grave and connector.offsets:
        return _problem(
            "plan.rename-begins-anew",
            f"{name} is renamed from {old}, and with another {', '.join(grave)} it does not go on"
            f" where {old} stops",
            f"rename it first, and change {', '.join(grave)} after that",
        )
    if connector.config.get(SINK_SERVERS) != (changes.written or {}).get(SINK_SERVERS):
        return _problem(
            "plan.rename-other-kafka",
            f"{name} reads another Kafka cluster than {old}: its offsets mean nothing there",
            "rename it first, and change the cluster after that",
        )
    return None


def _running_again(name: str, old: str, target: TargetState) -> Diagnostic | None:
    if target is TargetState.STOPPED:
        return None
    return _problem(
        "plan.rename-runs-again",
        f"{old} is {target.value} again, after its offsets were carried to {name}: what it did"
        f" since, {name} does too",
        f"stop it with `connect stop {old}`; the next apply deletes it",
    )


def _own_rename(name: str, old: str, live: Live) -> Diagnostic | None:
    """A problem where the old connector is itself being renamed, also from a name that was deleted
    meanwhile."""
    renames = live.ledger.renames_of(old)
    for older in sorted(renames):
        if begun(renames, older) and (older in live.connectors or older == name):
            return _problem(
                "plan.rename-unfinished",
                f"{old} is still being renamed from {older}",
                f"finish that first: put the spec of {old} back, renamed_from: {older}",
            )
    return None


def _problem(code: str, what: str, hint: str, *, why: str = "") -> Diagnostic:
    return Diagnostic(code, what, why=why, hint=hint, blocks="connector")
