"""Offsets by partition: what is equal, what a change does, and which pins are still in place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.model.ledger import AppliedPin
from connect_reconciler.model.live import Live, LogRange, TopicLogs
from connect_reconciler.model.offsets import Offsets, same_offset
from connect_specs.desired import JsonScalar, OffsetEntry, sink_entry

A, B = {"table": "a"}, {"table": "b"}


def _entry(partition: dict[str, str], value: JsonScalar) -> OffsetEntry:
    return OffsetEntry(partition, None if value is None else {"at": value})


@pytest.mark.parametrize(
    ("resolved", "now", "drifted"),
    [
        ([_entry(A, 5)], [_entry(A, 5)], False),
        ([_entry(A, 5)], [_entry(A, 5.0)], False),
        ([_entry(A, 5)], [_entry(A, 6)], True),
        ([_entry(A, 5)], [_entry(A, "5")], True),
        ([_entry(A, 1)], [_entry(A, True)], True),
        ([_entry(A, 1 << 60)], [_entry(A, (1 << 60) + 1)], True),
        ([_entry(A, 5)], [], True),
        ([_entry(A, 5)], [_entry(A, None)], True),
        ([_entry(A, 5)], [_entry(B, 9), _entry(A, 5)], False),
        ([_entry(A, None)], [], False),
        ([_entry(A, None)], [_entry(A, 1)], True),
        (None, [], False),
        (None, [_entry(A, None)], False),
        (None, [_entry(A, 1)], True),
    ],
)
def test_a_pin_is_in_place_while_its_partitions_have_its_offsets(
    resolved: list[OffsetEntry] | None, now: list[OffsetEntry], drifted: bool
) -> None:
    pin = AppliedPin("hash", None if resolved is None else tuple(resolved), held=True)
    assert bool(pin.moved(Offsets(now))) is drifted


def test_neither_order_nor_partitions_without_an_offset_count() -> None:
    first, second = OffsetEntry({"x": 1, "y": "2"}, {"at": 1}), _entry(A, 2)
    turned = OffsetEntry({"y": "2", "x": 1}, {"at": 1.0})
    assert Offsets((first, second)) == Offsets((second, _entry(B, None), turned))
    assert Offsets((first,)) != Offsets((first, second))
    assert Offsets((first, second)) != Offsets((first,))


@pytest.mark.parametrize("other", [1.0, "1", True])
def test_partitions_differ_by_the_types_of_their_values(other: JsonScalar) -> None:
    offsets = Offsets((OffsetEntry({"p": 1}, {"at": 7}),))
    assert {"p": 1} in offsets
    assert {"p": other} not in offsets
    assert offsets.at({"p": other}) is None
    assert len(offsets.differences(Offsets((OffsetEntry({"p": other}, {"at": 7}),)))) == 2


def test_an_offset_has_the_same_fields_and_values() -> None:
    assert same_offset({"a": 1, "b": None}, {"b": None, "a": 1.0})
    assert same_offset(None, None)
    assert not same_offset({}, None)
    assert not same_offset({"a": 1, "b": None}, {"a": 1})


def test_changes_set_and_remove_offsets() -> None:
    offsets = Offsets((sink_entry(("t", 0), 5), sink_entry(("t", 1), 6)))
    moved = offsets.after((sink_entry(("t", 1), 7), sink_entry(("t", 2), 8)))
    assert moved == Offsets(
        sink_entry(("t", number), number + 5 + bool(number)) for number in range(3)
    )
    assert moved.after(moved.removed()) == Offsets()
    assert moved.hold(moved)
    assert moved.hold((OffsetEntry({"kafka_topic": "u", "kafka_partition": 0}, None),))
    assert not moved.hold(moved.removed())
    assert offsets == Offsets((sink_entry(("t", 0), 5), sink_entry(("t", 1), 6)))


def test_a_connector_has_the_logs_of_the_cluster_that_it_works_on() -> None:
    here = TopicLogs({("t", 0): LogRange(0, 5)})
    there = TopicLogs({("t", 0): LogRange(3, 9)})
    live = Live(logs=here, logs_elsewhere={"away": there, "lost": there})
    assert live.logs_of("near") == here
    assert live.logs_of("away") == there
    unread = replace(live, unread_offsets={"lost": "Connection refused"})
    assert unread.logs_of("lost") == TopicLogs(complete=False)
    assert replace(live, rest_alone=True).logs_of("near") == replace(here, complete=False)
