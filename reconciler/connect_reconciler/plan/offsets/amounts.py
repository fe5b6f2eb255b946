"""Amounts as a reviewer reads them: `22,430 offsets`, `2 h 13 min`."""

from __future__ import annotations

from itertools import pairwise

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def amount(count: int, unit: str) -> str:
    """`1 byte`, `22,430 bytes`."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def offsets(count: int) -> str:
    """`1 offset`, `22,430 offsets`: places in a log, each of which holds one record or none."""
    return amount(count, "offset")


def span(seconds: int) -> str:
    """The two largest units: `2 h 13 min`."""
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"
