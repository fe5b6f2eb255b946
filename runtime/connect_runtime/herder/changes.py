"""Finds the connectors for which there may be something new to decide. Pure.

If a thousand connectors start, each of their records would otherwise be a decision about all of
them. This only leaves out what cannot matter: `decide` still compares states, and what it gives for
some connectors is what it would have given for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from connect_runtime.herder.effects import Effect, Launch, connector_of
from connect_runtime.herder.view import PLAIN, View

# Fields that may matter to any connector
_OF_ALL: Final = ("kinds", "versions")
# a slot more is looked at by itself
_PLAIN_OF_ALL: Final = tuple(name for name in PLAIN if name != "occupied")
_BY_CONNECTOR: Final = ("instances", "fencings", "failures", "published", "waits")
_BY_TASK: Final = ("runs", "dead")


def changed(view: View, earlier: View) -> frozenset[str] | None:
    """Returns the names of connectors that differ; None if any may. `earlier` needed no effects,
    and no deadline of it has passed.

    Cheap: values are replaced when they change, never changed in place.
    """
    if any(getattr(view, name) is not getattr(earlier, name) for name in _OF_ALL):
        return None
    if any(getattr(view, name) != getattr(earlier, name) for name in _PLAIN_OF_ALL):
        return None
    if _frees_a_slot(view, earlier):
        return None
    names = {*_differing(view.config.connectors, earlier.config.connectors)}
    names.update(_differing(view.status.connectors, earlier.status.connectors))
    for name in _BY_CONNECTOR:
        names.update(_differing(getattr(view, name), getattr(earlier, name)))
    tasks = {*_differing(view.status.tasks, earlier.status.tasks)}
    tasks.update(_differing(view.assignments.tasks, earlier.assignments.tasks))
    tasks.update(_differing(view.assignments.ending, earlier.assignments.ending))
    for name in _BY_TASK:
        tasks.update(_differing(getattr(view, name), getattr(earlier, name)))
    tasks.update(view.status.outdated ^ earlier.status.outdated)
    return frozenset(names.union(task.connector for task in tasks))


def changed_by(effects: Sequence[Effect], view: View, earlier: View) -> frozenset[str] | None:
    """Returns the same as `changed`, after these effects, which `earlier` needed."""
    since = changed(view, earlier)
    launched = (view.runs.get(effect.task) for effect in effects if isinstance(effect, Launch))
    if since is None or not all(run is not None and run.active for run in launched):
        return None  # others did not get the slot that was kept for a launch, which has failed
    return since.union(map(connector_of, effects))


def _frees_a_slot(view: View, earlier: View) -> bool:
    """Returns whether a connector that waits for a slot may get one."""
    return view.occupied < earlier.occupied or any(
        key in earlier.runs
        and earlier.runs[key].active
        and not (key in view.runs and view.runs[key].active)
        for key in _differing(view.runs, earlier.runs)
    )


def _differing(current: Mapping[Any, Any], earlier: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys of new, replaced and removed values."""
    if current is earlier:
        return []
    keys = []
    same_keys = 0
    # a copy has the same keys in the same order, up to the first that is gone or new
    for (key, value), (key_before, value_before) in zip(
        current.items(), earlier.items(), strict=False
    ):
        if key is not key_before:
            break
        same_keys += 1
        if value is not value_before:
            keys.append(key)
    keys += [k for k, v in islice(current.items(), same_keys, None) if earlier.get(k) is not v]
    keys += [k for k in islice(earlier, same_keys, None) if k not in current]
    return keys
