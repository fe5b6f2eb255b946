"""What stands in for a task in these tests, by connector name, and where it says that it runs.

Workers cannot import tests, so the body is made inside a function: it is sent by value.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from connect_runtime.spark.worker import Body
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_specs.names import ClusterTopics


def launch(connector: str, *, task: int = 0, attempt: int = 1, **config: str) -> TaskLaunch:
    return TaskLaunch(
        id=TaskId(connector, task),
        attempt=attempt,
        generation=0,
        leader_term=1,
        assignments_offset=0,
        group_id="g",
        topics=ClusterTopics.of("g"),
        worker_id="w:1",
        config=config,
        connector_config={},
        worker={},
    )


def body_in(folder: Path) -> Body:
    """Runs `echo`, `throw`, `exit`, `crash`, `wait` (until orphaned), `deaf` (for ever), `ends its
    group`, and for ever, after they started a process that survives them, `forks` and `shares`,
    whose fork keeps all that it has."""
    place = str(folder)

    def body(launch: TaskLaunch, orphaned: Callable[[], bool]) -> Outcome:
        import ctypes
        import os
        import signal
        import time
        from pathlib import Path

        from connect_runtime.tasks.launch import AttemptEnd, Outcome

        kind = launch.id.connector
        at = Path(place) / f"{launch.id}-{launch.attempt}"
        (at.parent / f".{at.name}").write_text(str(os.getpid()))
        (at.parent / f".{at.name}").rename(at)
        if kind == "throw":
            raise ValueError("boom \ud800")
        if kind == "exit":
            raise SystemExit(3)
        if kind == "crash":
            os._exit(3)
        if kind == "ends its group":
            os.killpg(os.getpgid(0), signal.SIGKILL)
        if kind in ("forks", "shares"):
            # C code forks without Python's knowledge
            child = os.fork() if kind == "forks" else ctypes.CDLL(None).fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            at.with_name(f"{at.name}-child").write_text(str(child))
        while kind in ("deaf", "forks", "shares") or (kind == "wait" and not orphaned()):
            time.sleep(0.05)
        if kind == "wait":
            at.with_name(f"{at.name}-drained").touch()
            return Outcome(launch.id, launch.attempt, AttemptEnd.ORPHANED)
        return Outcome(launch.id, launch.attempt, AttemptEnd.STOPPED, launch.config.get("echo"))

    return body


def pid_of(folder: Path, launch: TaskLaunch) -> int | None:
    """The process that runs the attempt, once it does."""
    at = folder / f"{launch.id}-{launch.attempt}"
    return int(at.read_text()) if at.exists() else None


def is_gone(pid: int) -> bool:
    """Whether a process has ended; what nobody waited for has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self").exists():
            return True
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
    return stat.rpartition(")")[2].split()[0] in "ZX"


__all__ = ["AttemptEnd", "Outcome", "body_in", "is_gone", "launch", "pid_of"]
