"""What did an apply that ended early leave half done? Judged by what is there now. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.plan.action_words import words
from connect_reconciler.plan.journal import HalfDone
from connect_reconciler.plan.live import Live, Owned
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil, config_fingerprint, veil
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic
from connect_specs.offsets import canonical_partition
from connect_specs.states import TargetState

_TOLD = {
    True: "it took place",
    False: "it did not take place",
    None: "whether it took place cannot be told",
}
_TARGETS = {
    "Stop": TargetState.STOPPED,
    "StopOld": TargetState.STOPPED,
    "Pause": TargetState.PAUSED,
    "Resume": TargetState.RUNNING,
}


# Said whatever the plan changes
UNFINISHED = "plan.unfinished-apply"


def unfinished(live: Live, project: str) -> Iterator[Diagnostic]:
    """A line for each action that an apply was in the middle of; one for an apply without.

    Where no journal is kept, a line for each connector that an apply of `project` left stopped.
    """
    for found in live.ledger.unfinished:
        who = f"apply {found.id}" + (f" by {found.by}" if found.by else "")
        if not found.steps:
            what = f"{who} is at work or ended early; this plan goes on from there"
            yield Diagnostic(UNFINISHED, what)
        for step in found.steps:
            what = f"{who} ended in the middle of `{words(step.action)} {step.connector}`"
            yield Diagnostic(UNFINISHED, f"{what}: {_TOLD[took_place(step, live)]}", step.connector)

    for name, owned in sorted(live.ledger.connectors.items()):
        connector = live.connectors.get(name)
        stopped = connector is not None and connector.target is TargetState.STOPPED
        told = live.rest_alone or owned.resuming is not None
        if told and stopped and owned.project == project and owned.held_from is not None:
            yield _left_stopped(name, owned, owned.held_from)


def _left_stopped(name: str, owned: Owned, before: TargetState) -> Diagnostic:
    what = f"{name} is stopped: an apply that stopped it did not make it {before.value} again"
    why = ""
    if owned.resuming is not None:
        what = f"{name} is stopped: an apply ended as it made it {before.value} again, or someone"
        what += " stopped it since"
        why = "it has the offsets that it had then, so nothing tells the one from the other"
    hint = "to keep it stopped, write state: stopped into its spec"
    return Diagnostic(UNFINISHED, what, name, why, hint)


def took_place(step: HalfDone, live: Live) -> bool | None:
    """Whether the cluster did what was asked; None where nothing tells."""
    connector = live.connectors.get(step.connector)
    if step.action == "Create":
        return connector is not None
    if step.action in ("Delete", "DeleteOld"):
        return connector is None
    if connector is None or step.before is None:
        return None
    if step.action in _TARGETS:
        asked = _TARGETS[step.action]
        if connector.target is not asked:
            return False
        # A rename stops its old name also where that is stopped already
        was_there = step.action == "StopOld" and step.before.target is asked
        return None if was_there else True
    if step.action == "UpdateConfig" and step.before.config is not None:
        key = live.ledger.fingerprint_key
        now = veil(without_reserved(connector.config), Veil(step.connector, key))
        return config_fingerprint(now, connector=step.connector, key=key) != config_fingerprint(
            step.before.config, connector=step.connector, key=key
        )
    if step.action in ("AlterOffsets", "ResetOffsets") and step.before.offsets is not None:
        return _by_partition(connector.offsets) != _by_partition(step.before.offsets)
    return None


def _by_partition(offsets: tuple[OffsetEntry, ...]) -> dict[str, dict[str, object]]:
    return {
        canonical_partition(entry.partition): dict(entry.offset)
        for entry in offsets
        if entry.offset is not None
    }
