"""Markdown for comments and issues: texts that cannot become markup, and items that fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from connect_reconciler.render.texts import long_text
from connect_specs.plain_text import one_line

PROSE_LENGTH_MAX = 600
CODE_LENGTH_MAX = 160

_EMPTY = "&#8203;"
_SPECIAL = re.compile(r"[!#$&*<>@\[\\\]_`{|}~]")
_LINKING = re.compile(r"[@#!~%$&](?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_SPACES = re.compile(r"(?<= ) ")
_BACKTICKS = re.compile("`+")


def prose(text: str, length: int = PROSE_LENGTH_MAX) -> str:
    """Returns a sentence that may quote foreign texts, on one line."""
    line = one_line(" ".join(text.splitlines()))
    cut = "" if len(line) <= length else f"… ({len(line):,} characters)"
    pieces, end = [], 0
    for link in _LINKING.finditer(line[:length]):
        pieces += [_escaped(line[end : link.end()]), _EMPTY]
        end = link.end()
    return "".join(pieces) + _escaped(line[end:length]) + cut


def code(text: str) -> str:
    """Returns a text as it is, with every space visible."""
    return f"<code>{_SPACES.sub('&#160;', _escaped(one_line(text)))}</code>"


def code_span(text: str) -> str:
    """Returns a line between backticks: nothing in it can become a link, a mention or a tag."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def named(text: str) -> str:
    """Returns a name of a connector, a key or the like, which is no secret, cut if it is long."""
    return code(long_text(text) if len(text) > CODE_LENGTH_MAX else text)


def hidden(text: str) -> str:
    """Returns a comment that is not shown and that its text cannot end."""
    return f"<!-- {quote(one_line(text), safe=':/ ')} -->"


def lines_within(lines: Iterable[str], length: int) -> list[str]:
    """Returns the first lines, as many as fit the length."""
    fitting = []
    for line in lines:
        length -= len(line) + 1
        if length < 0:
            break
        fitting.append(line)
    return fitting


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda special: f"&#{ord(special.group())};", text)


# --- fitting: the least important items are left out first ---


@dataclass(slots=True)
class Item:
    """A text in several forms: the longest first, one line last. `form` is the one to
    show; None leaves it out."""

    forms: tuple[str, ...]
    form: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Items under a title, counted in `unit`s. `vital` ones are left out last."""

    title: str
    unit: str
    items: tuple[Item, ...]
    vital: bool = False


# The characters between two items
_GAP = 2


def fit(sections: Sequence[Section], room: int) -> bool:
    """Chooses the form of each item so that all fit into the room; returns whether the longest do.

    First a line for each vital item, then more of them; then the other items as long as they fit,
    and a line for as many as possible. Each section may take half of the room before the next one,
    so that none drives out another.
    """
    room -= sum(len(section.title) + _GAP for section in sections)
    items = [item for section in sections for item in section.items]
    longest = sum(len(item.forms[0]) + _GAP for item in items) <= room
    for item in items:
        item.form = item.forms[0] if longest else None
    if longest:
        return True
    vital = [section for section in sections if section.vital]
    minor = [section for section in sections if not section.vital]
    for group, choices, share in (
        (vital, _a_line, 2),
        (vital, _a_line, 1),
        (vital, _more, 2),
        (vital, _more, 1),
        (minor, _details, 2),
        (minor, _a_line, 2),
        (minor, _a_line, 1),
        (minor, _more, 1),
    ):
        for section in group:
            room -= _fill(section.items, choices, room // share)
    return False


# The forms that a item may get instead of its present one, the best first
_Choices: TypeAlias = Callable[[Item], Sequence[str]]


def _a_line(item: Item) -> Sequence[str]:
    return item.forms[-1:] if item.form is None else ()


def _details(item: Item) -> Sequence[str]:
    return item.forms[:-1] if item.form is None else ()


def _more(item: Item) -> Sequence[str]:
    return () if item.form is None else item.forms[: item.forms.index(item.form)]


def _fill(items: Iterable[Item], choices: _Choices, room: int) -> int:
    """Gives each item its best choice that fits, and returns the characters that they take."""
    taken = 0
    for item in items:
        present = 0 if item.form is None else len(item.form) + _GAP
        for form in choices(item):
            cost = len(form) + _GAP - present
            if cost <= room - taken:
                item.form = form
                taken += cost
                break
    return taken
