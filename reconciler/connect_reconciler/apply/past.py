"""What an apply keeps of a connector before its first action on it: the way back. Values only."""

from __future__ import annotations

from connect_reconciler.apply.readback import Found
from connect_reconciler.plan.journal import Before
from connect_reconciler.plan.live import LedgerState
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.sensitive import Veil, veil
from connect_specs.states import TargetState


def before_of(
    name: str, found: Found | None, ledger: LedgerState, cover: Veil, *, renamed_from: str | None
) -> Before:
    """The connector as it is now, secrets as fingerprints."""
    owned = ledger.connectors.get(name)
    target = None if found is None else found.target
    if owned is not None and owned.held_from is not None and target is TargetState.STOPPED:
        target = owned.held_from
    return Before(
        config=None if found is None else veil(without_reserved(found.config), cover),
        target=target,
        owner=None if owned is None else owned.project,
        prevent_delete=owned is not None and owned.prevent_delete,
        pins=tuple(sorted(pin for of, pin in ledger.pins if of == name)),
        renamed_from=renamed_from,
    )
