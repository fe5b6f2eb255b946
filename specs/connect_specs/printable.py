"""Escapes text from elsewhere, so that it cannot control the terminal that shows it. Pure."""

from __future__ import annotations

import json


def one_line(text: str) -> str:
    """Returns the text with control characters escaped, line breaks included."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def lines_of(text: str) -> str:
    """Returns the text with control characters escaped, except line breaks."""
    return "\n".join(map(one_line, text.split("\n")))
