"""Durations as options take them: `90`, `30s`, `5m`, `1h`."""

from __future__ import annotations

import re

import typer

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")


def duration(text: str | float) -> float:
    """In seconds. Raises BadParameter."""
    found = _DURATION.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration; write 90, 30s, 5m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def duration_text(seconds: float) -> str:
    """As short as it can be written."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
