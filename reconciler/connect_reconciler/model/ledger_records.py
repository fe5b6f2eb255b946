"""The ledger's records: keys of several parts, and JSON values with a format version.

Keys are `connector/<name>`, `pin/<name>/<id>`, `rename/<name>/<old>`, `meta/fingerprint-key` and
those of the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from connect_reconciler.model.ledger import AppliedPin, Owned, Renaming
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry, TargetState

FORMAT = 1

_YEAR_10000_MS = 253_402_300_800_000

CONNECTOR = "connector"
PIN = "pin"
RENAME = "rename"
META = "meta"
FINGERPRINT_KEY = "fingerprint-key"


def key_of(*parts: str) -> bytes:
    """Returns the key of these names. In a name, `%` and `/` are written %25 and %2F, so that it
    cannot be taken for two."""
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in parts).encode()


def parts_of(key: bytes | None) -> list[str]:
    """Returns the names in a key. Raises ValueError."""
    if key is None:
        raise ValueError("it has no key")
    return [name.replace("%2F", "/").replace("%25", "%") for name in key.decode().split("/")]


def encode(value: dict[str, Any]) -> bytes:
    """Returns a record's value as JSON, with the format version."""
    return orjson.dumps({"v": FORMAT, **value})


def decode(value: bytes) -> dict[str, Any]:
    """Reads what `encode` wrote. Raises ValueError."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("its value is not JSON") from None
    version = document.get("v") if isinstance(document, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, this version of connect reads {FORMAT}")
    assert isinstance(document, dict)
    return document


def text(value: object) -> str:
    """Returns a field that must be text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError
    return value


def optional_text(value: object) -> str | None:
    """Returns a field that is text or null. Raises TypeError."""
    return None if value is None else text(value)


def time_ms(value: Any) -> int:
    """Returns a time in milliseconds since 1970, before the year 10000. Raises ValueError."""
    time = int(value)
    if not 0 <= time < _YEAR_10000_MS:
        raise ValueError("its time is none")
    return time


def flag(value: object) -> bool:
    """Returns a field that must be true or false: a misread `prevent_delete` would protect nothing.
    Raises TypeError."""
    if not isinstance(value, bool):
        raise TypeError
    return value


def target(value: object) -> TargetState | None:
    """Returns a target state, or None."""
    return None if value is None else TargetState(text(value))


def entries_to_json(entries: Sequence[OffsetEntry] | None) -> list[dict[str, Any]] | None:
    """Returns offsets in the form of KIP-875."""
    if entries is None:
        return None
    return [
        {
            "partition": dict(entry.partition),
            "offset": None if entry.offset is None else dict(entry.offset),
        }
        for entry in entries
    ]


def entries_from_json(value: list[dict[str, Any]] | None) -> tuple[OffsetEntry, ...] | None:
    """Reads what `entries_to_json` wrote."""
    if value is None:
        return None
    return tuple(OffsetEntry(_map(entry["partition"]), _offset(entry["offset"])) for entry in value)


def _map(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _offset(value: object) -> dict[str, Any] | None:
    return None if value is None else _map(value)


def owned_to_json(owned: Owned) -> dict[str, Any]:
    """Returns the owner of a connector, and what was applied."""
    return {
        "project": owned.project,
        "config": dict(owned.config),
        "state": owned.state,
        "prevent_delete": owned.prevent_delete,
        "held_from": owned.restore_to,
        "applied_ms": owned.applied_ms,
        **({"env": owned.env} if owned.env_known else {}),
        **({"untyped": sorted(owned.untyped)} if owned.untyped else {}),
        **({"added": sorted(owned.added)} if owned.added else {}),
    }


def owned_from_json(value: dict[str, Any], state: TargetState | None) -> Owned:
    """Reads what `owned_to_json` wrote, but for the state."""
    return Owned(
        project=text(value["project"]),
        config={text(key): text(item) for key, item in value["config"].items()},
        state=state,
        prevent_delete=flag(value["prevent_delete"]),
        restore_to=target(value["held_from"]),
        applied_ms=time_ms(value["applied_ms"]),
        env=optional_text(value.get("env")),
        env_known="env" in value,
        untyped=frozenset(text(key) for key in value.get("untyped", ())),
        added=frozenset(text(key) for key in value.get("added", ())),
    )


def pin_to_json(applied: AppliedPin) -> dict[str, Any]:
    """Returns an applied pin."""
    return {
        "content_hash": applied.content_hash,
        "resolved": entries_to_json(applied.resolved),
        "applied_ms": applied.applied_ms,
        "held": applied.held,
    }


def pin_from_json(value: dict[str, Any]) -> AppliedPin:
    """Reads what `pin_to_json` wrote."""
    return AppliedPin(
        content_hash=text(value["content_hash"]),
        resolved=entries_from_json(value["resolved"]),
        applied_ms=time_ms(value["applied_ms"]),
        held=flag(value["held"]),
    )


def rename_to_json(renaming: Renaming) -> dict[str, Any]:
    """Returns an unfinished rename."""
    return {
        "stage": renaming.stage,
        "applied_ms": renaming.applied_ms,
        "held": renaming.held,
    }


def rename_from_json(value: dict[str, Any]) -> Renaming:
    """Reads what `rename_to_json` wrote. Raises ValueError."""
    stage = value["stage"]
    if stage not in ("begun", "carried"):
        raise ValueError(f"its stage is {stage!r}, this version of connect knows begun and carried")
    return Renaming(stage, time_ms(value["applied_ms"]), flag(value["held"]))


# --- records of connectors, pins and renames ---


def owned_record(topic: str, name: str, owned: Owned | None) -> NewRecord:
    """Records the owner of a connector and what was applied; None: it has no owner."""
    value = None if owned is None else encode(owned_to_json(owned))
    return NewRecord(topic, key_of(CONNECTOR, name), value)


def pin_record(topic: str, name: str, pin: str, applied: AppliedPin | None) -> NewRecord:
    """Records that a pin was applied; None forgets it."""
    value = None if applied is None else encode(pin_to_json(applied))
    return NewRecord(topic, key_of(PIN, name, pin), value)


def rename_record(topic: str, name: str, old_name: str, renaming: Renaming | None) -> NewRecord:
    """Records how far the rename from the old name is; None forgets it."""
    value = None if renaming is None else encode(rename_to_json(renaming))
    return NewRecord(topic, key_of(RENAME, name, old_name), value)


def fingerprint_key_record(topic: str, key: bytes) -> NewRecord:
    """Records the key of the fingerprints."""
    return NewRecord(topic, key_of(META, FINGERPRINT_KEY), encode({"key": key.hex()}))
