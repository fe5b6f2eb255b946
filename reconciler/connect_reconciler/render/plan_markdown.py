"""A plan as Markdown for a comment on a pull request: never longer than a comment may be.

The first line is a hidden marker by which a job finds its earlier comment. Then come the summary,
deletes and moved offsets, errors, and other changes, folded. If the plan is too long, deletes and
moved offsets are the last to be left out, and a sentence at the top counts the omissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from connect_reconciler.actions import Action, FieldChange
from connect_reconciler.actions.plan import Plan
from connect_reconciler.render.blocks import (
    CONSEQUENCES,
    Block,
    WarningGroup,
    blocks,
    effects,
    harmless,
    hidden_note,
    place_in_file,
    shown_warnings,
    step,
    summary_line,
    titles,
    warning_groups,
)
from connect_reconciler.render.markdown import Item, Section, code, fit, hidden, named, prose
from connect_reconciler.render.texts import long_text, sides, sign
from connect_specs.diagnostics import Diagnostic

# GitHub counts Unicode characters, as Python does, and refuses more than 65,536
LENGTH_MAX = 65_000
# For the numbers in the sentence on omissions, which are known only once the forms are chosen
_SPARE = 200
_FEW = 20
_HINT_LENGTH_MAX = 300
_LINE_LENGTH_MAX = 160


def render_markdown(
    plan: Plan, full_plan: str = "connect plan shows it", *, all_warnings: bool = False
) -> str:
    """Returns the plan as Markdown. `full_plan` is where to find a plan that does not fit."""
    head = [marker(plan), f"### {prose(summary_line(plan))}"]
    (first, risky), (second, minor) = titles(blocks(plan))
    sections = [
        _section(first, "connectors", map(_block, risky), vital=True),
        _section("Errors", "errors", map(_diagnostic, plan.errors), vital=True),
        _section("Warnings", "warnings", _warnings(plan, all_warnings=all_warnings)),
        _section(second, "connectors", map(_block, minor)),
    ]
    sections = [section for section in sections if section.items]
    room = LENGTH_MAX - sum(len(text) + 2 for text in head)
    # As long as no form is chosen, everything is omitted
    note = len(_omissions(sections, full_plan)) + _SPARE
    if not fit(sections, room):
        fit(sections, room - note)
        head.append(_omissions(sections, full_plan))
    body = [
        text
        for section in sections
        for text in (section.title, *(item.form for item in section.items if item.form is not None))
    ]
    return "\n\n".join([*head, *body]) + "\n"


def marker(plan: Plan) -> str:
    """Returns the first line: the same for every plan of the project and the environment."""
    env = "" if plan.env is None else f"/{plan.env}"
    name = f"{plan.project}{env}"
    return hidden(f"connect-plan:{long_text(name) if len(name) > _LINE_LENGTH_MAX else name}")


def _warnings(plan: Plan, *, all_warnings: bool) -> Iterator[Item]:
    for group in warning_groups(shown_warnings(plan, everything=all_warnings)):
        yield _group(group) if len(group.warnings) > 1 else _diagnostic(group.first)
    if note := hidden_note(plan, everything=all_warnings):
        yield Item((f"- {prose(note)}",))


def _section(title: str, unit: str, items: Iterable[Item], *, vital: bool = False) -> Section:
    return Section(f"#### {title}", unit, tuple(items), vital)


def _block(block: Block) -> Item:
    heading = f"<b>{block.mark}</b> {named(block.connector)}: {prose(block.heading)}"
    opening = "<details open>" if block.unfolded else "<details>"
    start = f"{opening}<summary>{heading}</summary>"
    forms = dict.fromkeys(
        "\n\n".join([start, *_actions(block, most), "</details>"]) for most in (None, _FEW)
    )
    return Item((*forms, f"- {heading}"))


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
        lines += _more(len(action.offset_moves), most, "partitions")
        lines += [f"→ {prose(line)}" for line in effects(action)[:most]]
        if lines:
            yield "<br>".join(lines)


def _step(action: Action) -> str:
    done, colon, reason = step(action).partition(":")
    return f"**{prose(done)}**{prose(colon + reason)}"


def _table(fields: Sequence[FieldChange], most: int | None) -> str:
    created = all(sign(field) == "+" and not _means(field) for field in fields)
    explained = any(map(_means, fields))
    head = ["", "key", "value"] if created else ["", "key", "old", "new"]
    head += ["what it does"] if explained else []
    rows = [head, ["---"] * len(head)]
    for field in fields[:most]:
        previous, value = ("" if side is None else code(side) for side in sides(field))
        row = [sign(field), named(field.key)]
        row += [value] if created else [previous, value]
        rows.append([*row, _means(field)] if explained else row)
    rows += [["", more, *[""] * (len(head) - 2)] for more in _more(len(fields), most, "keys")]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _means(change: FieldChange) -> str:
    lines = [CONSEQUENCES[change.consequence], *map(prose, change.effects)]
    return "<br>".join(filter(None, lines))


def _more(count: int, most: int | None, unit: str) -> list[str]:
    return [] if most is None or count <= most else [f"… and {count - most:,} more {unit}"]


def _group(group: WarningGroup) -> Item:
    head = f"- **{prose(group.code)}** {prose(group.subject, _LINE_LENGTH_MAX)}".rstrip()
    lines = [head]
    for warning in group.warnings:
        lines += [prose(f"{place_in_file(warning)}{warning.what}"), *_reasons(warning)]
    lines += _reasons(group.shared)
    return _item(lines, f"{head}: {len(group.warnings)} warnings")


def _diagnostic(diagnostic: Diagnostic) -> Item:
    code = f"- **{prose(diagnostic.code)}**"
    place = "" if diagnostic.where is None else f"{prose(str(diagnostic.where))}: "
    short = prose(f"{diagnostic.where or ''} {diagnostic.what}".strip(), _LINE_LENGTH_MAX)
    lines = [f"{code} {place}{prose(diagnostic.what)}", *_reasons(diagnostic)]
    return _item(lines, f"{code} {short}")


def _item(lines: Sequence[str], short: str) -> Item:
    return Item(tuple(dict.fromkeys(("<br>".join(lines), short))))


def _reasons(diagnostic: Diagnostic) -> list[str]:
    return [
        f"{label}: {prose(text, _HINT_LENGTH_MAX)}"
        for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint))
        if text
    ]


def _omissions(sections: Sequence[Section], full_plan: str) -> str:
    """Returns the sentence that counts the omissions of each section."""
    counts = []
    for section in sections:
        omitted = sum(item.form is None for item in section.items)
        shortened = sum(item.form not in (None, item.forms[0]) for item in section.items)
        numbers = [f"{omitted:,} left out"] * bool(omitted)
        numbers += [f"{shortened:,} shortened"] * bool(shortened)
        if numbers:
            title = section.title.removeprefix("#### ").lower()
            of = f"of {len(section.items):,} {section.unit}"
            counts.append(f"{title}: {of}, {' and '.join(numbers)}")
    return (
        f"> **Not all of the plan is here.** {'; '.join(counts).capitalize()}."
        f" The whole plan: {prose(full_plan, _HINT_LENGTH_MAX)}"
    )
