"""Plain text for people: numbers, lists, times, durations and diagnostics. Pure.

Texts quote files and clusters, so control characters are escaped: a terminal would obey them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from connect_specs.diagnostics import Diagnostic

# Ways to write a duration, in errors
EXAMPLES: Final = "90, 30s, 5m or 1h"

_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ms|s|min|m|h|)", re.ASCII)
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_SPANS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
# Drawn on the character that precedes them
_COMBINING: Final = ("Mn", "Me")


def counted(number: int, noun: str) -> str:
    """Returns `1 byte`, `22,430 bytes`; `noun` is in the singular."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Returns the first names, at most `most`, and the number of further ones."""
    items = list(names)
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def seconds_of(text: str) -> float | None:
    """Returns the seconds of a duration such as `90`, `2.5s`, `5m` or `1h`; None for anything
    else."""
    match = _DURATION.fullmatch(text)
    return None if match is None else float(match[1]) * _UNITS_S[match[2]]


def duration_text(seconds: float) -> str:
    """Returns a duration as short as possible: `5m`."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def span(seconds: int) -> str:
    """Returns the two largest units of a duration that was measured: `2 h 13 min`."""
    for (unit, size), (smaller, smaller_size) in pairwise(_SPANS):
        if seconds >= size:
            remainder = seconds % size // smaller_size
            return f"{seconds // size:,} {unit}" + (f" {remainder} {smaller}" if remainder else "")
    return f"{seconds} s"


def time_text(ms: float, *, exact: bool = False) -> str:
    """Returns a time in ms since 1970 as ISO 8601 in UTC: to the second, or `exact`, with its
    milliseconds if it has any. For a time that no calendar has it is the number itself."""
    try:
        time = datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"
    fraction = f".{ms % 1000:03d}" if exact and ms % 1000 else ""
    return f"{time.isoformat()}{fraction}Z"


def one_line(text: str) -> str:
    """Returns the text with control characters escaped, line breaks included."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def lines_of(text: str) -> str:
    """Returns the text with control characters escaped, except line breaks."""
    return "\n".join(map(one_line, text.split("\n")))


def width_of(text: str) -> int:
    """Returns the columns that the text takes in a terminal: two for each wide character of East
    Asia and each emoji (Unicode Standard Annex 11), none for those drawn on another one."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def padded(text: str, width: int) -> str:
    """Returns the text with trailing spaces, to fill `width` columns."""
    return text + " " * (width - width_of(text))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns columns of text, as wide as they need to be; control characters are escaped."""
    cells = [[one_line(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(padded, row, widths)).rstrip() for row in cells)
    return "".join(f"{line}\n" for line in lines)


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in _COMBINING:
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def render_diagnostics(diagnostics: Iterable[Diagnostic], kind: str = "error") -> str:
    """Returns one line for each, its why and its hint indented below; ends with a line break unless
    empty."""
    lines: list[str] = []
    for diagnostic in diagnostics:
        place = "" if diagnostic.where is None else f"{diagnostic.where}: "
        lines += _labelled(f"{kind}[{diagnostic.code}]: {place}", diagnostic.what, "    ")
        for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint)):
            if text:
                lines += _labelled(f"  {label}: ", text, " " * len(f"  {label}: "))
    return "".join(f"{one_line(line)}\n" for line in lines)


def _labelled(label: str, text: str, indent: str) -> Iterator[str]:
    """Yields the lines of a text, the first after its label and the others indented."""
    first, *following = text.splitlines() or [""]
    yield f"{label}{first}"
    yield from (f"{indent}{line}" if line else "" for line in following)
