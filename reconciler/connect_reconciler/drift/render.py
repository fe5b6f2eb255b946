"""Drift for people: on a terminal, and as Markdown for an issue. Draws and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from connect_reconciler.drift.model import Drift, Finding
from connect_reconciler.drift.words import (
    SECTIONS,
    counted,
    footnotes,
    headline,
    origin,
    sentence,
    shown,
)
from connect_reconciler.render.style import PLAIN, Style
from connect_specs.printable import one_line

# GitHub takes 65,536 characters.
MARKDOWN_MAX = 60_000

_BACKTICKS = re.compile("`+")


def drift_text(drift: Drift, style: Style = PLAIN, *, whole: bool = False) -> str:
    """The report as text that ends with a line break; `whole` lists all left offsets."""
    blocks = [[style.paint("strong", headline(drift)), *counted(drift)]]
    for section in SECTIONS:
        found = [each for each in shown(drift, whole=whole) if section.holds(each)]
        if found:
            lines = [line for each in found for line in finding_lines(each, style)]
            blocks.append([style.paint(section.role, section.title), *lines])
    notes = [style.paint("note", note) for note in footnotes(drift, whole=whole)]
    blocks += [notes] if notes else []
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def finding_lines(finding: Finding, style: Style = PLAIN) -> Iterator[str]:
    """One finding as text, its origin below it."""
    yield f"  {one_line(finding.connector)}: {sentence(finding)}"
    since = origin(finding)
    if since:
        yield style.paint("note", f"      {since}")


def drift_markdown(drift: Drift, *, whole: bool = False) -> str:
    """The report for an issue, never longer than one may be."""
    lines = [f"**{headline(drift)}**"]
    if rest := counted(drift):
        lines += ["", "<br>".join(map(_code, rest))]
    for section in SECTIONS:
        found = [each for each in shown(drift, whole=whole) if section.holds(each)]
        if found:
            lines += ["", f"### {section.title}", "", *map(_bullet, found)]
    notes = footnotes(drift, whole=whole)
    if notes:
        lines += ["", *(f"- {_code(note)}" for note in notes)]
    return _cut(lines)


def _bullet(finding: Finding) -> str:
    text = f"- {_code(one_line(finding.connector))} {_code(sentence(finding))}"
    since = origin(finding)
    return f"{text}<br>{_code(since)}" if since else text


def _code(text: str) -> str:
    """A code span: nothing inside can become a link, a mention or a tag."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cut(lines: list[str]) -> str:
    kept, size = [], 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MARKDOWN_MAX:
            kept += ["", f"… and {len(lines) - number} lines more: `connect drift` shows them all."]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
