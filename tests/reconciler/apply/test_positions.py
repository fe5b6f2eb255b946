"""`to:` as it is applied: as the numbers of its plan, recorded, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.model.actions import Counts, ResetOffsets
from connect_reconciler.model.live import LogRange
from connect_reconciler.model.offsets import Offsets
from connect_specs.desired import DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location
from connect_specs.partitions import sink_entry
from connect_specs.states import TargetState
from support.applying import Applying, desired_of
from support.fake_cluster import FakeCluster

NOON = 1_795_262_400_000
HOUR = 3_600_000


def test_the_numbers_of_the_plan_are_applied_and_recorded() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.ranges |= {("t", 0): LogRange(0, 100), ("t", 1): LogRange(5, 5)}
    config = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1), pin=Pin("p", to="latest"))
    plan = world.plan(desired_of(spec))
    world.kafka.ranges["t", 0] = LogRange(0, 250)
    report = world.apply(desired_of(spec), plan, cluster=FakeCluster(world.kafka, runs_tasks=True))

    assert report.exit_code == 0
    assert world.kafka.groups["connect-a"] == {("t", 0): 100, ("t", 1): 5}
    assert world.ledger().pins["a", "p"].resolved == tuple(
        OffsetEntry({"kafka_topic": "t", "kafka_partition": number}, {"kafka_offset": offset})
        for number, offset in ((0, 100), (1, 5))
    )
    assert world.plan(desired_of(spec)).actions == ()


@pytest.mark.parametrize(
    ("to", "offset"), [("earliest", 0), ("latest", 4), (NOON, 1), (NOON + 1, 3), (NOON + HOUR, 4)]
)
def test_each_position_is_applied_as_the_offset_that_it_stands_for(
    to: str | int, offset: int
) -> None:
    """A time stands for the first record from then on, or the log's end where all are older."""
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.produce(("t", 0), NOON - HOUR, NOON, NOON, NOON + 1)
    config = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1), pin=Pin("p", to=to))
    report = world.apply(desired_of(spec), cluster=FakeCluster(world.kafka, runs_tasks=True))
    assert report.exit_code == 0
    assert world.kafka.groups["connect-a"] == {("t", 0): offset}
    world.kafka.produce(("t", 0), NOON + HOUR)
    assert world.plan(desired_of(spec)).actions == ()


def test_what_the_next_group_holds_is_seen_before_it_is_forgotten() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.ranges |= {("t", 0): LogRange(0, 100)}
    config = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1))
    assert world.apply(desired_of(spec)).exit_code == 0
    world.kafka.groups |= {"connect-a": {("t", 0): 90}, "used": {("t", 0): 70}}

    moved = replace(
        spec, config={**config, "consumer.override.group.id": "used"}, pin=Pin("p", reset=True)
    )
    plan = world.plan(desired_of(moved))
    reset = next(each for each in plan.actions if isinstance(each, ResetOffsets))
    assert [each.counts for each in reset.moves] == [Counts(again=70)]
    assert world.apply(desired_of(moved), plan).exit_code == 0
    assert world.kafka.groups == {"connect-a": {("t", 0): 90}}


def test_an_ignored_group_counts_under_the_new_name_too() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    config = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
    mine = {**config, "consumer.override.group.id": "mine"}
    FakeCluster(world.kafka).create("a", mine, TargetState.STOPPED)
    world.kafka.groups["mine"] = {("t", 0): 90}
    spec = DesiredConnector(
        "b",
        {**config, "name": "b"},
        Location("b.yaml", 1, 1),
        ignore=("config.consumer.override.*",),
        renamed_from="a",
    )
    assert world.observe(desired_of(spec)).orphan_offsets["b"] == Offsets(
        (sink_entry(("t", 0), 90),)
    )


def test_what_a_sink_left_as_a_source_is_seen_before_it_goes_on_there() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    source = {"connector.class": "FileStreamSource", "topic": "t", "file": "f", "name": "a"}
    sink = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
    place = Location("a.yaml", 1, 1)
    kept = OffsetEntry({"filename": "f"}, {"position": 5})
    pinned = DesiredConnector("a", source, place, pin=Pin("p", (kept,)))
    assert world.apply(desired_of(pinned)).exit_code == 0
    assert world.apply(desired_of(DesiredConnector("a", sink, place))).exit_code == 0
    again = world.observe(desired_of(DesiredConnector("a", source, place)))
    assert again.connectors["a"].offsets == Offsets()
    assert again.offsets_after_change == {"a": Offsets((kept,))}
