"""What is kept of a topic between two reads, if the topic changes in the meantime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from connect_runtime.agent.messages import ReadOffsets, topic_of
from connect_runtime.agent.topic_reads import TopicCache
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.offsets_topic import changed_connector


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
    def positions(self) -> dict[int, int]:
        return {0: self.at}

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


def test_a_topic_whose_new_leader_lacks_its_end_is_read_anew() -> None:
    """The trap: it gets other records in their place. A source that started from those that are
    lost would deliver records again, or lose some."""
    topic = Topic([b'{"n":%d}' % number for number in range(9)])
    cache = TopicCache("t", topic, changed_connector)  # type: ignore[arg-type]

    def newest() -> bytes | None:
        (content,) = cache.answers([ReadOffsets("t", "a")])
        (record,) = topic_of(content)[0]
        return record.value

    assert newest() == b'{"n":8}'
    topic.left = [b'{"n":10}', b'{"n":11}']
    assert newest() == b'{"n":11}'
    topic.records.append(b'{"n":12}')
    assert newest() == b'{"n":12}'
    assert len(topic.closed) == 1
