"""The warnings of a plan as a reader gets them: those about changes, several of one kind together.

A program gets all of them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.scope import PARTIAL
from connect_specs.diagnostics import Diagnostic, Location


@dataclass(frozen=True, slots=True)
class Group:
    """Warnings with one code about one spec, or about one thing that is none. A reason or a hint
    that is that of all is in `shared` alone."""

    code: str
    subject: str
    warnings: tuple[Diagnostic, ...]
    shared: Diagnostic

    @property
    def first(self) -> Diagnostic:
        """The only one of a group of one, with all that belongs to it."""
        return replace(self.warnings[0], why=self.shared.why, hint=self.shared.hint)


def told(plan: Plan, *, everything: bool) -> tuple[Diagnostic, ...]:
    """The warnings to show: `everything`, or those about what changes. That only a part is planned
    is in the first line."""
    unchanged = frozenset(() if everything else plan.unchanged)
    return tuple(each for each in plan.warnings if each.code != PARTIAL and each not in unchanged)


def set_aside(plan: Plan) -> tuple[Diagnostic, ...]:
    """The warnings about what stays as it is."""
    unchanged = frozenset(plan.unchanged)
    return tuple(each for each in plan.warnings if each in unchanged)


def untold(plan: Plan, *, everything: bool) -> str:
    """How many warnings are not shown, and how to see them; empty if none is left out."""
    count = 0 if everything else len(set_aside(plan))
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
    """`12:5 ` of a warning whose file is said already."""
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
