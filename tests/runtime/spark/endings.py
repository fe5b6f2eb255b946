"""What a test sees of attempts: how each ended, and the process that runs it."""

from __future__ import annotations

import threading
from pathlib import Path

from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.tasks.launch import Outcome, TaskLaunch
from runtime.spark.bodies import launch, pid_of
from support.processes import Process, process
from support.wait import wait_until


class Endings:
    """What attempts came to, in the order in which it was told."""

    def __init__(self) -> None:
        self.told: list[Outcome] = []
        self._lock = threading.Lock()

    def __call__(self, outcome: Outcome) -> None:
        with self._lock:
            self.told.append(outcome)

    def of(self, connector: str, attempt: int = 1) -> list[Outcome]:
        return [o for o in self.told if (o.id.connector, o.attempt) == (connector, attempt)]

    def wait(self, connector: str, attempt: int = 1) -> Outcome:
        wait_until(lambda: self.of(connector, attempt), what=f"{connector} to end", timeout_s=60)
        return self.of(connector, attempt)[0]


def running(folder: Path, given: TaskLaunch) -> int:
    found = wait_until(lambda: pid_of(folder, given), what=f"{given.id} to run")
    assert found is not None
    return found


def jvm_of(launcher: SparkLauncher) -> Process:
    """The JVM of the launcher's session."""
    session = launcher._supervisor.session
    assert session is not None and session._jvm is not None
    found = process(session._jvm._process.pid)
    assert found is not None
    return found


def wait_for_slots(launcher: SparkLauncher, *, timeout_s: float = 120) -> int:
    """How many there are, once tasks can run."""
    found = wait_until(lambda: launcher.slots, what="slots", timeout_s=timeout_s)
    wait_until(lambda: launcher.problem is None, what="no problem any more")
    return found


def runs_again(launcher: SparkLauncher, endings: Endings, attempt: int) -> None:
    """Nothing but waiting makes attempts run again."""
    wait_for_slots(launcher)
    launcher.launch(launch("echo", attempt=attempt, echo="again"), endings)
    assert endings.wait("echo", attempt).trace == "again"
