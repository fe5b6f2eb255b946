"""Reads `to` of a pin: one position in every partition of a sink's topics."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from connect_specs.desired import Position
from connect_specs.diagnostics import Diagnostic
from connect_specs.nodes import Node, Scalar

_HINT = "write earliest, latest or a time such as 2026-11-20T10:00:00Z"
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_position(node: Node, problems: list[Diagnostic]) -> Position | None:
    """Returns the position; None if `problems` says what is wrong with it."""
    text = node.text if isinstance(node, Scalar) else ""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    found = _milliseconds(text)
    if isinstance(found, int):
        return found
    what, hint = found
    problems.append(Diagnostic("offsets.bad-position", what, node.where, hint=hint))
    return None


def _milliseconds(text: str) -> int | tuple[str, str]:
    """Returns milliseconds since 1970, as Kafka counts; or what is wrong, and a hint."""
    match = _TIME.fullmatch(text)
    if not match:
        return "'to' is not a position in a topic", _HINT
    day, minute, second, fraction, zone = match.groups()
    if minute is None:
        return "'to' is a day without a time", f"write its start: {day}T00:00:00Z"
    if zone is None:
        hint = f"append Z for UTC, or an offset: {day}T{minute}{second or ':00'}+02:00"
        return "'to' is a time without a time zone", hint
    try:
        time = datetime.fromisoformat(f"{day}T{minute}{second or ':00'}{zone}")
    except ValueError:
        return "'to' is a time that does not exist", _HINT
    # Kafka stores milliseconds; negative ones have special meanings
    number = (time - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
    return number if number >= 0 else ("'to' is a time before 1970", _HINT)
