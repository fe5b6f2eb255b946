"""An apply and its rollback, over a fake cluster, as separate processes would run them."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.actions.plan import Plan
from connect_reconciler.backend.ledger import read_ledger
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import LogRange
from connect_reconciler.plan.rollback import (
    Rollback,
    rollback_of,
    rollback_plan,
    specs_to_observe,
)
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
SINK = {"connector.class": "FileStreamSink", "topics": "t"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "t"}


def at(offset: int) -> OffsetEntry:
    return OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": offset})


def spec(
    name: str,
    config: Mapping[str, str] = SINK,
    state: TargetState | None = None,
    pin: Pin | None = None,
    *,
    guard: bool = False,
    old: str | None = None,
) -> DesiredConnector:
    return DesiredConnector(
        name,
        {**config, "name": name},
        Location(f"{name}.yaml", 1, 1),
        state,
        pin,
        guard,
        renamed_from=old,
    )


def new_world() -> Applying:
    """A cluster with a topic, and a project with a key."""
    made = Applying(key=b"key")
    made.kafka.create_topics()
    made.kafka.ranges["t", 0] = LogRange(0, 100)
    return made


def ledger(world: Applying) -> LedgerSnapshot:
    return read_ledger(world.kafka.logs, TOPICS.ledger)


def apply(world: Applying, desired: Desired, plan: Plan | None = None) -> str:
    world.time.at += 10
    report = world.apply(desired, plan, cluster=FakeCluster(world.kafka))
    assert report.exit_code == 0, report
    return report.apply_id


def back(world: Applying, apply_id: str, files: Desired) -> tuple[Rollback, Plan]:
    found = ledger(world)
    before = found.snapshots(apply_id)
    live = world.observe(specs_to_observe(apply_id, before, files.project))
    times = found.rolled_back(apply_id)
    way = rollback_of(apply_id, before, found.later(apply_id), files, live, times=times)
    return way, rollback_plan(way, live, group_id=GROUP_ID, env=None)


def roll_back(world: Applying, apply_id: str, files: Desired) -> str:
    way, plan = back(world, apply_id, files)
    assert plan.errors == (), plan.errors
    return apply(world, way.desired, plan)


def picture(world: Applying, desired: Desired) -> object:
    """All that a rollback is to bring back."""
    live = world.observe(desired)
    return (
        {name: (c.config, c.target, c.offsets) for name, c in live.connectors.items()},
        {name: owned.prevent_delete for name, owned in live.ledger.connectors.items()},
    )
