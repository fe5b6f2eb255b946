"""A plan as every rendering shows it: a block for each connector, deletes and moved offsets first;
and the warnings about changes, grouped by spec and code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        """Returns whether the connector is deleted."""
        return "delete" in self.kinds

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Returns the severe consequences of its changed keys: for records read or delivered."""
        severe = {
            change.consequence
            for action in self.actions
            if isinstance(action, UpdateConfig)
            for change in action.changes
        }
        return tuple(CONSEQUENCES[consequence] for consequence in GRAVE if consequence in severe)

    @property
    def moves_offsets(self) -> bool:
        """Returns whether records are redelivered, or never delivered, because of it."""
        return bool(RISKY.intersection(self.kinds) or self.elsewhere)

    @property
    def risky(self) -> bool:
        """Returns whether a reviewer must see it first."""
        return self.deletes or self.moves_offsets

    @property
    def unfolded(self) -> bool:
        """Returns whether it is open before anyone clicks."""
        return self.risky or self.few

    @property
    def mark(self) -> Mark:
        """Returns one character for the most severe change."""
        if self.deletes:
            return "-"
        if "create" in self.kinds:
            return "+"
        return "!" if self.moves_offsets else "~"

    @property
    def words(self) -> str:
        """Returns the kinds of its changes, and the severe consequences."""
        return ", ".join((*map(self._kind_words, self.kinds), *self.elsewhere))

    @property
    def heading(self) -> str:
        """Returns `create (new: connectors/c.yaml:1)`: the kinds of changes, the reason if
        there is one action, and the spec."""
        first = self.actions[0]
        words = first.reason if self.alone and first.reason_code == "state" else self.words
        place = "" if self.place is None else f"{self.place.file}:{self.place.line}"
        separator = ": " if first.reason_code == "new" else "; "
        about = separator.join(filter(None, (self._reason(), place)))
        return f"{words} ({about})" if about else words

    @property
    def alone(self) -> bool:
        """Returns whether there is only one action."""
        return len(self.actions) == 1

    def _reason(self) -> str:
        first = self.actions[0]
        if isinstance(first, Create) and first.renamed_from is None:
            return first.reason
        return reason_beside(first) if self.alone and first.reason_code != "state" else ""

    def _kind_words(self, kind: ChangeKind) -> str:
        if kind == "rename":
            names = frozenset[str]().union(*(action.names for action in self.actions))
            return f"rename from {', '.join(names - {self.connector})}"
        if kind == "create" and any(map(recreates, self.actions)):
            return "recreate"
        return kind_words(kind)


def titles(drawn: Sequence[Block]) -> tuple[tuple[str, tuple[Block, ...]], ...]:
    """Returns the blocks under their headings: deletes and moved offsets, and other changes."""
    risky = tuple(block for block in drawn if block.risky)
    minor = tuple(block for block in drawn if not block.risky)
    return (
        ("Deletes and moved offsets", risky),
        ("Other changes" if risky else "Changes", minor),
    )


def blocks(plan: Plan) -> tuple[Block, ...]:
    """Returns deletes, then connectors whose offsets move, then the others in the plan's order."""
    groups = grouped(plan)
    few = len(groups) <= _FEW
    drawn = []
    for actions in groups:
        name = actions[0].group
        drawn.append(Block(name, kinds(actions), actions, few, plan.places.get(name)))
    return tuple(sorted(drawn, key=lambda block: (not block.deletes, not block.risky)))


# --- warnings ---


@dataclass(frozen=True, slots=True)
class WarningGroup:
    """Warnings with one code about one spec, or another subject. Their common reason or hint is in
    `shared` only."""

    code: str
    subject: str
    warnings: tuple[Diagnostic, ...]
    shared: Diagnostic

    @property
    def first(self) -> Diagnostic:
        """Returns the warning of a group of one, with its reason and hint."""
        return replace(self.warnings[0], why=self.shared.why, hint=self.shared.hint)


def shown_warnings(plan: Plan, *, everything: bool) -> tuple[Diagnostic, ...]:
    """Returns `everything`, or the warnings about changes. The first line has the scope of a
    targeted plan."""
    unchanged = frozenset(() if everything else plan.unchanged)
    return tuple(
        warning
        for warning in plan.warnings
        if warning.code != TARGETED and warning not in unchanged
    )


def about_unchanged(plan: Plan) -> tuple[Diagnostic, ...]:
    """Returns the warnings about connectors that the plan leaves unchanged."""
    unchanged = frozenset(plan.unchanged)
    return tuple(warning for warning in plan.warnings if warning in unchanged)


def hidden_note(plan: Plan, *, everything: bool) -> str:
    """Returns the number of warnings that are not shown, and the option that shows them; empty if
    none is left out."""
    count = 0 if everything else len(about_unchanged(plan))
    if not count:
        return ""
    if count == 1:
        return "1 more warning concerns what stays unchanged: --warnings all shows it"
    return f"{count} more warnings concern what stays unchanged: --warnings all shows them"


def warning_groups(warnings: Iterable[Diagnostic]) -> tuple[WarningGroup, ...]:
    """Returns the warnings by spec, then by code, in the order of their first occurrence."""
    subjects: dict[str, dict[str, list[Diagnostic]]] = {}
    for warning in warnings:
        place = warning.where
        subject = place.file if isinstance(place, Location) else place or ""
        subjects.setdefault(subject, {}).setdefault(warning.code, []).append(warning)
    return tuple(
        _group(code, subject, list(dict.fromkeys(group)))
        for subject, codes in subjects.items()
        for code, group in codes.items()
    )


def place_in_file(warning: Diagnostic) -> str:
    """Returns `12:5 ` for a warning below a heading that names the file."""
    place = warning.where
    return f"{place.line}:{place.column} " if isinstance(place, Location) else ""


def _group(code: str, subject: str, warnings: Sequence[Diagnostic]) -> WarningGroup:
    first = warnings[0]
    reason = first.why if all(warning.why == first.why for warning in warnings) else ""
    hint = first.hint if all(warning.hint == first.hint for warning in warnings) else ""
    own = (
        replace(warning, why="" if reason else warning.why, hint="" if hint else warning.hint)
        for warning in warnings
    )
    return WarningGroup(code, subject, tuple(own), Diagnostic(code, "", why=reason, hint=hint))
