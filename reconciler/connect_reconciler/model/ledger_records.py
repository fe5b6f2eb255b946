"""The ledger's records: keys of several parts, and JSON values with a format version.

Keys are `connector/<name>`, `pin/<name>/<id>`, `rename/<name>/<old>`, `meta/fingerprint-key` and
those of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

import orjson
from pydantic import TypeAdapter

from connect_reconciler.model.ledger import AppliedPin, Owned, Renaming
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry

FORMAT = 1

T = TypeVar("T")

_OWNED: Final = TypeAdapter(Owned)
_PIN: Final = TypeAdapter(AppliedPin)
_RENAME: Final = TypeAdapter(Renaming)

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


def read(adapter: TypeAdapter[T], value: Mapping[str, Any], required: str) -> T:
    """Reads a record's fields. Raises ValueError, and KeyError where one of `required` is missing,
    whose default would mean something else."""
    for name in required.split():
        _ = value[name]
    return adapter.validate_python(value)


def entries_to_json(entries: Iterable[OffsetEntry]) -> list[dict[str, Any]]:
    """Returns offsets in the form of KIP-875."""
    return [asdict(entry) for entry in entries]


def entries_from_json(value: Iterable[Mapping[str, Any]]) -> tuple[OffsetEntry, ...]:
    """Reads what `entries_to_json` wrote, also values that Connect allows in no offset. Raises
    KeyError, TypeError."""
    entries = tuple(OffsetEntry(entry["partition"], entry["offset"]) for entry in value)
    for entry in entries:
        if not (isinstance(entry.partition, dict) and isinstance(entry.offset, dict | None)):
            raise TypeError
    return entries


def owned_to_json(owned: Owned) -> dict[str, Any]:
    """Returns the owner of a connector, and what was applied."""
    left_out = {"resuming", "env_known"} if owned.env_known else {"resuming", "env_known", "env"}
    document: dict[str, Any] = _OWNED.dump_python(
        owned, mode="json", by_alias=True, exclude=left_out
    )
    return document


def owned_from_json(value: Mapping[str, Any]) -> Owned:
    """Reads what `owned_to_json` wrote. Raises ValueError, KeyError."""
    # A misread `prevent_delete` would protect nothing
    owned = read(_OWNED, value, "prevent_delete held_from applied_ms")
    return replace(owned, env_known="env" in value)


def pin_to_json(applied: AppliedPin) -> dict[str, Any]:
    """Returns an applied pin."""
    return asdict(applied)


def pin_from_json(value: Mapping[str, Any]) -> AppliedPin:
    """Reads what `pin_to_json` wrote. Raises ValueError, KeyError, TypeError."""
    entries = value["resolved"]
    applied = read(_PIN, {**value, "resolved": None}, "applied_ms held")
    return replace(applied, resolved=None if entries is None else entries_from_json(entries))


def rename_to_json(renaming: Renaming) -> dict[str, Any]:
    """Returns an unfinished rename."""
    return asdict(renaming)


def rename_from_json(value: Mapping[str, Any]) -> Renaming:
    """Reads what `rename_to_json` wrote. Raises ValueError, KeyError."""
    return read(_RENAME, value, "applied_ms held")


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
