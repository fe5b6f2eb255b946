"""Config values and foreign texts for a terminal: on one line, harmless, in colour.

Colour is decided at the edge: renderers name roles, and a `Style` paints them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from connect_reconciler.actions import FieldChange
from connect_reconciler.model.config_values import Secret, Value
from connect_specs.plain_text import one_line
from connect_specs.secrets import SENSITIVE

VALUE_LENGTH_MAX = 80
_SHOWN = 48
_LINE_LENGTH_MAX = 100


def value_text(value: Value) -> str:
    """Returns the value, cut if it is long; of a secret only that it is one.

    A cut value has its length and its hash beside it, so that two that differ look different.
    """
    if isinstance(value, Secret):
        return SENSITIVE
    return long_text(value.text) if len(value.text) > VALUE_LENGTH_MAX else _quoted(value.text)


def long_text(text: str) -> str:
    """Returns the beginning of a text that is no secret, with its length and its hash."""
    mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_quoted(text[:_SHOWN])}… ({len(text):,} characters, sha256 {mark})"


def sides(change: FieldChange) -> tuple[str | None, str | None]:
    """Returns the values before and after as texts; None if the key is not set."""
    if isinstance(change.old, Secret) and isinstance(change.new, Secret):
        return SENSITIVE, "(sensitive, changed)"
    first = None if change.old is None else value_text(change.old)
    return first, None if change.new is None else value_text(change.new)


def sign(change: FieldChange) -> str:
    """Returns `+` for a key that is added, `-` for one that is removed, else `~`."""
    if change.old is None and change.new is not None:
        return "+"
    return "-" if change.new is None and change.old is not None else "~"


def change_text(change: FieldChange) -> str:
    """Returns `~ key: old → new`, or a line with `+` or `-` if there is only one of them.

    The new value gets a line of its own if both are long.
    """
    first, second = sides(change)
    start = f"{sign(change)} {one_line(change.key)}"
    if isinstance(change.old, Secret) and isinstance(change.new, Secret):
        return f"{start}: {second}"
    if first is None or second is None:
        value = second if first is None else first
        return start if value is None else f"{start}: {value}"
    arrow = "\n    → " if len(start) + len(first) + len(second) > _LINE_LENGTH_MAX else " → "
    return f"{start}: {first}{arrow}{second}"


def _quoted(text: str) -> str:
    """Returns the text, in quotes if its ends or its characters could not be seen."""
    if text and text.isprintable() and text.strip() == text and '"' not in (text[0], text[-1]):
        return text
    return one_line(json.dumps(text, ensure_ascii=False))


Role: TypeAlias = Literal["add", "change", "remove", "risk", "note", "strong", "error", "warning"]

_ANSI: Mapping[Role, str] = {
    "add": "32",
    "change": "33",
    "remove": "31",
    "risk": "1;35",
    "note": "2",
    "strong": "1",
    "error": "1;31",
    "warning": "1;33",
}


@dataclass(frozen=True, slots=True)
class Style:
    """ANSI codes by role; a role without a code is plain."""

    codes: Mapping[Role, str] = field(default_factory=dict)

    def paint(self, role: Role, text: str) -> str:
        """Returns the text in its role's colour."""
        code = self.codes.get(role)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


PLAIN = Style()
COLOUR = Style(_ANSI)


def style(*, colour: bool) -> Style:
    """Returns the style for a terminal with or without colour."""
    return COLOUR if colour else PLAIN
