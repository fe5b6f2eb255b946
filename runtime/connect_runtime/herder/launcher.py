"""Defines the port through which the herder runs tasks. Spark implements it; tests have a twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome, TaskLaunch


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
        """This runtime leads from now on, in this term. Returns at once."""
        ...

    def follow(self) -> None:
        """Another runtime leads: releases what it needs to run tasks. Returns at once."""
        ...

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        """Starts an attempt and returns at once. `ended` is called once, from any thread."""
        ...

    def kill(self, task: TaskId, attempt: int) -> None:
        """Kills the attempt, even if another leader launched it; `ended` is still called. Returns
        at once. Does nothing for unknown attempts."""
        ...

    def close(self) -> None:
        """Ends all running attempts."""
        ...
