"""Finds the connectors for which there may be something new to decide. Pure.

Where a thousand connectors start, each of their records would otherwise be a decision about all of
them. This only leaves out what cannot matter: `decide` still compares states, and what it gives for
some connectors is what it would have given for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.herder.view import View

# What may matter to any connector
_OF_ALL: Final = ("kinds", "versions")
_PLAIN_OF_ALL: Final = ("exactly_once", "slots", "obstacle", "worker_id", "term")
_BY_CONNECTOR: Final = ("instances", "fencings", "failures", "published")
_BY_TASK: Final = ("runs", "dead")


def changed(view: View, before: View) -> frozenset[str] | None:
    """Returns the names of connectors that differ; None if any may. `before` needed no effects, and
    no deadline of it has passed.

    Cheap: values are replaced when they change, never changed in place.
    """
    if any(getattr(view, name) is not getattr(before, name) for name in _OF_ALL):
        return None
    if any(getattr(view, name) != getattr(before, name) for name in _PLAIN_OF_ALL):
        return None
    if view.free > before.free:  # for those that wait for a slot
        return None
    names = {*_differing(view.config.connectors, before.config.connectors)}
    names.update(_differing(view.status.connectors, before.status.connectors))
    for each in _BY_CONNECTOR:
        names.update(_differing(getattr(view, each), getattr(before, each)))
    tasks = {*_differing(view.status.tasks, before.status.tasks)}
    tasks.update(_differing(view.assignments.tasks, before.assignments.tasks))
    for each in _BY_TASK:
        tasks.update(_differing(getattr(view, each), getattr(before, each)))
    tasks.update(view.status.outdated ^ before.status.outdated)
    return frozenset(names.union(task.connector for task in tasks))


def _differing(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys of new, replaced and removed values."""
    if now is before:
        return []
    found = [key for key, value in now.items() if before.get(key) is not value]
    if len(now) - sum(key not in before for key in found) < len(before):
        found.extend(key for key in before if key not in now)
    return found
