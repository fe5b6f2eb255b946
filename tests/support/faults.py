"""Faults, each a context: it has happened when the context begins, and its cause is over after it.

They happen to the leader, to Kafka, or to a task of the world's subject.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Consumer

from connect_runtime.kafka.embedded import EmbeddedBroker
from support.broker import create_topic
from support.connectors import SOURCE as NUMBERS
from support.guarded_broker import binding
from support.processes import (
    Process,
    daemon_processes,
    frozen,
    kill,
    node_servers,
    process,
)
from support.rig import committed_lines
from support.unruly import RETRYING
from support.wait import wait_until
from support.world import Pair, World

Happens: TypeAlias = Callable[[World], AbstractContextManager[None]]

_GONE_S = 60
_SUCCESSOR_S = 60
_SAID_S = 15
_MANY_S = 600
_FILLED_MOST = 256 << 20
_BLOCK = 4096
_LOGIN = "reader"


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
    with world.ways[world.leader].no_coordinators():
        yield


@contextmanager
def other_cluster_frozen(world: World) -> Iterator[None]:
    """Where a pair beside the others has its topic, and its source's offsets."""
    other = EmbeddedBroker.start(world.rig.folder / f"{world.name}-broker")
    broker = process(other.pid)
    assert broker is not None
    with ExitStack() as stack:
        stack.callback(other.stop)
        pair = world.pair("elsewhere", stack, other.bootstrap_servers)
        pair.start()
        with frozen([broker]):
            yield
        pair.wait_until_moving(_GONE_S)
        pair.check()
        world.delete(pair.source, pair.sink)


# --- the leader ---


@contextmanager
def leader_killed(world: World) -> Iterator[None]:
    """The driver alone; what it started has to notice."""
    leader = world.leader
    leader.command.kill()
    try:
        yield
    finally:
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
def leader_host_frozen(world: World) -> Iterator[None]:
    """On a Spark cluster: the driver and its JVM. The master takes its application for healthy, and
    its tasks run on elsewhere; the standby must get their cores all the same."""
    leader, old = world.leader, {*world.tasks}
    with frozen(leader.processes):
        until = time.monotonic() + _SUCCESSOR_S
        wait_until(
            lambda: world.tasks and not old & {*world.tasks},
            what="tasks of the successor instead of the leader's",
            timeout_s=_SUCCESSOR_S,
        )
        world.bystander.wait_until_moving(max(1.0, until - time.monotonic()))
        yield
    wait_until(
        lambda: not any("SparkSubmit" in each.command for each in leader.processes),
        what="the former leader to give its Spark up",
        timeout_s=_GONE_S,
    )


@contextmanager
def leader_and_only_worker_killed(world: World) -> Iterator[None]:
    """On a Spark cluster: whoever leads next has no slots, and knows of no task whether it runs."""
    leader, cluster = world.leader, world.cluster
    assert cluster is not None
    leader.command.kill()
    cluster.kill(cluster.workers[-1])
    successor = world.leader
    names = [name for pair in (world.subject, world.bystander) for name in (pair.source, pair.sink)]
    wait_until(
        lambda: all(map(_says_why_it_does_not_run, world.statuses(names))),
        what="tasks to say that they do not run, or that nobody knows",
        timeout_s=_SAID_S,
    )
    wait_until(
        lambda: "no living worker" in str((successor.at.get("/runtime") or {}).get("problem")),
        what="the successor to say what is missing",
        timeout_s=_SUCCESSOR_S,
    )
    assert world.health(successor) == 500
    try:
        yield
    finally:
        world.gone(leader, code=-signal.SIGKILL)
        cluster.start_worker()
        world.start_runtime()


def _says_why_it_does_not_run(status: Any) -> bool:
    return bool(status["tasks"]) and all(
        (task["state"] == "UNASSIGNED" and task.get("trace"))
        or task.get("trace", "").startswith("Not confirmed since 20")
        for task in status["tasks"]
    )


@contextmanager
def leader_cut_off(world: World) -> Iterator[None]:
    with world.ways[world.leader].cut():
        yield


@contextmanager
def jvm_killed(world: World) -> Iterator[None]:
    kill(_jvm(world))
    yield


@contextmanager
def jvm_frozen(world: World) -> Iterator[None]:
    with frozen([_jvm(world)]):
        yield


def _jvm(world: World) -> Process:
    (found,) = (each for each in world.leader.processes if "SparkSubmit" in each.command)
    return found


@contextmanager
def spark_daemon_killed(world: World) -> Iterator[None]:
    """The process from which Spark forks those of tasks."""
    (daemon,) = daemon_processes(world.leader.processes)
    kill(daemon)
    yield


@contextmanager
def node_server_killed(world: World) -> Iterator[None]:
    """The agent of all tasks of a node, which is replaced."""
    kill(*node_servers(world.leader.processes))
    wait_until(lambda: node_servers(world.leader.processes), what="another node server")
    yield


@contextmanager
def node_server_frozen(world: World) -> Iterator[None]:
    (server,) = node_servers(world.leader.processes)
    with frozen([server]):
        wait_until(lambda: not server.alive, what="the node server to be noticed")
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
    """Its producer hangs in the middle of one, until the process is noticed and killed."""
    process, topic = world.task_of(world.subject.source), world.subject.name

    def is_inside() -> bool:
        return any(world.ends.stable(topic, at) < world.ends.high(topic, at) for at in (0, 1))

    with _frozen_when(is_inside, process):
        wait_until(lambda: not process.alive, what="the source to be noticed")
        yield


@contextmanager
def sink_frozen(world: World) -> Iterator[None]:
    process = world.task_of(world.subject.sink)
    with frozen([process]):
        wait_until(lambda: not process.alive, what="the sink to be noticed")
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
    as with any Connect."""
    pair = world.subject
    file = world.rig.folder / f"{pair.name}-disk.out"
    file.symlink_to("/dev/full")
    pair.deliver_to(file)
    yield
    file.unlink()
    world.ask("POST", f"/connectors/{pair.sink}/restart?includeTasks=true")


@contextmanager
def leaders_disk_full(world: World) -> Iterator[None]:
    """Where the leader keeps its data and its Spark what tasks need to start. The subject's source
    has to start again meanwhile."""
    with _full(world.leader.folder):
        kill(world.task_of(world.subject.source))
        yield


@contextmanager
def jvm_killed_on_a_full_disk(world: World) -> Iterator[None]:
    """A new one finds no room."""
    with _full(world.leader.folder):
        kill(_jvm(world))
        yield


@contextmanager
def _full(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    _fill(filler)
    try:
        yield
    finally:
        filler.unlink()


def _fill(file: Path) -> None:
    try:
        with file.open("wb", buffering=0) as out:
            for _ in range(_FILLED_MOST // _BLOCK):
                out.write(b"\0" * _BLOCK)
    except OSError as error:
        assert error.errno == errno.ENOSPC
    else:
        raise AssertionError(f"{file} is on no small disk")


# --- groups ---


@contextmanager
def rebalance_during_a_retry(world: World) -> Iterator[None]:
    """The sink puts the same records again and again; meanwhile somebody joins its group, is given
    some of its partitions, and leaves."""
    pair = world.subject
    gate = world.rig.folder / f"{pair.name}.gate"
    pair.deliver_to(
        world.rig.folder / f"{pair.name}-after.out",
        {"connector.class": RETRYING, "gate": str(gate)},
    )
    wait_until(lambda: Path(f"{gate}.retries").exists(), what="a retry", timeout_s=_GONE_S)
    joins = Consumer(
        {
            "bootstrap.servers": world.kafka,
            "group.id": f"connect-{pair.sink}",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
        }
    )
    try:
        joins.subscribe([pair.name])
        wait_until(
            lambda: joins.consume(1, timeout=0.5) or joins.assignment(),
            what="some partitions of the sink's",
            timeout_s=_GONE_S,
        )
    finally:
        joins.close()
    yield
    gate.touch()


# --- rights ---


@contextmanager
def rights_taken(world: World) -> Iterator[None]:
    """A source, `login` in rows, has a login of its own on the worker's Kafka, and the rights that
    docs/security.md lists. Its config is changed with them, then without those to its transactional
    ids; it has them again in the end, and is restarted by hand."""
    name, logins = world.named("login"), world.broker.logins
    group, topic = world.rig.name, f"{name}-data"
    create_topic(world.kafka, topic)
    given = {f"producer.override.{k}": v for k, v in logins.client(_LOGIN).items()}
    given |= {"connector.class": NUMBERS, "topic": topic, "tasks": "2", "tasks.max": "2"}
    ids = [binding(_LOGIN, "TRANSACTIONAL_ID", f"{group}-{name}-{n}", "WRITE") for n in range(2)]
    topics = [(topic, "WRITE"), (f"{group}-offsets", "WRITE"), (f"{group}-offsets", "READ")]
    kept = [binding(_LOGIN, "TOPIC", at, right) for at, right in topics]
    logins.set_rights([*ids, *kept])

    def wait_for(count: int) -> None:
        """Until there are all numbers below `count`, of both tasks."""
        expected = sorted(2 * [str(number) for number in range(count)])
        found: list[str] = []

        def reached() -> bool:
            found[:] = sorted(committed_lines(world.kafka, topic))
            return len(found) >= len(expected)

        wait_until(reached, what=f"numbers of {name}", timeout_s=_GONE_S, every_s=0.5)
        assert found == expected

    world.put(name, given | {"last": "10"})
    wait_for(10)
    world.put(name, given | {"last": "20"})
    wait_for(20)
    logins.take_rights(ids)
    world.put(name, given | {"last": "30"})
    yield
    logins.set_rights(ids)
    world.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    wait_for(30)
    logins.take_rights([*ids, *kept])
    world.delete(name)


# --- plugins ---


def many_connectors(count: int) -> Happens:
    """More than there are slots for. Deleted in the end."""

    @contextmanager
    def happens(world: World) -> Iterator[None]:
        names = [f"{world.name}-{number}" for number in range(count)]
        config = {"connector.class": "FileStreamSource", "file": str(world.rig.folder / "empty")}
        for name in names:
            world.put(name, config | {"topic": name})
        wait_until(
            lambda: all(map(_runs_or_says_why, world.statuses(names))),
            what=f"{count} connectors to run, or to say why not",
            timeout_s=_MANY_S,
            every_s=1,
        )
        yield
        world.delete(*names)

    return happens


def _runs_or_says_why(status: Any) -> bool:
    states = [(task["state"], task.get("trace", "")) for task in status["tasks"]]
    return bool(states) and all(
        state == "RUNNING" or (state == "UNASSIGNED" and "waits for a slot" in trace)
        for state, trace in states
    )


def connectors(**configs: Mapping[str, str]) -> Happens:
    """Connectors beside the pairs, deleted in the end. Their names end in what they are called."""

    @contextmanager
    def happens(world: World) -> Iterator[None]:
        given = {f"{world.name}-{name.replace('_', '-')}": c for name, c in configs.items()}
        for name, config in given.items():
            # what source or sink needs; each ignores what is the other's
            pair = world.subject
            world.put(
                name,
                {"file": f"{pair.infile}.{name}", "topic": name, "topics": pair.name, **config},
            )
        yield
        world.delete(*given)

    return happens
