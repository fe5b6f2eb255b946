"""Reads and writes durations, as options and connect.yaml take them: `90`, `2.5s`, `5m`, `1h`."""

from __future__ import annotations

import re
from typing import Final

# What to write, in errors
EXAMPLES: Final = "90, 30s, 5m or 1h"

_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ms|s|min|m|h|)", re.ASCII)
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float | None:
    """Returns a number with a unit, or without one in seconds, as seconds; None for anything
    else."""
    match = _DURATION.fullmatch(text)
    return None if match is None else float(match[1]) * _UNITS_S[match[2]]


def duration_text(seconds: float) -> str:
    """Returns a duration as short as possible: `5m`."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
