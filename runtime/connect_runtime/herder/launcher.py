"""The port through which the herder runs tasks, and the settings that tasks need.

Spark implements it; tests have a twin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome, TaskLaunch, exactly_once
from connect_specs.names import ClusterTopics


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`properties` has Apache's names; `graceful_s` is how long an attempt may take to end before
    it is killed; `socket` and `logger_levels` as in TaskLaunch. `leaving_s` is how long a change of
    offsets waits for the attempts of a connector that was just stopped."""

    group_id: str
    topics: ClusterTopics
    worker_id: str
    properties: Mapping[str, str]
    graceful_s: float = 5.0
    socket: str | None = None
    leaving_s: float = 0.0
    logger_levels: str | None = None

    @property
    def exactly_once(self) -> bool:
        """Returns whether sources write in transactions, which is the default."""
        return exactly_once(self.properties)

    @property
    def paused_release(self) -> bool:
        """Returns whether tasks of paused connectors end, so that others can have their slots."""
        return self.properties.get(PAUSED_RELEASE, "false").strip().lower() == "true"


class Launcher(Protocol):
    """Runs attempts, each isolated from the others."""

    @property
    def slots(self) -> int:
        """Returns how many attempts can run at once; 0 while the launcher is still starting."""
        ...

    @property
    def active(self) -> int:
        """Returns how many attempts may still have a live process, including killed ones."""
        ...

    @property
    def problem(self) -> str | None:
        """Returns why nothing can run now; None if attempts can run."""
        ...

    def lead(self, term: int) -> None:
        """Prepares to run tasks: this runtime leads from now on, in this term. Returns at once."""
        ...

    def follow(self) -> None:
        """Releases resources that another leader needs to run tasks. Returns at once."""
        ...

    def launch(self, launch: TaskLaunch, on_end: Callable[[Outcome], None]) -> None:
        """Starts an attempt and returns at once. `on_end` is called once, from any thread."""
        ...

    def kill(self, task: TaskId, attempt: int) -> None:
        """Kills the attempt, even if another leader launched it; its `on_end` is still called.
        Returns at once. Does nothing for unknown attempts."""
        ...

    def close(self) -> None:
        """Ends all running attempts."""
        ...
