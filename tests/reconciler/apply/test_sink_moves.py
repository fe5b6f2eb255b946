"""`to:` as it is applied: where it leads once the sink is stopped, as numbers, and once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from connect_reconciler.actions import AlterOffsets, Counts, Delete, ResetOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.report import Outcome
from connect_reconciler.apply.sink_moves import rights_to_move
from connect_reconciler.model.live import Live, LiveConnector, LogRange
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_runtime.kafka.client_checks import DELETE
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    Project,
    TargetState,
    sink_entry,
)
from connect_specs.diagnostics import Diagnostic, ExitCode, Location
from connect_specs.names import ClusterTopics
from support.applying import Applying, desired_of, names
from support.fake_cluster import FakeCluster

NOON = 1_795_262_400_000
HOUR = 3_600_000


CONFIG = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}


class Busy(FakeCluster):
    """While the sink stops, it commits once more, and more is written to its topic."""

    def set_target(self, name: str, target: TargetState) -> None:
        if target is TargetState.STOPPED:
            self.kafka.ranges["t", 0] = LogRange(20, 320)
            self.kafka.groups["connect-a"] = {("t", 0): 300}
        super().set_target(name, target)


def running(**more: Any) -> tuple[Applying, Desired]:
    """A sink that has read most of its topic, and the same with what its spec is to say."""
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.ranges["t", 0] = LogRange(0, 100)
    spec = DesiredConnector("a", CONFIG, Location("a.yaml", 1, 1))
    assert world.apply(desired_of(spec), cluster=FakeCluster(world.kafka)).exit_code == 0
    world.kafka.groups["connect-a"] = {("t", 0): 50}
    return world, desired_of(replace(spec, **more))


@pytest.mark.parametrize(("to", "offset"), [("earliest", 20), ("latest", 320)])
def test_a_place_is_looked_for_once_the_sink_is_stopped(
    to: Literal["earliest", "latest"], offset: int
) -> None:
    """The trap: the numbers of the plan, of which those of `latest` lie behind the sink by now:
    it would deliver again what was to be jumped over."""
    world, desired = running(pin=Pin("p", to=to))
    plan = load_plan(dump_plan(world.plan(desired)))
    report = world.apply(desired, plan, cluster=Busy(world.kafka, runs_tasks=True))
    assert report.exit_code == 0
    assert world.kafka.groups["connect-a"] == {("t", 0): offset}
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": offset})
    assert world.ledger().pins["a", "p"].resolved == (entry,)
    assert world.plan(desired).actions == ()


def test_what_a_policy_denies_once_it_is_stopped_is_not_moved() -> None:
    """The estimate was allowed. The sink runs again, from where it was."""
    world, desired = running(pin=Pin("p", to="earliest"))
    judged: list[AlterOffsets] = []

    def denials(action: AlterOffsets) -> tuple[Diagnostic, ...]:
        judged.append(action)
        return (Diagnostic("policy.deny", "a: more than 100", why="policy few"),)

    world.denials = denials
    report = world.apply(desired, cluster=Busy(world.kafka, runs_tasks=True))
    assert [each.counts for move in judged for each in move.moves] == [Counts(redelivered=280)]
    assert report.exit_code is ExitCode.FAILED
    (of_a,) = report.connectors
    assert [each.outcome for each in of_a.results] == [Outcome.DONE, Outcome.FAILED, Outcome.DONE]
    assert of_a.results[1].detail == (
        "once it was stopped, pin p redelivers 280 offsets and jumps over 0: a: more than 100"
        " (policy few)"
    )
    assert of_a.left == "running"
    assert world.kafka.groups["connect-a"] == {("t", 0): 300}
    assert world.observe(desired).connectors["a"].target is TargetState.RUNNING
    assert world.ledger().restore_to("a") is None
    assert world.ledger().pins == {}
    assert names(world.plan(desired)) == ["Stop a", "AlterOffsets a", "Resume a"]


def test_a_config_that_was_written_for_a_refused_move_does_not_run() -> None:
    """It may be meant for the offsets that it did not get."""
    world, desired = running(pin=Pin("p", to="earliest"), config={**CONFIG, "file": "other"})
    world.denials = lambda action: (Diagnostic("policy.deny", "no"),)
    (report,) = world.apply(desired, cluster=Busy(world.kafka, runs_tasks=True)).connectors
    assert report.left == "stopped; the next apply brings it back to running"


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
    assert [each.counts for each in reset.moves] == [Counts(redelivered=70)]
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


# --- rights that a plan needs ---

RIGHTS_PROJECT = Project("p", Path("connect.yaml"), "g", ClusterTopics.of("g"), {}, None, {}, ())
RENAMING = Plan("p", "g", "c", 0, (Delete(connector="old", renamed_to="new", reset_offsets=True),))
OLD = LiveConnector("old", "sink", {"name": "old", "topics": "t"}, TargetState.STOPPED)


def test_the_old_sinks_group_is_deleted() -> None:
    live = Live(connectors={"old": OLD})
    assert rights_to_move(RENAMING, Desired("p", {}), live, RIGHTS_PROJECT) == (
        {},
        {"connect-old": (DELETE,)},
    )


def test_an_old_sink_that_is_gone_already_needs_no_right() -> None:
    assert rights_to_move(RENAMING, Desired("p", {}), Live(), RIGHTS_PROJECT) == ({}, {})
