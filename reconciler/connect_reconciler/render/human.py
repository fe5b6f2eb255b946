"""A plan as text for a terminal: the summary, deletes and moved offsets, then other changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.actions import Action, FieldChange
from connect_reconciler.actions.plan import Plan
from connect_reconciler.render.blocks import (
    Block,
    Mark,
    WarningGroup,
    blocks,
    hidden_note,
    place_in_file,
    shown_warnings,
    warning_groups,
)
from connect_reconciler.render.texts import PLAIN, Role, Style, change_text, sign
from connect_reconciler.render.words import (
    CONSEQUENCES,
    effects,
    harmless,
    step,
    summary_line,
)
from connect_specs.diagnostics import Diagnostic
from connect_specs.printable import one_line

_ROLES: Mapping[Mark, Role] = {"-": "remove", "+": "add", "!": "risk", "~": "change"}
_FIELD_ROLES: Mapping[str, Role] = {"+": "add", "-": "remove", "~": "change"}


def render_plan(plan: Plan, style: Style = PLAIN, *, all_warnings: bool = False) -> str:
    """The plan as text that ends with a line break."""
    parts = [[style.paint("strong", one_line(summary_line(plan)))]]
    parts += [list(_block(block, style)) for block in blocks(plan)]
    groups = warning_groups(shown_warnings(plan, everything=all_warnings))
    warnings = [line for group in groups for line in _group(group, style)]
    errors = [line for each in plan.errors for line in _diagnostic("error", each, style)]
    rest = hidden_note(plan, everything=all_warnings)
    parts += [part for part in (warnings, [style.paint("note", rest)] if rest else []) if part]
    parts += [errors] if errors else []
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _block(block: Block, style: Style) -> Iterator[str]:
    name = style.paint(_ROLES[block.mark], f"{block.mark} {one_line(block.connector)}")
    yield f"{name}: {one_line(block.heading)}"
    for action in block.actions:
        deep = "    "
        if not block.alone:
            yield f"    {_step(action, style)}"
            deep = "      "
        yield from (f"{deep}{line}" for line in _details(action, style))
        yield from (f"{deep}{line}" for line in _means(effects(action), style))


def _step(action: Action, style: Style) -> str:
    done, between, why = one_line(step(action)).partition(":")
    return f"{style.paint('strong', done)}{between}{why}"


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
    for each in group.warnings:
        yield from _lines(f"  {place_in_file(each)}", each.what, "    ")
        yield from _reasons(each, "    ")
    yield from _reasons(group.shared, "  ")


def _diagnostic(role: Role, each: Diagnostic, style: Style) -> Iterator[str]:
    where = "" if each.where is None else one_line(f"{each.where}: ")
    yield from _lines(f"{style.paint(role, f'{role}[{each.code}]:')} {where}", each.what, "    ")
    yield from _reasons(each, "  ")


def _lines(label: str, text: str, indent: str) -> Iterator[str]:
    """Yields the lines of a text that may quote others, the first after its label."""
    first, *others = text.splitlines() or [""]
    yield f"{label}{one_line(first)}"
    yield from (f"{indent}{one_line(line)}" for line in others)


def _reasons(each: Diagnostic, deep: str) -> Iterator[str]:
    for label, text in (("why", each.why), ("hint", each.hint)):
        yield from (f"{deep}{label}: {one_line(line)}" for line in text.splitlines())
