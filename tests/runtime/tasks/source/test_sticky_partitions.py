"""Records without keys go to one partition for each batch, never to one without a leader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.tasks.source.writer import StickyPartitions


@dataclass
class Telling:
    """A producer that knows the leader of each partition; None if Kafka is silent."""

    leaders: Mapping[int, int] | None
    asked: list[str] = field(default_factory=list)

    def list_topics(self, topic: str = "t", timeout: float = 0.0) -> Any:
        self.asked.append(topic)
        if self.leaders is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        found = {number: SimpleNamespace(leader=leader) for number, leader in self.leaders.items()}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=found)})


def chosen(sticky: StickyPartitions, producer: Any) -> set[int | None]:
    return {sticky.choose("t", producer) for _ in range(200)}


def test_batches_go_to_every_partition_with_a_leader() -> None:
    producer = Telling({0: 1, 1: -1, 2: 5})

    assert chosen(StickyPartitions(), producer) == {0, 2}
    assert producer.asked == ["t"]


def test_new_partitions_are_found_later() -> None:
    now = 0.0
    sticky, producer = StickyPartitions(lambda: now), Telling({0: 1})
    assert chosen(sticky, producer) == {0}

    producer.leaders = {0: 1, 1: 1}
    assert chosen(sticky, producer) == {0}
    now = 300.0
    assert chosen(sticky, producer) == {0, 1}


def test_the_client_chooses_while_kafka_is_silent_or_the_topic_is_new() -> None:
    now = 0.0
    sticky, producer = StickyPartitions(lambda: now), Telling(None)
    assert chosen(sticky, producer) == {None}

    now, producer.leaders = 10.0, {}
    assert chosen(sticky, producer) == {None}
    now, producer.leaders = 20.0, {3: 1}
    assert chosen(sticky, producer) == {3}
    assert len(producer.asked) == 3


def test_a_silent_kafka_is_asked_for_one_topic_only() -> None:
    """The trap: each of a hundred topics holds the task up for a second, again and again."""
    now = 0.0
    sticky, producer = StickyPartitions(lambda: now), Telling(None)
    for _ in range(2):
        for number in range(100):
            sticky.choose(f"t{number}", producer)  # type: ignore[arg-type]
    assert producer.asked == ["t0"]
    now, producer.leaders = 10.0, {0: 1}
    assert sticky.choose("t1", producer) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("meanwhile", [None, {}])
def test_a_topic_that_was_not_found_meanwhile_is_still_noticed_to_have_fewer(
    meanwhile: Mapping[int, int] | None,
) -> None:
    """Such as one that is looked for between its deletion and its creation."""
    now = 0.0
    sticky, producer = StickyPartitions(lambda: now), Telling(dict.fromkeys(range(4), 1))
    assert sticky.choose("t", producer) is not None  # type: ignore[arg-type]
    now, producer.leaders = 300.0, meanwhile
    assert sticky.choose("t", producer) is None  # type: ignore[arg-type]
    producer.leaders = {0: 1}
    assert "Topic t has 1 of the 4 partitions" in (sticky.fewer(producer) or "")  # type: ignore[arg-type]
