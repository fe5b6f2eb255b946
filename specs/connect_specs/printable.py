"""Text for a terminal: escaped, so that it cannot control it, and measured in columns. Pure."""

from __future__ import annotations

import json
import unicodedata

# Drawn on the character before
_ON_TOP = ("Mn", "Me")


def one_line(text: str) -> str:
    """Returns the text with control characters escaped, line breaks included."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def lines_of(text: str) -> str:
    """Returns the text with control characters escaped, except line breaks."""
    return "\n".join(map(one_line, text.split("\n")))


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes: two for each wide character of East Asia and
    each emoji (Unicode Standard Annex 11), none for what is drawn on the character before."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def padded(text: str, width: int) -> str:
    """The text with spaces after it, to fill `width` columns."""
    return text + " " * (width - width_of(text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in _ON_TOP:
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
