"""A source task is told of a record only when it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import SourceRecord, SourceTask
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.source.offsets import TaskOffsets, Uncommitted


class Told(SourceTask):
    """Notes what it is told of."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> None: ...

    def stop(self) -> None: ...

    def commit_record(self, record: SourceRecord) -> None:
        self.told.append(record.value)


def _records(*values: int) -> list[SourceRecord]:
    return [SourceRecord({"p": 0}, {"n": value}, "t", value) for value in values]


def test_a_record_without_an_offset_hides_none_before_it() -> None:
    uncommitted = Uncommitted("c-0", Told(), TaskOffsets("c", "offsets", OffsetSnapshot()), str)
    uncommitted.add([*_records(1, 2), SourceRecord({"p": 0}, None, "t", "heartbeat")])
    (record,) = uncommitted.offsets(ask_task=False)
    assert record.value == b'{"n":2}'


def test_a_partition_keeps_the_spelling_that_its_offset_is_stored_under() -> None:
    """A connector written in another language, or another version of it, orders fields its way."""
    key = b'["c", {"b": 1, "a": 0}]'
    stored = LogRecord("offsets", 0, 0, 0, key, b'{"n":1}')
    offsets = TaskOffsets("c", "offsets", reduce_all(OffsetSnapshot(), (stored,)))
    assert offsets.offset({"a": 0, "b": 1}) == {"n": 1}
    (record,) = offsets.records([({"a": 0, "b": 1}, {"n": 2})])
    assert record.key == key
    offsets.committed([record])
    assert offsets.offset({"a": 0, "b": 1}) == {"n": 2}


def test_records_sent_after_a_commit_wait_for_the_next_one() -> None:
    task = Told()
    uncommitted = Uncommitted("c-0", task, TaskOffsets("c", "offsets", OffsetSnapshot()), str)
    # 3 was being converted while the timer committed 1 and 2
    uncommitted.add(_records(1, 2))
    uncommitted.committed(uncommitted.offsets(ask_task=False))
    uncommitted.add(_records(3))
    uncommitted.run_commit_hooks()
    assert task.told == [1, 2]
    uncommitted.run_commit_hooks()
    uncommitted.committed(uncommitted.offsets(ask_task=False))
    uncommitted.run_commit_hooks()
    assert task.told == [1, 2, 3]


def test_records_of_an_aborted_transaction_are_not_told() -> None:
    task = Told()
    uncommitted = Uncommitted("c-0", task, TaskOffsets("c", "offsets", OffsetSnapshot()), str)
    uncommitted.topics.add("t")
    uncommitted.add(_records(1, 2))
    uncommitted.aborted()
    # the offsets after them are committed all the same, so that they are not polled again
    (offset,) = uncommitted.offsets(ask_task=False)
    assert offset.value == b'{"n":2}'
    assert uncommitted.topics == set()
    uncommitted.committed([offset])
    uncommitted.add(_records(3))
    uncommitted.committed(uncommitted.offsets(ask_task=False))
    uncommitted.run_commit_hooks()
    assert task.told == [3]
