"""What happens to a runtime under load, and what everybody sees of it: one row for each fault.

A source loses nothing and repeats nothing for readers of what is committed; a sink loses nothing;
connectors that a fault does not concern move on while it lasts, and all move again soon after it.
Each row leaves broker and runtimes as they are to be for the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from support import faults
from support.faults import Happens
from support.unruly import SINK, SOURCE
from support.wait import wait_until
from support.world import World, new_world

HEALTHY = frozenset({200})
SILENT = 0  # no answer of GET /health in time
STATES_S = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """`happens` for `lasts_s`. Meanwhile GET /health of the runtime that led answers one of
    `health`, the `bystander` moves on or not, and connectors come to `states` (their own and their
    tasks'); `in` and `out` are the subject's source and sink. `back_s` after it all move again. The
    runtimes log `logs_kb` at most."""

    name: str
    happens: Happens
    lasts_s: float = 10
    health: frozenset[int] = HEALTHY
    bystander: bool = True
    states: Mapping[str, str] = field(default_factory=dict)
    back_s: float = 60
    logs_kb: int = 200
    quick: bool = False


def _source(where: str, how: str) -> Mapping[str, str]:
    return {"connector.class": SOURCE, "where": where, "how": how}


def _sink(where: str, how: str) -> Mapping[str, str]:
    return {"connector.class": SINK, "where": where, "how": how}


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
)
WRONG = faults.connectors(
    configs=_source("task_configs", "returns a number"),
    poll=_source("task.poll", "returns a number"),
)
FAULTS = (
    Fault(
        "jvm-killed", faults.jvm_killed, health=frozenset({200, 500}), bystander=False, quick=True
    ),
    Fault("source-killed", faults.task_killed(lambda pair: pair.source), lasts_s=5, quick=True),
    Fault("sink-killed", faults.task_killed(lambda pair: pair.sink), lasts_s=5),
    Fault(
        "broker-frozen-15-s",
        faults.broker_frozen,
        lasts_s=15,
        bystander=False,
    ),
    Fault("source-frozen-in-a-transaction", faults.source_frozen_in_a_transaction, lasts_s=75),
    Fault(
        "plugins-throw",
        THROWS,
        states={
            "start": "FAILED",
            "configs": "FAILED",
            "task": "RUNNING/FAILED",
            "poll": "RUNNING/FAILED",
            "put": "RUNNING/FAILED",
            "exits": "RUNNING/FAILED",
        },
    ),
)


def _row(fault: Fault) -> object:
    marks = () if fault.quick else (pytest.mark.chaos_long,)
    return pytest.param(fault, id=fault.name, marks=marks)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all rows."""
    with new_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.mark.parametrize("fault", [_row(each) for each in FAULTS])
def test_fault(fault: Fault, world: World, record_property: Callable[[str, object], None]) -> None:
    with world.load(fault.name):
        leader, logged = world.leader, world.logged
        with fault.happens(world):
            if fault.bystander:
                world.bystander.wait_until_moving(STATES_S)
            seen = world.watch(leader, fault.lasts_s)
            for name, state in fault.states.items():
                wait_until(
                    lambda name=name, state=state: world.state_of(world.named(name)) == state,
                    what=f"{name} to be {state}",
                    timeout_s=STATES_S,
                )
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
