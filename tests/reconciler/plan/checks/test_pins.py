"""Pins that cannot be applied, whatever the cluster holds."""

from __future__ import annotations

import pytest

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned
from connect_reconciler.model.ledger_records import pin_record
from connect_reconciler.model.live import Live, LiveConnector, LogRange, TopicLogs
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    TargetState,
    content_hash,
)
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


SINK = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}
AT = (OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 30}),)
STOPPED = TargetState.STOPPED


def test_recorded_offsets_of_another_kind_of_connector_are_a_problem() -> None:
    """The trap: a held pin whose connector was a source when it was applied, and is a sink."""
    pin = Pin("p", to="earliest", where=Location("a.yaml", 7, 3))
    entries = (OffsetEntry({"filename": "/f"}, {"position": 3}),)
    applied = AppliedPin(content_hash(pin), entries, 1, held=True)
    ledger = LedgerState({"a": Owned("orders", {}, STOPPED)}, pins={("a", "p"): applied})
    sink = LiveConnector("a", "sink", SINK, STOPPED, Offsets(AT))
    logs = TopicLogs({("t", 0): LogRange(0, 100)}, {"t": 1})
    live = Live({"a": sink}, ledger=ledger, logs=logs, kinds={"FileStreamSink": "sink"})
    spec = DesiredConnector("a", SINK, Location("a.yaml", 1, 1), pin=pin, state=STOPPED)
    plan = make_plan(Desired("orders", {"a": spec}), live, group_id="g")
    (problem,) = plan.errors
    assert (problem.code, problem.where) == ("plan.no-partition", pin.where)
    assert problem.what.startswith("pin p of a: ")
    assert "/f" in problem.what
