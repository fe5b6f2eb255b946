"""The port through which the herder runs tasks. Spark implements it; tests have a twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome, TaskLaunch


class Launcher(Protocol):
    """Runs attempts, each isolated from every other."""

    @property
    def slots(self) -> int:
        """How many attempts can run at once; 0 while the launcher is still starting."""
        ...

    @property
    def active(self) -> int:
        """How many attempts have a process that may still live, killed ones included."""
        ...

    @property
    def problem(self) -> str | None:
        """Why nothing can run now; None while all is well."""
        ...

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        """Starts an attempt and returns at once. `ended` is called once, from any thread."""
        ...

    def kill(self, task: TaskId, attempt: int) -> None:
        """Ends the attempt without its consent, whoever led when it was launched; `ended` is still
        called. Returns at once. Unknown ones: nothing."""
        ...

    def close(self) -> None:
        """Ends everything that still runs."""
        ...
