"""How the ledger writes values: JSON with a format version, and keys of several parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from connect_reconciler.plan.live import AppliedPin, Renaming
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

FORMAT = 1


def key_of(*parts: str) -> bytes:
    """In a part, `%` and `/` are written %25 and %2F, so that no name can be taken for two."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts).encode()


def parts_of(key: bytes | None) -> list[str]:
    """The parts of a key. Raises ValueError."""
    if key is None:
        raise ValueError("it has no key")
    return [part.replace("%2F", "/").replace("%25", "%") for part in key.decode().split("/")]


def encode(value: dict[str, Any]) -> bytes:
    """A record's value."""
    return orjson.dumps({"v": FORMAT, **value})


def decode(value: bytes) -> dict[str, Any]:
    """What `encode` was given. Raises ValueError."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("its value is not JSON") from None
    version = found.get("v") if isinstance(found, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, this version of connect reads {FORMAT}")
    assert isinstance(found, dict)
    return found


def text(value: object) -> str:
    """The text that a field must be."""
    if not isinstance(value, str):
        raise TypeError
    return value


def flag(value: object) -> bool:
    """The truth that a field must be: a guard that is misread would be none."""
    if not isinstance(value, bool):
        raise TypeError
    return value


def target(value: object) -> TargetState | None:
    """A target state, or none."""
    return None if value is None else TargetState(text(value))


def entries_to_json(entries: Sequence[OffsetEntry] | None) -> list[dict[str, Any]] | None:
    """Offsets as KIP-875 writes them."""
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
    """The reverse."""
    if value is None:
        return None
    return tuple(OffsetEntry(_map(entry["partition"]), _offset(entry["offset"])) for entry in value)


def _map(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _offset(value: object) -> dict[str, Any] | None:
    return None if value is None else _map(value)


def pin_to_json(applied: AppliedPin) -> dict[str, Any]:
    """A pin that was applied."""
    return {
        "content_hash": applied.content_hash,
        "resolved": entries_to_json(applied.resolved),
        "applied_ms": applied.applied_ms,
        "held": applied.held,
    }


def pin_from_json(value: dict[str, Any]) -> AppliedPin:
    """The reverse."""
    return AppliedPin(
        content_hash=text(value["content_hash"]),
        resolved=entries_from_json(value["resolved"]),
        applied_ms=int(value["applied_ms"]),
        held=flag(value["held"]),
    )


def rename_to_json(renaming: Renaming) -> dict[str, Any]:
    """A rename that is not finished."""
    return {
        "stage": renaming.stage,
        "applied_ms": renaming.applied_ms,
        "held": renaming.held,
    }


def rename_from_json(value: dict[str, Any]) -> Renaming:
    """The reverse. Raises ValueError."""
    stage = value["stage"]
    if stage not in ("begun", "carried"):
        raise ValueError(f"its stage is {stage!r}, this version of connect knows begun and carried")
    return Renaming(stage, int(value["applied_ms"]), flag(value["held"]))
