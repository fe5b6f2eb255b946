"""A plan as text for people: the summary first, then what can hurt, then the rest.

Draws what the plan says and decides nothing. Blocks are sorted by risk; within a block, actions
stand in the order in which they will happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from connect_reconciler.plan.actions import (
    Action,
    Adopt,
    AlterOffsets,
    Create,
    Delete,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.summary import RISKY, Kind, grouped, kinds, summarize
from connect_reconciler.render.style import PLAIN, Role, Style
from connect_reconciler.render.texts import change_text, one_line, value_text
from connect_specs.diagnostics import Diagnostic

NO_CHANGES = "No changes. Live matches the specs."

_COUNTED: Mapping[Kind, tuple[str, str]] = {
    "rewind": ("rewind", "rewinds"),
    "skip": ("skip", "skips"),
    "reset": ("offset reset", "offset resets"),
}
_IN_HEADING: Mapping[Kind, str] = {
    "change": "change config",
    "set-offsets": "set offsets",
    "reset": "reset offsets",
}


def render_plan(plan: Plan, style: Style = PLAIN) -> str:
    """The plan as text that ends with a line break."""
    blocks = [[style.paint("strong", summary_line(plan))]]
    blocks += [list(_block(actions, style)) for actions in sorted(grouped(plan), key=_risk)]
    warnings = list(_diagnostics("warning", plan.warnings, style))
    errors = list(_diagnostics("error", plan.errors, style))
    blocks += [block for block in (warnings, errors) if block]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def summary_line(plan: Plan) -> str:
    """`Plan: 2 to create, 1 to change, 1 rewind`, or that there is nothing to do."""
    if plan.empty:
        return NO_CHANGES
    counts = ", ".join(_count(kind, count) for kind, count in summarize(plan).items())
    if not plan.errors:
        return f"Plan: {counts}"
    errors = len(plan.errors)
    refused = f"{errors} error{'' if errors == 1 else 's'}, so nothing of it can be applied"
    return f"Plan: {counts}; {refused}" if counts else f"Plan: {refused}"


def _count(kind: Kind, count: int) -> str:
    if kind in _COUNTED:
        return f"{count} {_COUNTED[kind][count != 1]}"
    return f"{count} to {_IN_HEADING.get(kind, kind) if kind == 'set-offsets' else kind}"


def _risk(actions: tuple[Action, ...]) -> int:
    """Deletes, then whatever moves offsets, then the rest as the plan has it."""
    found = kinds(actions)
    if "delete" in found:
        return 0
    return 1 if RISKY.intersection(found) else 2


def _block(actions: tuple[Action, ...], style: Style) -> Iterator[str]:
    found = kinds(actions)
    mark, role = _mark(found)
    words = ", ".join(_IN_HEADING.get(kind, kind) for kind in found)
    yield f"{style.paint(role, f'{mark} {one_line(actions[0].connector)}')}: {words}"
    for action in actions:
        yield f"    {style.paint('strong', _verb(action))}: {one_line(action.reason)}"
        yield from (f"      {line}" for line in _details(action, style))
        for line in action.effect.splitlines():
            yield style.paint("note", f"      → {one_line(line)}")


def _mark(found: tuple[Kind, ...]) -> tuple[str, Role]:
    if "delete" in found:
        return "-", "remove"
    if "create" in found:
        return "+", "add"
    if RISKY.intersection(found):
        return "!", "risk"
    return "~", "change"


def _verb(action: Action) -> str:
    match action:
        case Create():
            return "create"
        case Adopt():
            return "adopt"
        case UpdateConfig():
            return "change config"
        case Stop():
            return "stop"
        case AlterOffsets():
            return "set offsets"
        case ResetOffsets():
            return "reset offsets"
        case Pause():
            return "pause"
        case Resume():
            return "resume"
        case Restart():
            return "restart"
        case Delete():
            return "delete"
        case Protect(prevent_delete=prevent_delete):
            return "protect" if prevent_delete else "unprotect"
        case Forget():
            return "forget"
        case _:
            assert_never(action)


def _details(action: Action, style: Style) -> Iterator[str]:
    match action:
        case Create(config=config):
            for key, value in sorted(config.items()):
                if key != "name":
                    yield style.paint("add", f"+ {one_line(key)}: {value_text(value)}")
        case UpdateConfig(changes=changes):
            roles: Mapping[str, Role] = {"+": "add", "-": "remove", "~": "change"}
            for text in map(change_text, changes):
                yield style.paint(roles[text[0]], text)
        case AlterOffsets(moves=moves) | ResetOffsets(moves=moves):
            yield from (_move(move, style) for move in moves)
        case Adopt() | Stop() | Pause() | Resume() | Restart() | Delete() | Protect() | Forget():
            pass
        case _:
            assert_never(action)


def _move(move: OffsetMove, style: Style) -> str:
    harmless = move.direction in ("same", "start")
    text = one_line(move.effect)
    return text if harmless else style.paint("risk", text)


def _diagnostics(role: Role, diagnostics: Iterable[Diagnostic], style: Style) -> Iterator[str]:
    for each in diagnostics:
        where = "" if each.where is None else f"{each.where}: "
        yield f"{style.paint(role, f'{role}[{each.code}]:')} {one_line(where + each.what)}"
        for label, text in (("why", each.why), ("hint", each.hint)):
            yield from (f"  {label}: {one_line(line)}" for line in text.splitlines())
