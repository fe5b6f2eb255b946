"""A plan in blocks, as every rendering shows it: one for each connector, deletes and moved offsets
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from connect_reconciler.model.actions import Action, ChangeKind, Create, UpdateConfig, old_name
from connect_reconciler.model.plan import RISKY, Plan, grouped, kinds
from connect_reconciler.render.words import (
    CONSEQUENCES,
    GRAVE,
    kind_words,
    reason_beside,
    reason_code,
    reason_text,
    recreates,
)
from connect_specs.diagnostics import Location

Mark: TypeAlias = Literal["-", "!", "+", "~"]

# Connectors that a page or a comment shows unfolded, all of them
_FEW = 3


@dataclass(frozen=True, slots=True)
class Block:
    """One connector's actions, in the order in which they will happen; `place` is its spec's."""

    connector: str
    kinds: tuple[ChangeKind, ...]
    actions: tuple[Action, ...]
    few: bool = False
    place: Location | None = None

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
        if self.alone and reason_code(self.actions[0]) == "state":
            words = reason_text(self.actions[0])
        about = [*self._why(), *self._where()]
        return f"{words} ({self._between().join(about)})" if about else words

    @property
    def alone(self) -> bool:
        """Whether one action is all that is done."""
        return len(self.actions) == 1

    def _why(self) -> Iterator[str]:
        first = self.actions[0]
        if isinstance(first, Create) and first.renamed_from is None:
            yield reason_text(first)
        elif self.alone and reason_code(first) != "state" and reason_beside(first):
            yield reason_beside(first)

    def _where(self) -> Iterator[str]:
        if self.place is not None:
            yield f"{self.place.file}:{self.place.line}"

    def _between(self) -> str:
        return ": " if reason_code(self.actions[0]) == "new" else "; "

    def _kind_words(self, kind: ChangeKind) -> str:
        old = next(filter(None, map(old_name, self.actions)), None)
        if kind == "rename" and old is not None:
            return f"rename from {old}"
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
        Block(each[0].connector, kinds(each), each, few, plan.places.get(each[0].connector))
        for each in groups
    ]
    return tuple(sorted(found, key=lambda block: (not block.deletes, not block.risky)))
