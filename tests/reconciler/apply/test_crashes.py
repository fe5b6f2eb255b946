"""An apply that is killed at any point, and run again, ends where the specs want it.

The law, over generated clusters and specs: whichever call to cluster or ledger is the last one, and
whether it still took effect or not, the next applies converge, a recorded pin never moves offsets
again, and nothing runs on offsets that are moved but not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import Location
from support.crash_cases import SINK, SOURCE, Case, build, case, check_end, watched
from support.dooming import Doom
from support.examples import examples
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster

NAMES = ("a", "b/c")


def steps_of(cases: Sequence[Case]) -> int:
    """How many calls an undisturbed apply makes."""
    world, desired = build(cases)
    doom = Doom(0, before=True)
    assert not world.killed(desired, doom, watch=lambda cluster: watched(cluster, world, desired))
    check_end(world, desired, cases)
    return doom.calls


def kill_and_repeat(cases: Sequence[Case], at: int, *, before: bool, parallelism: int = 1) -> None:
    world, desired = build(cases)
    world.parallelism = parallelism
    doom = Doom(at, before=before)
    assert world.killed(desired, doom, watch=lambda cluster: watched(cluster, world, desired))
    again = watched(FakeCluster(world.kafka), world, desired)
    report = world.apply(desired, cluster=again)
    assert report.exit_code == 0, report
    check_end(world, desired, cases)


cases = st.tuples(*(case(name) for name in NAMES))


@given(cases, st.data())
@examples(60)
def test_a_killed_apply_converges(found: Sequence[Case], data: st.DataObject) -> None:
    """The journal: an apply is killed, and the next one finishes what it began."""
    calls = steps_of(found)
    at = data.draw(st.integers(1, calls), label="the last call")
    kill_and_repeat(found, at, before=data.draw(st.booleans(), label="before its effect"))


RICH = (
    Case(
        "a",
        ({**SINK, "file": "x"}, TargetState.PAUSED, True),
        DesiredConnector(
            name="a",
            config={**SINK, "file": "y", "name": "a"},
            where=Location("a.yaml", 1, 1),
            pin=Pin(
                "p",
                (OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),),
            ),
            prevent_delete=True,
        ),
    ),
    Case(
        "b",
        None,
        DesiredConnector(
            name="b",
            config={**SOURCE, "file": "y", "name": "b"},
            where=Location("b.yaml", 1, 1),
            pin=Pin("p", (OffsetEntry({"filename": "f"}, {"position": 7}),)),
        ),
    ),
    Case("gone", ({**SINK, "file": "x"}, TargetState.RUNNING, True), None),
)


@pytest.mark.parametrize("before", [True, False])
def test_every_point_of_a_rich_plan(before: bool) -> None:
    for at in range(1, steps_of(RICH) + 1):
        kill_and_repeat(RICH, at, before=before)


def named(case: Case, name: str) -> Case:
    assert case.spec is not None
    spec = replace(case.spec, name=name, config={**case.spec.config, "name": name})
    return Case(name, case.live, spec)


PEERS = tuple(named(case, f"{case.name}{n}") for case in RICH[:2] for n in range(3))


@pytest.mark.parametrize("before", [True, False])
def test_killed_with_several_connectors_under_way(before: bool) -> None:
    # What threads write at a time is one write, so there are fewer calls than one by one
    for at in range(1, steps_of(PEERS) // 3):
        kill_and_repeat(PEERS, at, before=before, parallelism=8)


def test_killed_twice_it_still_goes_back_to_where_it_was() -> None:
    world, desired = build(RICH)
    for at in (6, 3):
        assert world.killed(desired, Doom(at, before=False))
    assert world.apply(desired).exit_code == 0
    check_end(world, desired, RICH)


def test_a_hold_that_nobody_needs_any_more_is_lifted() -> None:
    """The spec drops its pin after the kill: the connector goes back all the same."""
    for at in range(1, 12):
        world, desired = build(RICH)
        assert world.killed(desired, Doom(at, before=False))
        spec = desired.connectors["a"]
        without = Desired("orders", {**desired.connectors, "a": replace(spec, pin=None)})
        assert world.apply(without).exit_code == 0
        assert world.observe(without).connectors["a"].target is TargetState.PAUSED


def test_group_ids_match() -> None:
    assert TOPICS.config.startswith(GROUP_ID)
