"""What happens to a runtime under load, and what everybody sees of it: one row for each fault.

A source loses nothing and repeats nothing for readers of what is committed; a sink loses nothing;
connectors that a fault does not concern move on while it lasts, and all move again soon after it.
Each row leaves broker and runtimes as they are to be for the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from support import faults
from support.faults import Happens
from support.spark_cluster import spark_cluster
from support.unruly import SINK, SOURCE
from support.world import MAY_MOUNT, World, new_world

pytestmark = pytest.mark.long

SILENT = 0  # no answer of GET /health in time
HEALTHY = frozenset({200})
UNHEALTHY = HEALTHY | {500}
GONE = frozenset({SILENT})
STATES_S = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """`happens` for `lasts_s`. Meanwhile GET /health of the runtime that led answers one of
    `health`, the `bystander` moves on or not, and connectors come to `states` (their own and their
    tasks'); `in` and `out` are the subject's source and sink. `back_s` after it all move again. The
    runtimes log `logs_kb` at most. `mounts`: it needs the right to mount a disk. `cluster`: tasks
    run on a Spark cluster."""

    name: str
    happens: Happens
    lasts_s: float = 10
    health: frozenset[int] = HEALTHY
    bystander: bool = True
    states: Mapping[str, str] = field(default_factory=dict)
    back_s: float = 60
    logs_kb: int = 200
    mounts: bool = False
    cluster: bool = False


def _source(where: str, how: str) -> Mapping[str, str]:
    return {"connector.class": SOURCE, "where": where, "how": how}


def _sink(where: str, how: str) -> Mapping[str, str]:
    return {"connector.class": SINK, "where": where, "how": how}


# What misbehaves is one of several connectors beside the pairs
HANGS = faults.connectors(
    start=_source("start", "hangs"),
    configs=_source("task_configs", "hangs"),
    task=_source("task.start", "hangs"),
    poll=_source("task.poll", "hangs"),
    put=_sink("task.put", "hangs"),
)
THROWS = faults.connectors(
    start=_source("start", "throws"),
    configs=_source("task_configs", "throws"),
    task=_source("task.start", "throws"),
    poll=_source("task.poll", "throws"),
    put=_sink("task.put", "throws"),
    exits=_source("task.poll", "exits"),
    memory=_source("task.poll", "takes all memory"),
    put_memory=_sink("task.put", "takes all memory"),
)
WRONG = faults.connectors(
    configs=_source("task_configs", "answers a number"),
    poll=_source("task.poll", "answers a number"),
)
HANGING = {
    "start": "",
    "configs": "",
    "task": "RUNNING",
    "poll": "RUNNING/RUNNING",
    "put": "RUNNING/RUNNING",
}
FAILED = {
    "start": "FAILED",
    "configs": "FAILED",
    "task": "RUNNING/FAILED",
    "poll": "RUNNING/FAILED",
    "put": "RUNNING/FAILED",
    "exits": "RUNNING/FAILED",
    "memory": "RUNNING/FAILED",
    "put-memory": "RUNNING/FAILED",
}
FAULTS = (
    # Spark and its processes
    Fault("jvm-killed", faults.jvm_killed, health=UNHEALTHY, bystander=False),
    Fault("jvm-frozen", faults.jvm_frozen, 20, health=UNHEALTHY),
    Fault("daemon-killed", faults.spark_daemon_killed, bystander=False),
    Fault("node-server-killed", faults.node_server_killed),
    Fault("node-server-frozen", faults.node_server_frozen),
    Fault("source-killed", faults.task_killed(lambda pair: pair.source), 5),
    Fault("sink-killed", faults.task_killed(lambda pair: pair.sink), 5),
    Fault("source-frozen-in-a-transaction", faults.source_frozen_in_a_transaction),
    Fault("sink-frozen", faults.sink_frozen),
    # Kafka
    Fault("broker-frozen-15-s", faults.broker_frozen, 15, health=UNHEALTHY, bystander=False),
    Fault("broker-frozen-70-s", faults.broker_frozen, 70, health=UNHEALTHY, bystander=False),
    Fault("broker-killed-10-s", faults.broker_killed, 10, health=UNHEALTHY, bystander=False),
    Fault("broker-killed-90-s", faults.broker_killed, 90, health=UNHEALTHY, bystander=False),
    Fault("coordinators-away", faults.coordinators_away, 30, health=UNHEALTHY, bystander=False),
    Fault("other-cluster-frozen", faults.other_cluster_frozen, 70),
    Fault("rebalance-during-a-retry", faults.rebalance_during_a_retry, 5),
    # the connector with its own login
    Fault("rights-taken", faults.rights_taken, states={"login": "FAILED/UNASSIGNED/UNASSIGNED"}),
    # the leader, with a standby
    Fault("leader-killed", faults.leader_killed, health=GONE),
    Fault("leader-frozen", faults.leader_frozen, 20, health=GONE),
    Fault("leader-and-tasks-frozen", faults.leader_all_frozen, 75, health=GONE),
    Fault("leader-cut-off", faults.leader_cut_off, 30, health=UNHEALTHY),
    Fault("leader-host-frozen", faults.leader_host_frozen, 10, health=GONE, cluster=True),
    Fault("leader-cut-off-on-a-cluster", faults.leader_cut_off, 30, health=UNHEALTHY, cluster=True),
    Fault(
        "leader-and-only-worker-killed",
        faults.leader_and_only_worker_killed,
        health=GONE,
        bystander=False,
        cluster=True,
    ),
    # disks
    Fault("sinks-disk-full", faults.sinks_disk_full, states={"out": "RUNNING/FAILED"}),
    Fault("leaders-disk-full", faults.leaders_disk_full, 15, mounts=True),
    Fault(
        "jvm-killed-on-a-full-disk",
        faults.jvm_killed_on_a_full_disk,
        15,
        health=UNHEALTHY,
        bystander=False,
        mounts=True,
    ),
    # plugins, and many of them
    Fault("plugins-hang", HANGS, 15, states=HANGING),
    # who throws when asked for task configs is asked again and again
    Fault("plugins-throw", THROWS, 5, states=FAILED | {"configs": "RUNNING"}),
    Fault("plugins-answer-nonsense", WRONG, states={k: FAILED[k] for k in ("configs", "poll")}),
    Fault("300-connectors", faults.many_connectors(300), logs_kb=500),
)


def _row(fault: Fault) -> object:
    needs = pytest.mark.skipif(not MAY_MOUNT, reason="mounts a disk to fill it")
    marks = [needs] if fault.mounts else []
    return pytest.param(fault.cluster, fault, id=fault.name, marks=marks)


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[World]:
    """One for all rows, and another one, on a Spark cluster, for those that need it."""
    with ExitStack() as stack:
        cluster = None
        if request.param:
            cluster = stack.enter_context(spark_cluster(tmp_path_factory.mktemp("spark")))
        yield stack.enter_context(new_world(tmp_path_factory.mktemp("world"), cluster))


@pytest.mark.parametrize(
    ("world", "fault"), [_row(each) for each in FAULTS], indirect=["world"], scope="module"
)
def test_fault(fault: Fault, world: World, record_property: Callable[[str, object], None]) -> None:
    with world.load(fault.name):
        leader, logged = world.leader, world.logged
        with fault.happens(world):
            if fault.bystander:
                world.bystander.wait_until_moving(STATES_S)
            seen = world.watch(leader, fault.lasts_s)
            world.wait_for_states(fault.states, STATES_S)
            if fault.bystander:
                world.bystander.wait_until_moving(STATES_S)
        began = time.monotonic()
        for pair in (world.subject, world.bystander):
            pair.wait_until_moving(fault.back_s)
        record_property("moves_again_after_s", round(time.monotonic() - began, 1))
        record_property("health", sorted(seen))
        record_property("logged_kb", (world.logged - logged) // 1024)
        assert seen <= fault.health
        assert world.logged - logged < fault.logs_kb * 1024
        for pair in (world.subject, world.bystander):
            pair.check()
            for name in (pair.source, pair.sink):
                assert world.state_of(name) == "RUNNING/RUNNING"
        assert world.health(world.leader) == 200
        world.assert_alive()
