"""Holds everything that the leader's decisions read: topics, what it runs, and its failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

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
        getattr(view, name) == getattr(second, name) for name in PLAIN
    )


# Compared by value; the others are replaced when they change
PLAIN: Final = (
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
_REPLACED: Final = tuple(entry.name for entry in fields(View) if entry.name not in PLAIN)
