"""Two hundred kills of tasks, each at a moment that is observed with the task frozen.

The sources keep their offsets in the worker's topic or in one of their own, with and without
transformations.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from support.processes import Process, frozen, kill
from support.rig import TRANSFORMED, count_of
from support.wait import wait_until
from support.world import Pair, World, new_world

pytestmark = pytest.mark.long

KILLS: Final = 200
BACK_S: Final = 90
MOMENT_S: Final = 90
# 500 lines a second for each pair
LINES_EVERY_S: Final = 0.2
SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "plain": {},
    "transformed": TRANSFORMED,
    "own-offsets": {"offsets.storage.topic": "own-offsets-topic"},
    "own-offsets-transformed": {"offsets.storage.topic": "own-offsets-topic"} | TRANSFORMED,
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with new_world(tmp_path) as made:
        made.name = "kills"
        yield made


def _kill_when(processes: Sequence[Process], holds: Callable[[], bool]) -> int:
    """Kills them at a moment at which `holds` is true of them, frozen; returns how many."""

    def killed() -> bool:
        with frozen(processes):
            held = holds()
            if held:
                kill(*processes)
        return held

    wait_until(killed, what="the moment to kill at", timeout_s=MOMENT_S, every_s=0.01)
    return len(processes)


def _in_transaction(world: World, pair: Pair) -> Callable[[], bool]:
    ends = world.ends
    return lambda: any(ends.stable(pair.name, at) < ends.high(pair.name, at) for at in (0, 1))


def _sink_ahead(world: World, pair: Pair) -> Callable[[], bool]:
    """It has written lines since its group's last commit. Offsets count markers of transactions,
    too, so they are not compared with lines."""
    ends, group = world.ends, f"connect-{pair.sink}"
    commit, lines_then = -1, 0

    def is_ahead() -> bool:
        nonlocal commit, lines_then
        committed = sum(ends.committed(group, pair.name, at) for at in (0, 1))
        lines = count_of(pair.files[-1])
        if committed != commit:
            commit, lines_then = committed, lines
        return lines > lines_then

    return is_ahead


def source_in_a_transaction(world: World, pair: Pair) -> int:
    return _kill_when([world.task_of(pair.source)], _in_transaction(world, pair))


def sink_before_its_commit(world: World, pair: Pair) -> int:
    return _kill_when([world.task_of(pair.sink)], _sink_ahead(world, pair))


def both_in_a_transaction(world: World, pair: Pair) -> int:
    both = [world.task_of(name) for name in (pair.source, pair.sink)]
    return _kill_when(both, _in_transaction(world, pair))


def source_that_starts(world: World, pair: Pair) -> int:
    """Its process is there, and has not opened the connector's file."""
    before = {each.pid for each in world.tasks}
    world.ask("POST", f"/connectors/{pair.source}/restart?includeTasks=true")
    (started,) = wait_until(
        lambda: [each for each in world.tasks if each.pid not in before],
        what="a process of the source",
        timeout_s=MOMENT_S,
        every_s=0.001,
    )
    kill(started)
    return 1


MOMENTS: Final = (
    source_in_a_transaction,
    sink_before_its_commit,
    both_in_a_transaction,
    source_that_starts,
)


def test_nothing_is_lost_or_doubled_by_200_kills(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    kills: Counter[str] = Counter()
    slowest_s = 0.0
    with ExitStack() as stack:
        pairs = []
        for name, config in SOURCES.items():
            pair = world.pair(name, stack, every_s=LINES_EVERY_S)
            pair.config = config
            world.subject = world.bystander = pair
            pair.start()
            pairs.append(pair)
        number = 0
        while kills.total() < KILLS:
            pair = pairs[number % len(pairs)]
            moment = MOMENTS[number // len(pairs) % len(MOMENTS)]
            world.subject = world.bystander = pair
            kills[moment.__name__] += moment(world, pair)
            began = time.monotonic()
            pair.wait_until_moving(BACK_S)
            slowest_s = max(slowest_s, time.monotonic() - began)
            number += 1
        for pair in pairs:
            pair.check()
    world.assert_alive()
    record_property("kills", dict(kills))
    record_property("slowest_s", round(slowest_s, 1))
    assert min(kills[moment.__name__] for moment in MOMENTS) >= KILLS // 8
