"""A plan as text for people: the summary first, then what can hurt, then the rest.

Draws what the plan says and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.plan.action_words import verb
from connect_reconciler.plan.actions import Action, FieldChange
from connect_reconciler.plan.plan import Plan
from connect_reconciler.render.blocks import Block, Mark, blocks
from connect_reconciler.render.style import PLAIN, Role, Style
from connect_reconciler.render.texts import change_text, one_line, sign
from connect_reconciler.render.words import (
    CONSEQUENCES,
    details,
    effects,
    harmless,
    leads_back,
    summary_line,
)
from connect_specs.diagnostics import Diagnostic

_ROLES: Mapping[Mark, Role] = {"-": "remove", "+": "add", "!": "risk", "~": "change"}
_FIELD_ROLES: Mapping[str, Role] = {"+": "add", "-": "remove", "~": "change"}


def render_plan(plan: Plan, style: Style = PLAIN) -> str:
    """The plan as text that ends with a line break."""
    parts = [[style.paint("strong", summary_line(plan))]]
    if plan.rolls_back is not None:
        parts[0].append(one_line(leads_back(plan)))
    parts += [list(_block(block, style)) for block in blocks(plan)]
    warnings = list(_diagnostics("warning", plan.warnings, style))
    errors = list(_diagnostics("error", plan.errors, style))
    parts += [part for part in (warnings, errors) if part]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _block(block: Block, style: Style) -> Iterator[str]:
    name = style.paint(_ROLES[block.mark], f"{block.mark} {one_line(block.connector)}")
    yield f"{name}: {block.words}"
    for action in block.actions:
        yield f"    {style.paint('strong', verb(action))}: {one_line(action.reason)}"
        yield from (f"      {line}" for line in _details(action, style))
        yield from (f"      {line}" for line in _means(effects(action), style))


def _details(action: Action, style: Style) -> Iterator[str]:
    found = details(action)
    for change in found.fields:
        yield from _field(change, style)
    for move in found.moves:
        text = one_line(move.effect)
        yield text if harmless(move) else style.paint("risk", text)


def _field(change: FieldChange, style: Style) -> Iterator[str]:
    role = _FIELD_ROLES[sign(change)]
    lines = [style.paint(role, line) for line in change_text(change).splitlines()]
    if label := CONSEQUENCES[change.consequence]:
        lines[-1] += style.paint("note", f"  [{label}]")
    yield from lines
    yield from (f"    {line}" for line in _means(change.effect.splitlines(), style))


def _means(lines: Iterable[str], style: Style) -> Iterator[str]:
    for line in lines:
        yield style.paint("note", f"→ {one_line(line)}")


def _diagnostics(role: Role, diagnostics: Iterable[Diagnostic], style: Style) -> Iterator[str]:
    for each in diagnostics:
        where = "" if each.where is None else f"{each.where}: "
        yield f"{style.paint(role, f'{role}[{each.code}]:')} {one_line(where + each.what)}"
        for label, text in (("why", each.why), ("hint", each.hint)):
            yield from (f"  {label}: {one_line(line)}" for line in text.splitlines())
