"""What is kept of a topic between two reads, if the topic changes in the meantime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from connect_runtime.node import reads
from connect_runtime.node.door import ReadOffsets
from connect_runtime.node.reads import Reads
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.offsets_topic import changed_connector
from connect_runtime.storage.served_messages import records_of


@dataclass(slots=True)
class Topic:
    """Its records, and the epoch of its leader. `left` is what a new leader has of it, to which it
    moves during a read."""

    records: list[bytes]
    epoch: int = 0
    left: list[bytes] | None = None
    closed: list[Reader] = field(default_factory=list)

    def identity(self, _: str) -> str:
        return "id"

    def reader(self, _: str) -> Reader:
        return Reader(self, self.epoch)


@dataclass(slots=True)
class Reader:
    """Like a consumer, it does not read what is written below its position."""

    topic: Topic
    epoch: int
    at: int = 0

    @property
    def led_anew(self) -> bool:
        return self.topic.epoch != self.epoch

    def read_to_end(self, _: float) -> Sequence[LogRecord]:
        if self.topic.left is not None:
            self.topic.records, self.topic.left = self.topic.left, None
            self.topic.epoch += 1
        values = self.topic.records
        first, self.at = self.at, max(self.at, len(values))
        return [LogRecord("t", 0, i, 0, b'["a",{}]', values[i]) for i in range(first, len(values))]

    def close(self) -> None:
        self.topic.closed.append(self)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic([b'{"n":%d}' % number for number in range(9)])
    monkeypatch.setattr(reads, "KafkaLogs", lambda _: topic)
    return topic


def test_a_topic_whose_new_leader_lacks_its_end_is_read_anew(topic: Topic) -> None:
    """The trap: it gets other records in their place. A source that started from those that are
    lost would deliver records again, or lose some."""
    answers = Reads("t", {}, changed_connector)

    def newest() -> bytes | None:
        (content,) = answers.of([ReadOffsets("t", "a")])
        (record,) = records_of(content)
        return record.value

    assert newest() == b'{"n":8}'
    topic.left = [b'{"n":10}', b'{"n":11}']
    assert newest() == b'{"n":11}'
    topic.records.append(b'{"n":12}')
    assert newest() == b'{"n":12}'
    assert len(topic.closed) == 1
