"""Colour or none, decided at the edge: renderers name roles, and a Style paints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
