"""Fits sections of text into a maximum length: the least important parts are left out first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of text in several forms: the longest first, one line last."""

    forms: tuple[str, ...]

    @property
    def whole(self) -> str:
        """All of it."""
        return self.forms[0]

    @property
    def line(self) -> str:
        """The shortest form."""
        return self.forms[-1]


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under one title, and what they are called. `vital` ones are left out last."""

    title: str
    unit: str
    parts: tuple[Part, ...]
    vital: bool = False


Chosen: TypeAlias = list[list[str | None]]

# What stands between two parts
_GAP = 2


def fitted(sections: Sequence[Section], room: int) -> Chosen:
    """For each part of each section the form to show, or None where there is no room for any.

    First a line for what is vital, then more of it; then the rest as long as it fits, and a line
    for as many others as possible. Each section may take half of the room before the next one is
    asked, so that none drives out another.
    """
    room -= sum(len(section.title) + _GAP for section in sections)
    if sum(len(part.whole) + _GAP for section in sections for part in section.parts) <= room:
        return [[part.whole for part in section.parts] for section in sections]
    filling = _Filling(sections, room)
    vital = [number for number, section in enumerate(sections) if section.vital]
    others = [number for number, section in enumerate(sections) if not section.vital]
    for numbers, forms, whole_room in (
        (vital, _a_line, False),
        (vital, _a_line, True),
        (vital, _more, False),
        (vital, _more, True),
        (others, _details, False),
        (others, _a_line, False),
        (others, _a_line, True),
        (others, _more, True),
    ):
        filling.fill(numbers, forms, whole_room=whole_room)
    return filling.chosen


# Which forms a part may get that has the given one, the best first
_Forms: TypeAlias = Callable[[Part, str | None], Sequence[str]]


def _a_line(part: Part, old: str | None) -> Sequence[str]:
    return (part.line,) if old is None else ()


def _details(part: Part, old: str | None) -> Sequence[str]:
    return part.forms[:-1] if old is None else ()


def _more(part: Part, old: str | None) -> Sequence[str]:
    return () if old is None else part.forms[: part.forms.index(old)]


class _Filling:
    """The forms chosen so far, and the room that they leave."""

    def __init__(self, sections: Sequence[Section], room: int) -> None:
        self._sections = sections
        self._room = room
        self.chosen: Chosen = [[None] * len(section.parts) for section in sections]

    def fill(self, numbers: Iterable[int], forms: _Forms, *, whole_room: bool) -> None:
        """Gives each part the best of its forms that still fits, section by section."""
        for number in numbers:
            room = self._room if whole_room else self._room // 2
            self._room -= room - self._fill(number, forms, room)

    def _fill(self, number: int, forms: _Forms, room: int) -> int:
        chosen = self.chosen[number]
        for index, part in enumerate(self._sections[number].parts):
            old = chosen[index]
            taken = 0 if old is None else len(old) + _GAP
            for form in forms(part, old):
                cost = len(form) + _GAP - taken
                if cost <= room:
                    chosen[index] = form
                    room -= cost
                    break
        return room
