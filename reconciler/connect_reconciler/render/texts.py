"""Config values and texts of others for a terminal: on one line, disturbing nothing, in colour.

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
from connect_reconciler.model.secrets import SENSITIVE
from connect_specs.printable import one_line

VALUE_LENGTH_MAX = 80
_SHOWN = 48
_LINE_LENGTH_MAX = 100


def value_text(value: Value) -> str:
    """The value, cut where it is long; what is secret says only that it is.

    A cut value tells its length and a hash of all of it, so that two that differ look different.
    """
    if isinstance(value, Secret):
        return SENSITIVE
    return long_text(value.text) if len(value.text) > VALUE_LENGTH_MAX else _quoted(value.text)


def long_text(text: str) -> str:
    """The beginning of a text that is no secret, and what tells it from others."""
    mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_quoted(text[:_SHOWN])}… ({len(text):,} characters, sha256 {mark})"


def sides(change: FieldChange) -> tuple[str | None, str | None]:
    """The values before and after as texts; None where the key is not set."""
    old, new = change.old, change.new
    if isinstance(old, Secret) and isinstance(new, Secret):
        return SENSITIVE, "(sensitive, changed)"
    return None if old is None else value_text(old), None if new is None else value_text(new)


def sign(change: FieldChange) -> str:
    """`+` for a key that is added, `-` for one that is removed, else `~`."""
    if change.old is None and change.new is not None:
        return "+"
    return "-" if change.new is None and change.old is not None else "~"


def change_text(change: FieldChange) -> str:
    """`~ key: old → new`, or `+` and `-` where there is only one of them.

    The new value gets a line of its own where both are long.
    """
    old, new = sides(change)
    start = f"{sign(change)} {one_line(change.key)}"
    if isinstance(change.old, Secret) and isinstance(change.new, Secret):
        return f"{start}: {new}"
    if old is None or new is None:
        alone = new if old is None else old
        return start if alone is None else f"{start}: {alone}"
    between = "\n    → " if len(start) + len(old) + len(new) > _LINE_LENGTH_MAX else " → "
    return f"{start}: {old}{between}{new}"


def _quoted(text: str) -> str:
    """As it is, or in quotes where its ends or its characters could not be seen."""
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
        """The text in its role's colour."""
        code = self.codes.get(role)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


PLAIN = Style()
COLOUR = Style(_ANSI)


def style(*, colour: bool) -> Style:
    """The style for a terminal that shows colour, or for one that does not."""
    return COLOUR if colour else PLAIN
