"""The assignments topic: what a task is told, and attempts that are never forgotten."""

import logging

import pytest

from connect_runtime.storage.assignments_topic import assignment_record, reduce_all
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import Assignment, AssignmentSnapshot, TaskId
from connect_specs.desired import TargetState

TASK = TaskId("a-b", 3)
FIRST = Assignment(attempt=4, leader="http://one:8083", state=TargetState.RUNNING, generation=2)


def fold(*assignments: Assignment | None) -> AssignmentSnapshot:
    written = (assignment_record("t", TASK, each) for each in assignments)
    records = (LogRecord("t", 0, at, 0, new.key, new.value) for at, new in enumerate(written))
    return reduce_all(AssignmentSnapshot(), records)


def test_the_format() -> None:
    new = assignment_record("t", TASK, FIRST)
    assert new.key == b"a-b-3"
    assert new.value == (
        b'{"attempt":4,"leader":"http://one:8083","state":"running","generation":2}'
    )
    assert assignment_record("t", TASK, None).value is None


def test_the_newest_record_counts_and_attempts_outlive_a_stop() -> None:
    assert fold(FIRST) == AssignmentSnapshot({TASK: FIRST}, {TASK: 4}, 1)
    assert fold(FIRST, None) == AssignmentSnapshot({}, {TASK: 4}, 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"a", None),
        (None, None),
        (b"a-0", b"hunter2"),
        (b"a-0", b'{"attempt":1}'),
        (b"a-0", b'{"attempt":1,"leader":"x","state":"hunter2","generation":0}'),
        (b"a-0", b"[]"),
    ],
)
def test_a_malformed_record_moves_the_offset_only(
    key: bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        after = reduce_all(fold(FIRST), (LogRecord("t", 0, 9, 0, key, value),))
    assert after == AssignmentSnapshot({TASK: FIRST}, {TASK: 4}, 10)
    assert len(caplog.records) == 1
    assert "hunter2" not in caplog.text
