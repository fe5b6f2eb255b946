"""What an apply records of connectors besides its actions: their snapshots from before it, and
corrections of what earlier applies recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.backend.port import Found, LedgerWriter
from connect_reconciler.ledger.records import owned_record, pin_record, rename_record
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import ConnectorSnapshot, LedgerState, Owned
from connect_reconciler.model.live import Live
from connect_reconciler.model.plan import Plan
from connect_reconciler.model.secrets import ConfigRedactor, fingerprint, redacted
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import Desired
from connect_specs.states import TargetState


def redactor_of(desired: Desired, live: Live, name: str, key: bytes | None) -> ConfigRedactor:
    """Redacts the connector's secrets in the ledger and in every text. Keys that the spec which
    renames it calls sensitive are redacted under its old name, too."""
    named = live.password_keys.get(name, frozenset())
    texts: tuple[str, ...] = ()
    for spec in desired.connectors.values():
        if name in (spec.name, spec.renamed_from):
            named |= frozenset(spec.sensitive) | live.password_keys.get(spec.name, frozenset())
            texts += spec.secrets
    return ConfigRedactor(name, key, named, texts)


def snapshot_of(
    name: str,
    found: Found | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
    *,
    renamed_from: str | None,
    ignore: tuple[str, ...] = (),
) -> ConnectorSnapshot:
    """The connector as it is before the apply's first action on it, secrets as fingerprints.

    A rollback returns to it. `ignore` holds the globs that its spec ignores.
    """
    owned = ledger.connectors.get(name)
    config = None if found is None else without_reserved(found.config)
    if owned is not None and config is not None:
        secret = _recorded_as_secret(owned, config, redactor)
        redactor = replace(redactor, named=redactor.named | secret)
    target = None if found is None else found.target
    if target is TargetState.STOPPED and not _was_carried(ledger, name):
        target = ledger.restore_to(name) or target
    return ConnectorSnapshot(
        config=None if config is None else redacted(config, redactor),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        pins=ledger.pins_of(name),
        renamed_from=renamed_from,
        ignore=ignore,
    )


def overtaken_stops(ledger: LedgerWriter, plan: Plan, live: Live) -> list[NewRecord]:
    """Clears `restore_to` where the connector is not stopped: the stop that it was recorded for
    never came, or somebody resumed the connector. A later manual stop would be undone else."""
    return [
        owned_record(ledger.topic, name, replace(owned, restore_to=None))
        for name, owned in ledger.state.connectors.items()
        if owned.restore_to is not None
        and owned.project == plan.project
        and name in live.connectors
        and live.connectors[name].target is not TargetState.STOPPED
    ]


def owned_by_configs(ledger: LedgerWriter, plan: Plan, live: Live) -> list[NewRecord]:
    """Copies the entries that only the configs of connectors hold, because those were applied over
    REST alone: from now on this ledger holds them."""
    found = {
        name: owned
        for name, owned in live.ledger.connectors.items()
        if owned.project == plan.project and name not in ledger.state.connectors
    }
    pins, renames = live.ledger.pins.items(), live.ledger.renames.items()
    return [
        *(owned_record(ledger.topic, name, owned) for name, owned in found.items()),
        *(pin_record(ledger.topic, of, pin, each) for (of, pin), each in pins if of in found),
        *(rename_record(ledger.topic, of, old, each) for (of, old), each in renames if of in found),
    ]


def _was_carried(ledger: LedgerState, name: str) -> bool:
    """Whether another connector has its offsets by now, so that it must not run again."""
    return any(old == name and each.stage == "carried" for (_, old), each in ledger.renames.items())


def _recorded_as_secret(
    owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> frozenset[str]:
    """Keys that an earlier spec called sensitive, although the spec may be gone or changed."""
    return frozenset(
        key
        for key, text in config.items()
        if redactor.key is not None
        and owned.config.get(key) == fingerprint(redactor.key, redactor.connector, key, text)
    )
