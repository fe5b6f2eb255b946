"""A connector's ledger entry in its own config, where there is no ledger topic; and corrections of
what earlier applies recorded. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from connect_reconciler.ledger.topic import LedgerUnreadable
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming, renaming_of
from connect_reconciler.model.ledger_records import (
    FORMAT,
    owned_from_json,
    owned_record,
    owned_to_json,
    pin_from_json,
    pin_record,
    pin_to_json,
    rename_from_json,
    rename_record,
    rename_to_json,
    text,
)
from connect_reconciler.model.live import Live
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry, TargetState, partition_key
from connect_specs.diagnostics import Diagnostic

_MARK_CHARS = 16
_WITH_RENAMES = 2
_SORTED = orjson.OPT_SORT_KEYS


@dataclass(frozen=True, slots=True)
class Entry:
    """A connector's part of the ledger."""

    owned: Owned
    pins: Mapping[str, AppliedPin]
    renames: Mapping[str, Renaming] = field(default_factory=dict)


def entry_of(name: str, state: LedgerState) -> Entry | None:
    """Returns the connector's part of the ledger; None if it has no owner."""
    owned = state.connectors.get(name)
    if owned is None:
        return None
    return Entry(owned, state.pins_of(name), state.renames_of(name))


def dump_entry(entry: Entry | None) -> str:
    """Returns the entry as text for the connector's config; empty for none.

    The target state is left out: it changes at times when the config cannot be written.
    """
    if entry is None:
        return ""
    owned = entry.owned
    renames = {old_name: rename_to_json(rename) for old_name, rename in entry.renames.items()}
    value = {
        # Versions without renames must refuse an entry with one
        **({"v": _WITH_RENAMES, "renames": renames} if renames else {"v": FORMAT}),
        **owned_to_json(owned),
        "resuming": owned.resuming,
        "pins": {pin: _pin_to_json(applied) for pin, applied in entry.pins.items()},
    }
    del value["state"]
    document = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    # Connect must not replace ${provider:path:key} in here by secrets
    return document.replace("$", "\\u0024")


def offsets_mark(offsets: Iterable[OffsetEntry]) -> str:
    """Returns a short hash of offsets, to see whether they moved."""
    pairs = sorted(
        (partition_key(entry.partition), orjson.dumps(entry.offset, option=_SORTED).decode())
        for entry in offsets
        if entry.offset is not None
    )
    return hashlib.sha256(orjson.dumps(pairs)).hexdigest()[:_MARK_CHARS]


def load_ledger(
    configs: Mapping[str, Mapping[str, str]],
) -> tuple[LedgerState, dict[str, LedgerUnreadable]]:
    """Returns the ledger of all configs, without unreadable entries, and the errors of these."""
    connectors: dict[str, Owned] = {}
    pins: dict[tuple[str, str], AppliedPin] = {}
    renames: dict[tuple[str, str], Renaming] = {}
    unreadable: dict[str, LedgerUnreadable] = {}
    for name, config in configs.items():
        if LEDGER_KEY not in config:
            continue
        try:
            entry = load_entry(name, config[LEDGER_KEY])
        except LedgerUnreadable as error:
            unreadable[name] = error
            continue
        if entry.owned.config.get("name", name) != name:
            continue  # a copy of another connector's config: this one has no owner
        connectors[name] = entry.owned
        pins |= {(name, pin): record for pin, record in entry.pins.items()}
        # A rename is over once the old name is gone: that cannot be written while the new one runs
        renames |= {
            (name, old_name): record
            for old_name, record in entry.renames.items()
            if old_name in configs
        }
    return LedgerState(connectors, pins, renames), unreadable


def with_configs(topic: LedgerState, configs: Mapping[str, Mapping[str, str]]) -> LedgerState:
    """Returns the topic's ledger, and the entries of connectors that it lacks, which were applied
    over REST alone. Unreadable entries are ignored."""
    unknown = {name: config for name, config in configs.items() if name not in topic.connectors}
    entries, _ = load_ledger(unknown)
    return replace(
        topic,
        connectors={**entries.connectors, **topic.connectors},
        pins={**entries.pins, **topic.pins},
        renames={**entries.renames, **topic.renames},
    )


def still_held(ledger: LedgerState, went_on: Callable[[str, str], bool]) -> LedgerState:
    """Returns the ledger without `restore_to` of connectors that were restored, and moved offsets
    since.

    `went_on` returns True if a connector's offsets differ from those of a mark.
    """
    return replace(
        ledger,
        connectors={
            name: replace(owned, restore_to=None, resuming=None)
            if owned.resuming is not None and went_on(name, owned.resuming)
            else owned
            for name, owned in ledger.connectors.items()
        },
    )


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


def load_entry(name: str, document: str) -> Entry:
    """Returns the entry in a connector's config. Raises LedgerUnreadable."""
    try:
        value = orjson.loads(document)
        if not isinstance(value, dict) or value.get("v") not in (FORMAT, _WITH_RENAMES):
            raise ValueError
        owned = owned_from_json({**value, "state": None})
        renames = {
            text(old_name): rename_from_json(record)
            for old_name, record in value.get("renames", {}).items()
        }
        pins: dict[str, AppliedPin] = {}
        for pin, record in value["pins"].items():
            applied = _pin_from_json(record)
            # Earlier versions recorded a rename as a pin
            rename = renaming_of(text(pin), applied)
            if rename is None:
                pins[pin] = applied
            else:
                renames.setdefault(*rename)
        return Entry(owned, pins, renames)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LedgerUnreadable(
            Diagnostic(
                "ledger.unreadable",
                f"what the config of {name} says under {LEDGER_KEY} cannot be read",
                name,
                why="it was changed manually, is masked, or was written by a newer connect",
                hint=f"use a newer connect, or remove {LEDGER_KEY} from the config: pins in the"
                " spec are then applied once more",
            )
        ) from None


def _pin_to_json(applied: AppliedPin) -> dict[str, Any]:
    """Returns the pin with its offsets as Connect's REST API has them."""
    record = pin_to_json(applied)
    if applied.resolved is None:
        return record
    return record | {"resolved": {"offsets": record["resolved"]}}


def _pin_from_json(value: dict[str, Any]) -> AppliedPin:
    resolved = value["resolved"]
    return pin_from_json(value if resolved is None else value | {"resolved": resolved["offsets"]})
