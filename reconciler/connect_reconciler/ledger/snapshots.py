"""Records of connectors beside those of actions: the snapshot from before an apply, and corrections
of what earlier applies recorded. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.model.ledger import ConnectorSnapshot, LedgerState, Owned
from connect_reconciler.model.ledger_records import owned_record, pin_record, rename_record
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import ConfigRedactor, fingerprint
from connect_runtime.storage.log import NewRecord
from connect_specs.states import TargetState


def snapshot_of(
    name: str,
    config: Mapping[str, str] | None,
    target: TargetState | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
    *,
    renamed_from: str | None,
    ignore: tuple[str, ...],
) -> ConnectorSnapshot:
    """Returns the connector before the apply's first action on it, secrets as fingerprints.

    A rollback returns to it. `config` None: it is not there. `ignore` holds the globs that its spec
    ignores.
    """
    owned = ledger.connectors.get(name)
    if owned is not None and config is not None:
        secret = _recorded_as_secret(owned, config, redactor)
        redactor = replace(redactor, named=redactor.named | secret)
    if target is TargetState.STOPPED and not _was_carried(ledger, name):
        target = ledger.restore_to(name) or target
    return ConnectorSnapshot(
        config=None if config is None else redactor.values(config),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        pins=ledger.pins_of(name),
        renamed_from=renamed_from,
        ignore=ignore,
    )


def _was_carried(ledger: LedgerState, name: str) -> bool:
    """Returns True if another connector has its offsets by now: it must not run again."""
    return bool(ledger.carried_to(name))


def _recorded_as_secret(
    owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> frozenset[str]:
    """Returns keys that an earlier spec called sensitive; the spec may be gone or changed."""
    return frozenset(
        key
        for key, text in config.items()
        if redactor.key is not None
        and owned.config.get(key) == fingerprint(redactor.key, redactor.connector, key, text)
    )


# --- corrections ---


def overtaken_stops(topic: str, ledger: LedgerState, project: str, live: Live) -> list[NewRecord]:
    """Clears `restore_to` where the connector is not stopped: the stop that it was recorded for
    never came, or the connector was resumed manually. A later manual stop would be undone else."""
    return [
        owned_record(topic, name, replace(owned, restore_to=None))
        for name, owned in ledger.connectors.items()
        if owned.restore_to is not None
        and owned.project == project
        and name in live.connectors
        and live.connectors[name].target is not TargetState.STOPPED
    ]


def owned_by_configs(topic: str, ledger: LedgerState, project: str, live: Live) -> list[NewRecord]:
    """Copies the entries that only the configs of connectors hold, because those were applied over
    REST alone: from now on this ledger holds them."""
    missing = {
        name: owned
        for name, owned in live.ledger.connectors.items()
        if owned.project == project and name not in ledger.connectors
    }
    pins, renames = live.ledger.pins.items(), live.ledger.renames.items()
    return [
        *(owned_record(topic, name, owned) for name, owned in missing.items()),
        *(pin_record(topic, of, pin, applied) for (of, pin), applied in pins if of in missing),
        *(rename_record(topic, *key, rename) for key, rename in renames if key[0] in missing),
    ]
