"""The JVMs that run Java plugins for a `connect distributed`, and their owners."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from connect_runtime.engine.engine_jar import MAIN_CLASS
from support.distributed import Runtime
from support.processes import Process, node_servers, process
from support.wait import wait_until

_START_S = 90


def engines(parents: Collection[int]) -> list[Process]:
    """The JVMs of Java plugins that these processes have started."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) in parents:
                pids.append(int(stat.parent.name))
    alive = [engine for pid in pids if (engine := process(pid)) is not None]
    return [engine for engine in alive if MAIN_CLASS in engine.command]


def task_engines(runtime: Runtime) -> list[Process]:
    """The JVMs of its tasks: those that they share, and those of one each."""
    owners = [*node_servers(runtime.processes), *runtime.tasks]
    return engines({owner.pid for owner in owners})


def task_with(runtime: Runtime, path: Path) -> tuple[Process, Process]:
    """The process of the task whose JVM has a file open that is `path` or below it, and the JVM;
    waits for it."""

    def running() -> tuple[Process, Process] | None:
        for task in runtime.tasks:
            for jvm in engines({task.pid}):
                if any(each.is_relative_to(path) for each in _open_files(jvm)):
                    return task, jvm
        return None

    return wait_until(running, what=f"a task that reads {path}", timeout_s=_START_S)


def connectors_engines(runtime: Runtime) -> list[Process]:
    """The JVMs beside the runtime itself; waits for one."""
    return wait_until(
        lambda: engines([runtime.command.pid]), what="the connectors' JVM", timeout_s=_START_S
    )


def spark_jvm(runtime: Runtime) -> Process:
    """Spark's JVM; waits for it."""
    return wait_until(
        lambda: [each for each in runtime.processes if "SparkSubmit" in each.command],
        what="Spark's JVM",
        timeout_s=_START_S,
    )[0]


def _open_files(of: Process) -> list[Path]:
    files = []
    with suppress(OSError):
        for descriptor in Path(f"/proc/{of.pid}/fd").iterdir():
            with suppress(OSError):
                files.append(descriptor.readlink())
    return files
