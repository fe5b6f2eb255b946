"""What an apply keeps of a connector before its first action on it: the way back. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.cluster.readback import Found
from connect_reconciler.plan.journal import Before
from connect_reconciler.plan.live import LedgerState, Owned
from connect_reconciler.plan.renames.rename import pins_of
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil, fingerprint, veil
from connect_specs.states import TargetState


def before_of(
    name: str,
    found: Found | None,
    ledger: LedgerState,
    cover: Veil,
    *,
    renamed_from: str | None,
    ignore: tuple[str, ...] = (),
) -> Before:
    """The connector as it is now, secrets as fingerprints. `ignore` is what its spec ignores."""
    owned = ledger.connectors.get(name)
    config = None if found is None else without_reserved(found.config)
    if owned is not None and config is not None:
        cover = replace(cover, named=cover.named | _known_secret(owned, config, cover))
    target = None if found is None else found.target
    stopped = target is TargetState.STOPPED and not _went_on(ledger, name)
    if stopped and owned is not None and owned.held_from is not None:
        target = owned.held_from
    return Before(
        config=None if config is None else veil(config, cover),
        target=target,
        owner=None if owned is None else owned.project,
        prevent_delete=owned is not None and owned.prevent_delete,
        pins=pins_of(ledger, name),
        renamed_from=renamed_from,
        ignore=ignore,
    )


def _went_on(ledger: LedgerState, name: str) -> bool:
    """Whether another connector has its offsets by now, so that it is not to run any more."""
    return any(old == name and each.stage == "carried" for (_, old), each in ledger.renames.items())


def _known_secret(owned: Owned, config: Mapping[str, str], cover: Veil) -> frozenset[str]:
    """Keys that a spec of before called sensitive: it may be gone, or say so no more."""
    return frozenset(
        key
        for key, text in config.items()
        if cover.key is not None
        and owned.config.get(key) == fingerprint(cover.key, cover.connector, key, text)
    )
