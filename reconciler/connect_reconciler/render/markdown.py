"""A plan as Markdown for a comment on a pull request: never longer than a comment may be.

The first line is a hidden marker by which a job finds its earlier comment. Then come the summary,
deletes and moved offsets, errors, and the rest, folded. If not all of it fits, deletes and moved
offsets are the last to be left out, and a sentence at the top counts what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from connect_reconciler.actions import Action, FieldChange
from connect_reconciler.actions.plan import Plan
from connect_reconciler.render.blocks import (
    Block,
    WarningGroup,
    blocks,
    hidden_note,
    place_in_file,
    shown_warnings,
    titles,
    warning_groups,
)
from connect_reconciler.render.texts import long_text, sides, sign
from connect_reconciler.render.words import (
    CONSEQUENCES,
    effects,
    harmless,
    step,
    summary_line,
)
from connect_specs.diagnostics import Diagnostic
from connect_specs.printable import one_line

# GitHub counts Unicode characters, as Python does, and refuses more than 65,536
LENGTH_MAX = 65_000
# For the numbers in the sentence on what is missing, which are known only once all is chosen
_SPARE = 200
_FEW = 20
_HINT_LENGTH_MAX = 300
_LINE_LENGTH_MAX = 160


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


def render_markdown(
    plan: Plan, whole: str = "connect plan shows it", *, all_warnings: bool = False
) -> str:
    """The plan as Markdown. `whole` says where all of it is, for a plan that does not fit."""
    head = [marker(plan), f"### {prose(summary_line(plan))}"]
    (first, risky), (second, others) = titles(blocks(plan))
    sections = [
        _section(first, "connectors", map(_block, risky), vital=True),
        _section("Errors", "errors", map(_diagnostic, plan.errors), vital=True),
        _section("Warnings", "warnings", _warnings(plan, all_warnings=all_warnings)),
        _section(second, "connectors", map(_block, others)),
    ]
    sections = [section for section in sections if section.parts]
    room = LENGTH_MAX - sum(len(text) + 2 for text in head)
    chosen = fitted(sections, room)
    if any(form is None or form != part.whole for part, form in _pairs(sections, chosen)):
        note = len(_left_out(sections, _nothing(sections), whole)) + _SPARE
        chosen = fitted(sections, room - note)
        head.append(_left_out(sections, chosen, whole))
    body = [
        text
        for section, forms in zip(sections, chosen, strict=True)
        for text in (section.title, *(form for form in forms if form is not None))
    ]
    return "\n\n".join([*head, *body]) + "\n"


def marker(plan: Plan) -> str:
    """The first line: the same for every plan of the project and the environment."""
    env = "" if plan.env is None else f"/{plan.env}"
    name = f"{plan.project}{env}"
    return hidden(f"connect-plan:{long_text(name) if len(name) > _LINE_LENGTH_MAX else name}")


def _warnings(plan: Plan, *, all_warnings: bool) -> Iterator[Part]:
    for group in warning_groups(shown_warnings(plan, everything=all_warnings)):
        yield _group(group) if len(group.warnings) > 1 else _diagnostic(group.first)
    if rest := hidden_note(plan, everything=all_warnings):
        yield Part((f"- {prose(rest)}",))


def _section(title: str, unit: str, parts: Iterable[Part], *, vital: bool = False) -> Section:
    return Section(f"#### {title}", unit, tuple(parts), vital)


def _block(block: Block) -> Part:
    heading = f"<b>{block.mark}</b> {named(block.connector)}: {prose(block.heading)}"
    opening = "<details open>" if block.unfolded else "<details>"
    start = f"{opening}<summary>{heading}</summary>"
    forms = dict.fromkeys(
        "\n\n".join([start, *_actions(block, most), "</details>"]) for most in (None, _FEW)
    )
    return Part((*forms, f"- {heading}"))


def _actions(block: Block, most: int | None) -> Iterator[str]:
    for action in block.actions:
        if not block.alone:
            yield _step(action)
        if action.shown_fields:
            yield _table(action.shown_fields, most)
        lines = [
            prose(move.effect) if harmless(move) else f"<b>{prose(move.effect)}</b>"
            for move in action.offset_moves[:most]
        ]
        lines += _rest(len(action.offset_moves), most, "partitions")
        lines += [f"→ {prose(line)}" for line in effects(action)[:most]]
        if lines:
            yield "<br>".join(lines)


def _step(action: Action) -> str:
    done, between, why = step(action).partition(":")
    return f"**{prose(done)}**{prose(between + why)}"


def _table(fields: Sequence[FieldChange], most: int | None) -> str:
    created = all(sign(each) == "+" and not _means(each) for each in fields)
    explained = any(map(_means, fields))
    head = ["", "key", "value"] if created else ["", "key", "old", "new"]
    head += ["what it does"] if explained else []
    rows = [head, ["---"] * len(head)]
    for each in fields[:most]:
        old, new = ("" if side is None else code(side) for side in sides(each))
        row = [sign(each), named(each.key)]
        row += [new] if created else [old, new]
        rows.append([*row, _means(each)] if explained else row)
    rows += [["", rest, *[""] * (len(head) - 2)] for rest in _rest(len(fields), most, "keys")]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _means(change: FieldChange) -> str:
    lines = [
        CONSEQUENCES[change.consequence],
        *(prose(each) for each in change.effects),
    ]
    return "<br>".join(line for line in lines if line)


def _rest(count: int, most: int | None, what: str) -> list[str]:
    return [] if most is None or count <= most else [f"… and {count - most:,} more {what}"]


def _group(group: WarningGroup) -> Part:
    head = f"- **{prose(group.code)}** {prose(group.subject, _LINE_LENGTH_MAX)}".rstrip()
    lines = [head]
    for each in group.warnings:
        lines += [prose(f"{place_in_file(each)}{each.what}"), *_reasons(each)]
    lines += _reasons(group.shared)
    short = f"{head}: {len(group.warnings)} warnings"
    return Part(tuple(dict.fromkeys(("<br>".join(lines), short))))


def _diagnostic(diagnostic: Diagnostic) -> Part:
    where = "" if diagnostic.where is None else f"{prose(str(diagnostic.where))}: "
    lines = [f"- **{prose(diagnostic.code)}** {where}{prose(diagnostic.what)}"]
    lines += _reasons(diagnostic)
    short = prose(f"{diagnostic.where or ''} {diagnostic.what}".strip(), _LINE_LENGTH_MAX)
    line = f"- **{prose(diagnostic.code)}** {short}"
    return Part(tuple(dict.fromkeys(("<br>".join(lines), line))))


def _reasons(diagnostic: Diagnostic) -> list[str]:
    return [
        f"{label}: {prose(text, _HINT_LENGTH_MAX)}"
        for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint))
        if text
    ]


def _left_out(sections: Sequence[Section], chosen: Chosen, whole: str) -> str:
    """What is missing, a number for each section, and where to find it."""
    told = []
    for section, forms in zip(sections, chosen, strict=True):
        gone = sum(form is None for form in forms)
        cut = sum(
            form not in (None, part.whole) for part, form in zip(section.parts, forms, strict=True)
        )
        numbers = [f"{gone:,} left out"] * bool(gone) + [f"{cut:,} shortened"] * bool(cut)
        if numbers:
            title = section.title.removeprefix("#### ").lower()
            of = f"of {len(forms):,} {section.unit}"
            told.append(f"{title}: {of}, {' and '.join(numbers)}")
    return (
        f"> **Not all of the plan is here.** {'; '.join(told).capitalize()}."
        f" The whole plan: {prose(whole, _HINT_LENGTH_MAX)}"
    )


def _nothing(sections: Sequence[Section]) -> Chosen:
    return [[None] * len(section.parts) for section in sections]


def _pairs(sections: Sequence[Section], chosen: Chosen) -> Iterator[tuple[Part, str | None]]:
    for section, forms in zip(sections, chosen, strict=True):
        yield from zip(section.parts, forms, strict=True)


PROSE_LENGTH_MAX = 600
CODE_LENGTH_MAX = 160

_EMPTY = "&#8203;"
_SPECIAL = re.compile(r"[!#$&*<>@\[\\\]_`{|}~]")
_LINKING = re.compile(r"[@#!~%$&](?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_SPACES = re.compile(r"(?<= ) ")


def prose(text: str, length: int = PROSE_LENGTH_MAX) -> str:
    """A text of ours that may quote what others wrote, on one line."""
    line = one_line(" ".join(text.splitlines()))
    rest = "" if len(line) <= length else f"… ({len(line):,} characters)"
    parts, end = [], 0
    for found in _LINKING.finditer(line[:length]):
        parts += [_escaped(line[end : found.end()]), _EMPTY]
        end = found.end()
    return "".join(parts) + _escaped(line[end:length]) + rest


def code(text: str) -> str:
    """A text as it is, every space of it seen."""
    return f"<code>{_SPACES.sub('&#160;', _escaped(one_line(text)))}</code>"


def named(text: str) -> str:
    """A name of a connector, a key or the like, which is no secret; cut where it is long."""
    return code(long_text(text) if len(text) > CODE_LENGTH_MAX else text)


def hidden(text: str) -> str:
    """A comment that is not shown and cannot be ended by what is in it."""
    return f"<!-- {quote(one_line(text), safe=':/ ')} -->"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found.group())};", text)


# --- fitting: the least important parts are left out first ---

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
