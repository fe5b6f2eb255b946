"""A plan as text for a terminal: the summary, deletes and moved offsets, then other changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.actions import Action, FieldChange
from connect_reconciler.actions.plan import Plan
from connect_reconciler.render.blocks import (
    CONSEQUENCES,
    Block,
    Mark,
    WarningGroup,
    blocks,
    effects,
    harmless,
    hidden_note,
    place_in_file,
    shown_warnings,
    step,
    summary_line,
    warning_groups,
)
from connect_reconciler.render.texts import PLAIN, Role, Style, change_text, sign
from connect_specs.diagnostics import Diagnostic
from connect_specs.plain_text import one_line

_ROLES: Mapping[Mark, Role] = {"-": "remove", "+": "add", "!": "risk", "~": "change"}
_FIELD_ROLES: Mapping[str, Role] = {"+": "add", "-": "remove", "~": "change"}


def render_plan(plan: Plan, style: Style = PLAIN, *, all_warnings: bool = False) -> str:
    """Returns the plan as text that ends with a line break."""
    groups = warning_groups(shown_warnings(plan, everything=all_warnings))
    note = hidden_note(plan, everything=all_warnings)
    paragraphs = [
        [style.paint("strong", one_line(summary_line(plan)))],
        *(list(_block(block, style)) for block in blocks(plan)),
        [line for group in groups for line in _group(group, style)],
        [style.paint("note", note)] if note else [],
        [line for error in plan.errors for line in _diagnostic("error", error, style)],
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


def _block(block: Block, style: Style) -> Iterator[str]:
    name = style.paint(_ROLES[block.mark], f"{block.mark} {one_line(block.connector)}")
    yield f"{name}: {one_line(block.heading)}"
    for action in block.actions:
        indent = "    "
        if not block.alone:
            yield f"    {_step(action, style)}"
            indent = "      "
        yield from (f"{indent}{line}" for line in _details(action, style))
        yield from (f"{indent}{line}" for line in _means(effects(action), style))


def _step(action: Action, style: Style) -> str:
    done, colon, reason = one_line(step(action)).partition(":")
    return f"{style.paint('strong', done)}{colon}{reason}"


def _details(action: Action, style: Style) -> Iterator[str]:
    for change in action.shown_fields:
        yield from _field(change, style)
    for move in action.offset_moves:
        text = one_line(move.effect)
        yield text if harmless(move) else style.paint("risk", text)


def _field(change: FieldChange, style: Style) -> Iterator[str]:
    role = _FIELD_ROLES[sign(change)]
    lines = [style.paint(role, line) for line in change_text(change).splitlines()]
    if label := CONSEQUENCES[change.consequence]:
        lines[-1] += style.paint("note", f"  [{label}]")
    yield from lines
    yield from (f"    {line}" for line in _means(change.effects, style))


def _means(lines: Iterable[str], style: Style) -> Iterator[str]:
    for line in filter(None, lines):
        yield style.paint("note", f"→ {one_line(line)}")


def _group(group: WarningGroup, style: Style) -> Iterator[str]:
    if len(group.warnings) == 1:
        yield from _diagnostic("warning", group.first, style)
        return
    subject = f" {one_line(group.subject)}" if group.subject else ""
    yield style.paint("warning", f"warning[{group.code}]:") + subject
    for warning in group.warnings:
        yield from _lines(f"  {place_in_file(warning)}", warning.what, "    ")
        yield from _reasons(warning, "    ")
    yield from _reasons(group.shared, "  ")


def _diagnostic(role: Role, diagnostic: Diagnostic, style: Style) -> Iterator[str]:
    place = "" if diagnostic.where is None else one_line(f"{diagnostic.where}: ")
    code = style.paint(role, f"{role}[{diagnostic.code}]:")
    yield from _lines(f"{code} {place}", diagnostic.what, "    ")
    yield from _reasons(diagnostic, "  ")


def _lines(label: str, text: str, indent: str) -> Iterator[str]:
    """Yields the lines of a text that may quote foreign ones, the first after its label."""
    first, *more = text.splitlines() or [""]
    yield f"{label}{one_line(first)}"
    yield from (f"{indent}{one_line(line)}" for line in more)


def _reasons(diagnostic: Diagnostic, indent: str) -> Iterator[str]:
    for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint)):
        yield from (f"{indent}{label}: {one_line(line)}" for line in text.splitlines())
