"""Finds the connectors for which there may be something new to decide. Pure.

Where a thousand connectors start, each of their records would otherwise be a decision about all of
them. This only leaves out what cannot matter: `decide` still compares states, and what it gives for
some connectors is what it would have given for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from connect_runtime.herder.effects import Effect, Launch, connector_of
from connect_runtime.herder.view import PLAIN, View

# What may matter to any connector
_OF_ALL: Final = ("kinds", "versions")
# a slot more is looked at by itself
_PLAIN_OF_ALL: Final = tuple(name for name in PLAIN if name != "occupied")
_BY_CONNECTOR: Final = ("instances", "fencings", "failures", "published", "waits")
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
    if _frees_a_slot(view, before):
        return None
    names = {*_differing(view.config.connectors, before.config.connectors)}
    names.update(_differing(view.status.connectors, before.status.connectors))
    for each in _BY_CONNECTOR:
        names.update(_differing(getattr(view, each), getattr(before, each)))
    tasks = {*_differing(view.status.tasks, before.status.tasks)}
    tasks.update(_differing(view.assignments.tasks, before.assignments.tasks))
    tasks.update(_differing(view.assignments.ending, before.assignments.ending))
    for each in _BY_TASK:
        tasks.update(_differing(getattr(view, each), getattr(before, each)))
    tasks.update(view.status.outdated ^ before.status.outdated)
    return frozenset(names.union(task.connector for task in tasks))


def changed_by(effects: Sequence[Effect], view: View, before: View) -> frozenset[str] | None:
    """As `changed`, after these effects, which `before` needed."""
    since = changed(view, before)
    launched = (view.runs.get(each.task) for each in effects if isinstance(each, Launch))
    if since is None or not all(run is not None and run.active for run in launched):
        return None  # others did not get the slot that was kept for a launch, which has failed
    return since.union(map(connector_of, effects))


def _frees_a_slot(view: View, before: View) -> bool:
    """Whether a connector that waits for a slot may get one."""
    return view.occupied < before.occupied or any(
        key in before.runs
        and before.runs[key].active
        and not (key in view.runs and view.runs[key].active)
        for key in _differing(view.runs, before.runs)
    )


def _differing(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys of new, replaced and removed values."""
    if now is before:
        return []
    found = []
    same_keys = 0
    # a copy has the same keys in the same order, up to the first that is gone or new
    for (key, value), (key_before, value_before) in zip(now.items(), before.items(), strict=False):
        if key is not key_before:
            break
        same_keys += 1
        if value is not value_before:
            found.append(key)
    found += [k for k, v in islice(now.items(), same_keys, None) if before.get(k) is not v]
    found += [k for k in islice(before, same_keys, None) if k not in now]
    return found
