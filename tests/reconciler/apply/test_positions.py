"""`to: latest` as it is applied: as the numbers of its plan, recorded, and once."""

from __future__ import annotations

from connect_reconciler.plan.live import LogRange
from connect_specs.desired import DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.fake_cluster import FakeCluster


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
