"""The bookkeeping of a sink's offsets, and of records that are put again."""

from __future__ import annotations

import pytest
from confluent_kafka import Message

from connect_runtime.api import ConnectorError, SinkBatch, SinkRecord, TopicPartition
from connect_runtime.tasks.sink.offsets import PutBatch, SinkOffsets

A, B, FOREIGN = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def offsets() -> SinkOffsets:
    """A starts at 5, and 5 to 9 were put; B starts at 0, and nothing was."""
    made = SinkOffsets()
    made.gain({A: 5, B: 0})
    made.deliver({A: 10, FOREIGN: 3})
    return made


def test_the_start_position_is_not_committed(offsets: SinkOffsets) -> None:
    current = offsets.current([A, B])
    assert current == {A: 10, B: 0}
    assert offsets.committable(current, current) == {A: 10}
    assert offsets.base([A, B]) == {A: 5, B: 0}


@pytest.mark.parametrize(
    ("allowed", "committed"),
    [
        ({}, {}),
        ({A: 7}, {A: 7}),
        ({A: 11}, {}),
        ({FOREIGN: 1, A: 10}, {A: 10}),
        ({A: 5}, {}),
        ({A: 4}, {A: 4}),
        ({A: -1, B: -2}, {}),
    ],
)
def test_offsets_that_pre_commit_may_return(
    offsets: SinkOffsets,
    allowed: dict[TopicPartition, int],
    committed: dict[TopicPartition, int],
) -> None:
    assert offsets.committable(offsets.current([A, B]), allowed) == committed


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [({FOREIGN: 1}, "not assigned"), ({A: -1}, "negative"), ({A: 11}, "not delivered yet")],
)
def test_why_an_offset_is_not_committed_is_logged(
    offsets: SinkOffsets,
    caplog: pytest.LogCaptureFixture,
    allowed: dict[TopicPartition, int],
    reason: str,
) -> None:
    # tests of other files change the levels of loggers
    caplog.set_level("WARNING", "connect_runtime.tasks.sink.offsets")
    offsets.committable(offsets.current([A, B]), allowed)
    assert reason in caplog.text


def test_a_task_that_keeps_its_offsets_itself_has_none_uncommitted(offsets: SinkOffsets) -> None:
    assert offsets.uncommitted == 5
    offsets.flushed({A: 10, B: 0}, {})
    assert offsets.uncommitted == 0
    offsets.deliver({A: 12, B: 3})
    assert offsets.uncommitted == 5


def test_a_task_that_lets_offsets_be_committed_has_the_others_uncommitted(
    offsets: SinkOffsets,
) -> None:
    """Such as one that flushes whole files: with none complete, it allows no offset."""
    offsets.flushed({A: 10, B: 0}, {A: 7})
    offsets.sent({A: 7}, 0.0)
    offsets.answered({A: 7}, {A})
    assert offsets.uncommitted == 3
    offsets.flushed({A: 10, B: 0}, {})
    assert offsets.uncommitted == 3


def test_an_answer_moves_the_base_of_what_was_accepted(offsets: SinkOffsets) -> None:
    offsets.deliver({B: 2})
    offsets.sent({A: 10, B: 2}, 0)
    assert offsets.in_flight
    offsets.answered({A: 10, B: 2}, {A})
    assert not offsets.in_flight
    assert offsets.base([A, B]) == {A: 10, B: 0}


def test_a_late_answer_changes_nothing(offsets: SinkOffsets) -> None:
    offsets.sent({A: 8}, 0)
    assert not offsets.is_overdue(5, 5)
    assert offsets.is_overdue(5.1, 5)
    assert not offsets.in_flight
    offsets.sent({A: 10}, 6)
    offsets.answered({A: 8}, {A})
    assert offsets.in_flight
    assert offsets.base([A]) == {A: 5}


def test_an_answer_after_a_rewind_does_not_move_the_base(offsets: SinkOffsets) -> None:
    offsets.sent({A: 10}, 0)
    offsets.request_rewinds({A: 5})
    offsets.take_rewinds([A])
    offsets.answered({A: 10}, {A})
    assert offsets.base([A]) == {A: 5}


def test_the_answer_for_a_partition_that_is_gone_is_ignored(offsets: SinkOffsets) -> None:
    offsets.sent({A: 10}, 0)
    offsets.lose([A])
    assert not offsets.in_flight
    offsets.gain({A: 7})
    offsets.answered({A: 10}, {A})
    assert offsets.base([A]) == {A: 7}


def test_going_on_elsewhere_keeps_the_base_of_what_is_not_committed(offsets: SinkOffsets) -> None:
    offsets.request_rewinds({A: 100, B: 100, FOREIGN: 100})
    offsets.take_rewinds([A, B, FOREIGN])
    assert offsets.current([A, B, FOREIGN]) == {A: 100, B: 100}
    assert offsets.base([A, B]) == {A: 5, B: 100}


def test_nothing_beyond_a_rewind_is_committed_before_it(offsets: SinkOffsets) -> None:
    offsets.request_rewinds({A: 7})
    assert offsets.current([A]) == {A: 7}
    offsets.rewind([A])
    assert offsets.current([A]) == {A: 5}
    assert offsets.take_rewinds([A]) == {A: 5}
    assert offsets.take_rewinds([A]) == {}


@pytest.mark.parametrize("offset", [-1, -2, -1001])
def test_a_negative_offset_is_no_place_to_read_on(offsets: SinkOffsets, offset: int) -> None:
    """To Kafka's client, -1 is the end of the partition: records would be passed over."""
    with pytest.raises(ConnectorError, match=f"must not be a negative number: {offset} of t-0"):
        offsets.request_rewinds({B: 1, A: offset})
    assert offsets.take_rewinds([A, B]) == {}


def test_a_rewind_goes_with_its_partition(offsets: SinkOffsets) -> None:
    offsets.request_rewinds({A: 7})
    offsets.lose([A])
    offsets.gain({A: 20})
    assert offsets.take_rewinds([A]) == {}


def test_pending_records_go_together_with_their_position() -> None:
    pending = _pending({A: 2, B: 8}, _record(A, 1), _record(B, 7))
    left = pending.without([A])
    assert [(r.partition, r.offset) for r in left.records] == [(1, 7)]
    assert left.positions == {B: 8}


def test_pending_records_go_by_the_partition_that_they_were_read_from() -> None:
    moved = SinkRecord("elsewhere", 9, 1, "value", consumed=Message(*A, 1, b"key", b"value"))

    left = _pending({A: 2, B: 8}, moved, _record(B, 7)).without([A])

    assert [r.offset for r in left.records] == [7]


def test_later_records_follow_pending_ones() -> None:
    pending = _pending({A: 2}, _record(A, 1))
    assert pending.then(_pending({})) is pending
    both = pending.then(_pending({A: 3}, _record(A, 2)))
    assert both.records.offsets == [1, 2]
    assert both.positions == {A: 3}


def _pending(positions: dict[TopicPartition, int], *records: SinkRecord) -> PutBatch:
    return PutBatch(SinkBatch.of(records), positions)


def _record(partition: TopicPartition, offset: int) -> SinkRecord:
    return SinkRecord(*partition, offset, b"value")
