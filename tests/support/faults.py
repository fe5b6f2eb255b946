"""Faults, each a context: it has happened when the context begins, and its cause is over after it.

They happen to the leader, to Kafka, or to a task of the world's subject.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from support.processes import Process, frozen, kill
from support.wait import wait_until
from support.world import Pair, World

Happens: TypeAlias = Callable[[World], AbstractContextManager[None]]

_GONE_S = 60
_DISK = "64m"


# --- Kafka ---


@contextmanager
def broker_frozen(world: World) -> Iterator[None]:
    with frozen([world.broker.process]):
        yield


@contextmanager
def broker_killed(world: World) -> Iterator[None]:
    kill(world.broker.process)
    try:
        yield
    finally:
        world.broker.start_again()


@contextmanager
def coordinators_away(world: World) -> Iterator[None]:
    """For the leader and its tasks: no group and no transaction has a coordinator."""
    with world.running[world.leader].no_coordinators():
        yield


# --- the leader ---


@contextmanager
def leader_killed(world: World) -> Iterator[None]:
    """The driver alone; what it started has to notice."""
    leader = world.leader
    kill(leader.processes[0])
    yield
    world.gone(leader, code=-signal.SIGKILL)
    world.start_runtime()


@contextmanager
def leader_frozen(world: World) -> Iterator[None]:
    """The driver alone: its tasks run on."""
    with frozen(world.leader.processes[:1]):
        yield


@contextmanager
def leader_all_frozen(world: World) -> Iterator[None]:
    """As a laptop that sleeps: the driver, its JVM and its tasks."""
    with frozen(world.leader.processes):
        yield


@contextmanager
def leader_cut_off(world: World) -> Iterator[None]:
    with world.running[world.leader].cut():
        yield


@contextmanager
def jvm_killed(world: World) -> Iterator[None]:
    kill(*(each for each in world.leader.processes if "SparkSubmit" in each.command))
    yield


@contextmanager
def jvm_frozen(world: World) -> Iterator[None]:
    with frozen([each for each in world.leader.processes if "SparkSubmit" in each.command]):
        yield


@contextmanager
def spark_daemon_killed(world: World) -> Iterator[None]:
    """The process from which Spark forks those of tasks."""
    leader = world.leader
    tasks = {each.pid for each in leader.tasks}
    daemons = [each for each in leader.processes if "connect_runtime.spark.daemon" in each.command]
    kill(*(each for each in daemons if each.pid not in tasks))
    yield


# --- a task's process ---


def task_killed(connector: Callable[[Pair], str]) -> Happens:
    @contextmanager
    def happens(world: World) -> Iterator[None]:
        kill(world.task_of(connector(world.subject)))
        yield

    return happens


@contextmanager
def source_frozen_in_a_transaction(world: World) -> Iterator[None]:
    """Its producer hangs in the middle of one."""
    process, topic = world.task_of(world.subject.source), world.subject.name

    def is_inside() -> bool:
        return world.ends.stable(topic) < world.ends.high(topic)

    with _frozen_when(is_inside, process):
        yield


@contextmanager
def sink_frozen(world: World) -> Iterator[None]:
    with frozen([world.task_of(world.subject.sink)]):
        yield


@contextmanager
def _frozen_when(holds: Callable[[], bool], process: Process) -> Iterator[None]:
    """Frozen at a moment at which `holds` is true."""

    def freeze() -> bool:
        os.kill(process.pid, signal.SIGSTOP)
        if holds():
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    try:
        wait_until(freeze, what="the moment to freeze at", timeout_s=60, every_s=0.001)
        yield
    finally:
        if process.alive:
            os.kill(process.pid, signal.SIGCONT)


# --- disks ---


@contextmanager
def sinks_disk_full(world: World) -> Iterator[None]:
    """The sink writes to a disk that has no room; then it has, and the task is restarted by hand,
    as the user of any Connect would."""
    pair = world.subject
    with _mounted(world.rig.folder / f"{pair.name}-disk") as disk:
        filler = disk / "filler"
        _fill(filler)
        pair.deliver_to(disk / "out")
        yield
        filler.unlink()
        world.ask("POST", f"/connectors/{pair.sink}/restart?includeTasks=true")
        pair.wait_until_moving(_GONE_S)
        pair.deliver_to(world.rig.folder / f"{pair.name}-after.out")
        pair.wait_until_moving(_GONE_S)
        pair.files[-2] = Path(shutil.copy(disk / "out", world.rig.folder / f"{pair.name}-disk.out"))


@contextmanager
def _mounted(folder: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(b"\0" * 4096)


# --- plugins ---


def connectors(**configs: Mapping[str, str]) -> Happens:
    """Connectors beside the pairs, deleted in the end. Their names end in what they are called."""

    @contextmanager
    def happens(world: World) -> Iterator[None]:
        given = {f"{world.name}-{name.replace('_', '-')}": c for name, c in configs.items()}
        for name, config in given.items():
            world.put(name, {"file": str(world.subject.infile), "topic": name, **config})
        yield
        world.delete(*given)

    return happens
