"""What a worker is set to, as far as running tasks needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_specs.names import ClusterTopics


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`properties` has Apache's names; `graceful_s` is how long an attempt may take to end before
    it is killed; `socket` as in TaskLaunch. `leaving_s` is how long a change of offsets waits for
    the attempts of a connector that was just stopped."""

    group_id: str
    topics: ClusterTopics
    worker_id: str
    properties: Mapping[str, str]
    graceful_s: float = 5.0
    socket: str | None = None
    leaving_s: float = 0.0

    @property
    def exactly_once(self) -> bool:
        """Whether sources write in transactions, which is the default."""
        support = self.properties.get("exactly.once.source.support", "enabled")
        return support.strip().lower() != "disabled"

    @property
    def paused_release(self) -> bool:
        """Whether tasks of paused connectors end, so that others can have their slots."""
        return self.properties.get(PAUSED_RELEASE, "false").strip().lower() == "true"
