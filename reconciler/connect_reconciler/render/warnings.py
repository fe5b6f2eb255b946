"""The warnings of a plan as people see them: those about changes, grouped by spec and code.

JSON has all of them, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.model.plan import Plan
from connect_reconciler.plan.scope import PARTIAL
from connect_specs.diagnostics import Diagnostic, Location


@dataclass(frozen=True, slots=True)
class Group:
    """Warnings with one code about one spec, or another subject. A reason or hint that all of them
    have is in `shared` only."""

    code: str
    subject: str
    warnings: tuple[Diagnostic, ...]
    shared: Diagnostic

    @property
    def first(self) -> Diagnostic:
        """The warning of a group of one, with its reason and hint."""
        return replace(self.warnings[0], why=self.shared.why, hint=self.shared.hint)


def shown(plan: Plan, *, everything: bool) -> tuple[Diagnostic, ...]:
    """The warnings to show: `everything`, or those about changes. That a plan is targeted is in the
    first line."""
    unchanged = frozenset(() if everything else plan.unchanged)
    return tuple(each for each in plan.warnings if each.code != PARTIAL and each not in unchanged)


def about_unchanged(plan: Plan) -> tuple[Diagnostic, ...]:
    """The warnings about what the plan leaves unchanged."""
    unchanged = frozenset(plan.unchanged)
    return tuple(each for each in plan.warnings if each in unchanged)


def hidden_note(plan: Plan, *, everything: bool) -> str:
    """How many warnings are not shown, and how to see them; empty if none is left out."""
    count = 0 if everything else len(about_unchanged(plan))
    if not count:
        return ""
    if count == 1:
        return "1 more warning concerns what stays unchanged: --warnings all shows it"
    return f"{count} more warnings concern what stays unchanged: --warnings all shows them"


def grouped(warnings: Iterable[Diagnostic]) -> tuple[Group, ...]:
    """The warnings by spec, then by code, each in the order in which they first occur."""
    found: dict[str, dict[str, list[Diagnostic]]] = {}
    for each in warnings:
        subject = each.where.file if isinstance(each.where, Location) else each.where or ""
        found.setdefault(subject, {}).setdefault(each.code, []).append(each)
    return tuple(
        _group(code, subject, list(dict.fromkeys(each)))
        for subject, codes in found.items()
        for code, each in codes.items()
    )


def place_in_file(warning: Diagnostic) -> str:
    """`12:5 ` of a warning below a heading that names the file."""
    place = warning.where
    return f"{place.line}:{place.column} " if isinstance(place, Location) else ""


def _group(code: str, subject: str, warnings: Sequence[Diagnostic]) -> Group:
    first = warnings[0]
    why = first.why if all(each.why == first.why for each in warnings) else ""
    hint = first.hint if all(each.hint == first.hint for each in warnings) else ""
    own = (
        replace(each, why="" if why else each.why, hint="" if hint else each.hint)
        for each in warnings
    )
    return Group(code, subject, tuple(own), Diagnostic(code, "", why=why, hint=hint))
