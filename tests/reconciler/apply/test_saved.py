"""A plan that was saved, and applied when the connector had gone on."""

from __future__ import annotations

from connect_reconciler.actions import AlterOffsets, ResetOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import LogRange
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.plan_sources import planned_again

SINK = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
BACK = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3})


def pinned(pin: Pin | None) -> Desired:
    return desired_of(DesiredConnector("a", SINK, Location("a.yaml"), None, pin))


def again(plan: Plan) -> int:
    """How many offsets it delivers again, in all."""
    moves = [
        move
        for action in plan.actions
        if isinstance(action, AlterOffsets | ResetOffsets)
        for move in action.moves
    ]
    assert moves
    return sum(move.counts.redelivered for move in moves if move.counts is not None)


def test_a_rewind_is_counted_from_where_the_connector_is_now() -> None:
    """Else a policy on how much may be delivered again would be asked about old numbers."""
    for pin, counts in ((Pin("p", (BACK,)), (2, 87)), (Pin("p", reset=True), (5, 90))):
        world = Applying(key=b"key")
        world.kafka.create_topics()
        world.kafka.ranges["t", 0] = LogRange(0, 100)
        assert world.apply(pinned(None)).exit_code == 0
        world.kafka.groups["connect-a"] = {("t", 0): 5}
        wanted = pinned(pin)
        saved = load_plan(dump_plan(world.plan(wanted)))
        assert again(saved) == counts[0]
        world.kafka.groups["connect-a"] = {("t", 0): 90}
        now = planned_again(saved, wanted, world.observe(wanted))
        assert again(now) == counts[1]
        assert now == world.plan(wanted)
        assert world.apply(wanted, now).exit_code == 0
