"""Pins that cannot be applied, whatever the cluster holds."""

from __future__ import annotations

import pytest

from connect_reconciler.ledger.records import pin_record
from connect_reconciler.model.actions import AlterOffsets
from connect_reconciler.model.ledger import AppliedPin
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location

# What Kafka's clients send at most by default (message.max.bytes)
RECORD_BYTES = 1_000_000
PARTITION = {"filename": "/a/folder/of/files/with/a/long/name/{:08}"}


def plan_of(pin: Pin) -> tuple[list[str], list[type]]:
    config = {"name": "a", "connector.class": "FileStreamSource", "topic": "t", "file": "/f"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1), pin=pin)
    kinds = Live(kinds={"FileStreamSource": "source"})
    plan = make_plan(Desired("orders", {"a": spec}), kinds, group_id="g")
    return [each.code for each in plan.errors], [type(each) for each in plan.actions]


@pytest.mark.parametrize(("partitions", "fits"), [(6_000, True), (10_000, False)])
def test_a_pin_fits_into_a_record_of_the_ledger(partitions: int, fits: bool) -> None:
    """The trap: offsets that are set and cannot be recorded leave a connector stopped for ever."""
    entries = tuple(
        OffsetEntry({"filename": PARTITION["filename"].format(at)}, {"position": at})
        for at in range(partitions)
    )
    record = pin_record("ledger", "a", "p", AppliedPin("hash", entries, 1))
    assert (len(record.value or b"") < RECORD_BYTES) is fits
    errors, actions = plan_of(Pin("p", entries))
    assert errors == ([] if fits else ["plan.pin-too-large"])
    assert (AlterOffsets in actions) is fits
