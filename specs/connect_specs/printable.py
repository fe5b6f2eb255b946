"""Texts that others wrote, so that they cannot steer the terminal that shows them. Pure."""

from __future__ import annotations

import json


def one_line(text: str) -> str:
    """The text with control characters, line breaks too, escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def lines_of(text: str) -> str:
    """The same, but lines stay lines."""
    return "\n".join(map(one_line, text.split("\n")))
