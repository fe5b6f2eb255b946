"""A plan as every rendering draws it: one block a connector, what can hurt first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from connect_reconciler.plan.actions import Action, UpdateConfig
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.summary import RISKY, Kind, grouped, kinds
from connect_reconciler.render.words import CONSEQUENCES, GRAVE, kind_words

Mark: TypeAlias = Literal["-", "!", "+", "~"]

# Connectors that a page or a comment shows unfolded, all of them
_FEW = 3


@dataclass(frozen=True, slots=True)
class Block:
    """One connector's actions, in the order in which they will happen."""

    connector: str
    kinds: tuple[Kind, ...]
    actions: tuple[Action, ...]
    few: bool = False

    @property
    def deletes(self) -> bool:
        """Whether the connector is gone after it."""
        return "delete" in self.kinds

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """What its changed keys do to what it has read or delivered, gravest consequences only."""
        found = {
            change.consequence
            for action in self.actions
            if isinstance(action, UpdateConfig)
            for change in action.changes
        }
        return tuple(CONSEQUENCES[each] for each in GRAVE if each in found)

    @property
    def moves_offsets(self) -> bool:
        """Whether records are delivered again, or never, because of it."""
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
        """One character for the worst of it."""
        if self.deletes:
            return "-"
        if "create" in self.kinds:
            return "+"
        return "!" if self.moves_offsets else "~"

    @property
    def words(self) -> str:
        """What the actions amount to."""
        return ", ".join((*map(kind_words, self.kinds), *self.elsewhere))


def titles(drawn: Sequence[Block]) -> tuple[tuple[str, tuple[Block, ...]], ...]:
    """The blocks under their headings: what can hurt, and the rest."""
    risky = tuple(block for block in drawn if block.risky)
    others = tuple(block for block in drawn if not block.risky)
    return (
        ("Deletes and moved offsets", risky),
        ("Other changes" if risky else "Changes", others),
    )


def blocks(plan: Plan) -> tuple[Block, ...]:
    """Deletes, then whatever moves offsets, then the rest as the plan has it."""
    groups = grouped(plan)
    few = len(groups) <= _FEW
    found = [Block(each[0].connector, kinds(each), each, few) for each in groups]
    return tuple(sorted(found, key=lambda block: (not block.deletes, not block.risky)))
