"""Numbers and lists in sentences: `2 connectors`, `orders, payments and 3 more`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, what: str) -> str:
    """`1 byte`, `22,430 bytes`; `what` is in the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names, at most `most`, and how many more there are."""
    found = list(names)
    more = len(found) - most
    return ", ".join(found[:most]) + (f" and {more} more" if more > 0 else "")
