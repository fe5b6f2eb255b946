"""What a reader of a topic asks Kafka for, while a partition gets another leader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka.log_reader import KafkaLogReader

END_S = 20


class Admin:
    """Answers with the ends that are left, each an epoch of the leader or a refusal."""

    def __init__(self) -> None:
        self.ends: list[int | KafkaError] = []

    def poll(self, _: float) -> None: ...

    def describe_topics(self, *_: Any, **__: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(partitions=[SimpleNamespace(id=0, leader="b")]))
        return {"t": answer}

    def list_offsets(self, *_: Any, **__: Any) -> dict[TopicPartition, Future[Any]]:
        answer: Future[Any] = Future()
        end = self.ends.pop(0)
        if isinstance(end, KafkaError):
            answer.set_exception(KafkaException(end))
        else:
            answer.set_result(SimpleNamespace(offset=0, leader_epoch=end))
        return {TopicPartition("t", 0): answer}


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def reader(admin: Admin) -> Iterator[KafkaLogReader]:
    unused: Any = admin
    reader = KafkaLogReader({"bootstrap.servers": "127.0.0.1:1"}, {"t": [0]}, unused)
    yield reader
    reader.close()


def test_a_new_leader_that_does_not_know_its_end_yet_is_asked_again(
    reader: KafkaLogReader, admin: Admin
) -> None:
    """Kafka refuses to name an end that is older than what its predecessor confirmed (KIP-207)."""
    admin.ends = [KafkaError(KafkaError.OFFSET_NOT_AVAILABLE), 7]
    assert reader.read_to_end(END_S) == []
    assert admin.ends == []


def test_a_reader_says_that_a_leader_has_changed_since_its_first_read(
    reader: KafkaLogReader, admin: Admin
) -> None:
    seen = []
    admin.ends = [3, 3, 4, 4]
    while admin.ends:
        reader.read_to_end(END_S)
        seen.append(reader.led_anew)
    assert seen == [False, False, True, True]
