"""Which spec is a connector from, and which warnings concern only what the plan leaves as it is?

Pure. A warning that cannot be attributed to one connector concerns the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from connect_reconciler.plan.checks.config import CLASS_KEY
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.unfinished import UNFINISHED
from connect_specs.diagnostics import Diagnostic, Location


def attributed(plan: Plan, changes: Iterable[Changes]) -> Plan:
    """The plan with the places of its connectors' specs, and its warnings told apart."""
    found = tuple(changes)
    acting = {action.connector for action in plan.actions}
    quiet = _Unchanged(found, acting)
    return replace(
        plan,
        places={
            each.name: each.spec.where
            for each in found
            # what a rollback wants stands in no file
            if each.spec is not None and each.spec.where.line and each.name in acting
        },
        unchanged=tuple(each for each in plan.warnings if quiet.holds(each)),
    )


class _Unchanged:
    """Places in specs and names of connectors that the plan does not touch."""

    def __init__(self, changes: tuple[Changes, ...], acting: set[str]) -> None:
        self._touched: set[Location | str] = set()
        self._known: set[Location | str] = set()
        for each in changes:
            self._known |= {each.name, *_places(each)}
            if each.name in acting:
                self._touched |= {each.name, *_touched(each)}

    def holds(self, warning: Diagnostic) -> bool:
        """Whether the warning concerns none of the changes."""
        if warning.code == UNFINISHED:
            return False
        return warning.where in self._known and warning.where not in self._touched


def _places(changes: Changes) -> Iterator[Location]:
    spec = changes.spec
    if spec is None:
        return
    yield spec.where
    yield from spec.key_locations.values()
    yield from (where for where in (_pin_place(changes), spec.renamed_from_where) if where)


def _touched(changes: Changes) -> Iterator[Location]:
    """The spec as a whole, and the keys that change. What is said at the class concerns all keys:
    a key that is missing is told of there, too."""
    spec = changes.spec
    if spec is None:
        return
    if changes.existence == "create":
        yield from _places(changes)
        return
    keys = {each.key for each in (*changes.config, *changes.moved)}
    yield spec.where
    yield from (
        where
        for key, where in spec.key_locations.items()
        if key in keys or (keys and key == CLASS_KEY)
    )
    yield from (where for where in (_pin_place(changes), spec.renamed_from_where) if where)


def _pin_place(changes: Changes) -> Location | None:
    pin = None if changes.spec is None else changes.spec.pin
    return None if pin is None else pin.where
