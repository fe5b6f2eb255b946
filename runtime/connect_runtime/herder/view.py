"""Holds everything that the leader's decisions read: topics, what it runs, and its failures; and
finds the connectors for which there may be something new to decide. Pure.

If a thousand connectors start, each of their records would otherwise be a decision about all of
them. `changed` only leaves out what cannot matter: `decide` still compares states, and what it
gives for some connectors is what it would have given for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Final

from connect_runtime.herder.effects import Effect, Launch, connector_of
from connect_runtime.herder.runs import ConnectorFailure, Fencing, Instance, Kind, Run
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    ConfigSnapshot,
    ConnectorState,
    StatusSnapshot,
    TaskId,
)


@dataclass(frozen=True, slots=True)
class View:
    """One moment. Instances, fencings and failures by connector, runs by task.

    `kinds` by connector class; None while it is being found out. `versions` of those classes that
    were loaded. `published`, by connector, stands for what its published task configs resolve to.
    `dead`, by task: the newest attempt whose process is known to be dead, in spite of its status.
    `waits`, by connector: since when its tasks have had to wait to be launched. `led_at`: since
    when this runtime leads, in seconds of the herder's clock; `led_time` by the wall clock.
    `slots` None: this leader runs nothing (no launcher). `exactly_once`: sources write in
    transactions, and earlier attempts can be fenced. `paused_release`: tasks of paused connectors
    end, so that others can have their slots. `occupied` counts the slots that attempts
    hold, also those of an earlier term that have not ended; `obstacle` says why nothing can run
    now.
    """

    config: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    status: StatusSnapshot = field(default_factory=StatusSnapshot)
    assignments: AssignmentSnapshot = field(default_factory=AssignmentSnapshot)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    runs: Mapping[TaskId, Run] = field(default_factory=dict)
    kinds: Mapping[str, Kind | None] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    fencings: Mapping[str, Fencing] = field(default_factory=dict)
    failures: Mapping[str, ConnectorFailure] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)
    dead: Mapping[TaskId, int] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    exactly_once: bool = True
    paused_release: bool = False
    slots: int | None = None
    occupied: int = 0
    obstacle: str | None = None
    worker_id: str = ""
    term: int = 0
    led_at: float = 0.0
    led_time: float = 0.0

    @property
    def free(self) -> int:
        """Returns how many more attempts can run now."""
        busy = sum(run.active for run in self.runs.values())
        return (self.slots or 0) - max(busy, self.occupied)

    def failure_of(self, name: str) -> ConnectorFailure | None:
        """Returns the connector's failure, if its wanted state is still the one that failed."""
        failure = self.failures.get(name)
        if failure is None or not failure.is_about(self.config.connectors.get(name)):
            return None
        return failure


def class_of(state: ConnectorState) -> str:
    """Returns the connector class that its config names."""
    return state.config.get("connector.class") or ""


def same(view: View, second: View) -> bool:
    """Returns whether two views are equal. Cheap: a view's values are replaced when they change,
    never changed in place."""
    return all(getattr(view, name) is getattr(second, name) for name in _REPLACED) and all(
        getattr(view, name) == getattr(second, name) for name in _PLAIN
    )


# Compared by value; the others are replaced when they change
_PLAIN: Final = (
    "exactly_once",
    "paused_release",
    "slots",
    "occupied",
    "obstacle",
    "worker_id",
    "term",
    "led_at",
    "led_time",
)
_REPLACED: Final = tuple(entry.name for entry in fields(View) if entry.name not in _PLAIN)
# Fields that may matter to any connector
_OF_ALL: Final = ("kinds", "versions")
# a slot more is looked at by itself
_PLAIN_OF_ALL: Final = tuple(name for name in _PLAIN if name != "occupied")
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
