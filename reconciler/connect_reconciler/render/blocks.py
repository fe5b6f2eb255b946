"""The parts of a plan as every rendering shows them: a block for each connector, deletes and moved
offsets first; and the warnings, those about changes, grouped by spec and code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from connect_reconciler.actions import Action, ChangeKind, Create, UpdateConfig
from connect_reconciler.actions.plan import RISKY, TARGETED, Plan, grouped, kinds
from connect_reconciler.render.words import (
    CONSEQUENCES,
    GRAVE,
    kind_words,
    reason_beside,
    recreates,
)
from connect_specs.diagnostics import Diagnostic, Location

Mark: TypeAlias = Literal["-", "!", "+", "~"]

# Connectors that a page or a comment shows unfolded, all of them
_FEW = 3


@dataclass(frozen=True, slots=True)
class Block:
    """One connector's actions, in the order in which they will happen; `place` is its spec's."""

    connector: str
    kinds: tuple[ChangeKind, ...]
    actions: tuple[Action, ...]
    few: bool
    place: Location | None

    @property
    def deletes(self) -> bool:
        """Whether the connector is gone after it."""
        return "delete" in self.kinds

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The severe consequences of its changed keys: for what it has read or delivered."""
        found = {
            change.consequence
            for action in self.actions
            if isinstance(action, UpdateConfig)
            for change in action.changes
        }
        return tuple(CONSEQUENCES[each] for each in GRAVE if each in found)

    @property
    def moves_offsets(self) -> bool:
        """Whether records are redelivered, or never delivered, because of it."""
        return bool(RISKY.intersection(self.kinds) or self.elsewhere)

    @property
    def risky(self) -> bool:
        """Whether a reviewer must see it first."""
        return self.deletes or self.moves_offsets

    @property
    def unfolded(self) -> bool:
        """Whether it is open before anyone clicks."""
        return self.risky or self.few

    @property
    def mark(self) -> Mark:
        """One character for the most severe change."""
        if self.deletes:
            return "-"
        if "create" in self.kinds:
            return "+"
        return "!" if self.moves_offsets else "~"

    @property
    def words(self) -> str:
        """What the actions amount to."""
        return ", ".join((*map(self._kind_words, self.kinds), *self.elsewhere))

    @property
    def heading(self) -> str:
        """`create (new: connectors/c.yaml:1)`: what the actions amount to, why where one action
        says it all, and the spec."""
        words = self.words
        if self.alone and self.actions[0].reason_code == "state":
            words = self.actions[0].reason
        about = [*self._why(), *self._where()]
        return f"{words} ({self._between().join(about)})" if about else words

    @property
    def alone(self) -> bool:
        """Whether one action is all that is done."""
        return len(self.actions) == 1

    def _why(self) -> Iterator[str]:
        first = self.actions[0]
        if isinstance(first, Create) and first.renamed_from is None:
            yield first.reason
        elif self.alone and first.reason_code != "state" and reason_beside(first):
            yield reason_beside(first)

    def _where(self) -> Iterator[str]:
        if self.place is not None:
            yield f"{self.place.file}:{self.place.line}"

    def _between(self) -> str:
        return ": " if self.actions[0].reason_code == "new" else "; "

    def _kind_words(self, kind: ChangeKind) -> str:
        if kind == "rename":
            names = frozenset[str]().union(*(action.names for action in self.actions))
            return f"rename from {', '.join(names - {self.connector})}"
        if kind == "create" and any(map(recreates, self.actions)):
            return "recreate"
        return kind_words(kind)


def titles(drawn: Sequence[Block]) -> tuple[tuple[str, tuple[Block, ...]], ...]:
    """The blocks under their headings: deletes and moved offsets, and other changes."""
    risky = tuple(block for block in drawn if block.risky)
    others = tuple(block for block in drawn if not block.risky)
    return (
        ("Deletes and moved offsets", risky),
        ("Other changes" if risky else "Changes", others),
    )


def blocks(plan: Plan) -> tuple[Block, ...]:
    """Deletes, then connectors whose offsets move, then the others in the plan's order."""
    groups = grouped(plan)
    few = len(groups) <= _FEW
    found = [
        Block(each[0].group, kinds(each), each, few, plan.places.get(each[0].group))
        for each in groups
    ]
    return tuple(sorted(found, key=lambda block: (not block.deletes, not block.risky)))


# --- warnings ---


@dataclass(frozen=True, slots=True)
class WarningGroup:
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


def shown_warnings(plan: Plan, *, everything: bool) -> tuple[Diagnostic, ...]:
    """The warnings to show: `everything`, or those about changes. That a plan is targeted is in the
    first line."""
    unchanged = frozenset(() if everything else plan.unchanged)
    return tuple(each for each in plan.warnings if each.code != TARGETED and each not in unchanged)


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


def warning_groups(warnings: Iterable[Diagnostic]) -> tuple[WarningGroup, ...]:
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


def _group(code: str, subject: str, warnings: Sequence[Diagnostic]) -> WarningGroup:
    first = warnings[0]
    why = first.why if all(each.why == first.why for each in warnings) else ""
    hint = first.hint if all(each.hint == first.hint for each in warnings) else ""
    own = (
        replace(each, why="" if why else each.why, hint="" if hint else each.hint)
        for each in warnings
    )
    return WarningGroup(code, subject, tuple(own), Diagnostic(code, "", why=why, hint=hint))
