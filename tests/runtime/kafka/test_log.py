"""Reading and writing Kafka's logs: what a broker's faults do to a reader, and to a writer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka import log
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.log_reader import KafkaLogReader
from connect_runtime.storage.log import Fenced, NewRecord, WriteRefused
from support.broker import BrokerAddress, create_topic

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


@pytest.fixture
def logs(broker: BrokerAddress) -> Iterator[KafkaLogs]:
    made = KafkaLogs({"bootstrap.servers": broker.bootstrap_servers})
    yield made
    made.close()


@pytest.mark.parametrize(
    ("limit", "size"),
    [("10000000", 10_000_000), ("10000", 20_000)],
    ids=["the client refuses", "the broker refuses"],
)
def test_a_record_that_is_too_large_is_refused_for_good(
    logs: KafkaLogs, broker: BrokerAddress, unique: str, limit: str, size: int
) -> None:
    settings = {"cleanup.policy": "compact", "max.message.bytes": limit}
    create_topic(broker.bootstrap_servers, unique, partitions=1, config=settings)
    writer = logs.writer(unique)
    small = NewRecord(unique, b"k", b"v")
    with pytest.raises(WriteRefused) as refused:
        writer.write([small, NewRecord(unique, b"k", b"v" * size), small])
    assert "Message size too large" in refused.value.diagnostics[0].why
    # another write is taken, and nothing is left of the first
    written = (writer if writer.usable else logs.writer(unique)).write([small])
    assert list(logs.reader(unique).read_to_end(15)) == list(written)


class LosingProducer:
    """A producer that was fenced; its client library loses that error twice."""

    def __init__(self) -> None:
        self.lost = 0

    def begin_transaction(self) -> None: ...
    def init_transactions(self, timeout: float) -> None: ...
    def produce(self, *_: object, **__: object) -> None: ...

    def flush(self, timeout: float) -> int:
        self.lost += 1
        raise SystemError("returned NULL without setting an exception")

    def commit_transaction(self, timeout: float) -> None:
        self.lost += 1
        if self.lost < 3:
            raise SystemError("returned NULL without setting an exception")
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


def test_a_fatal_error_that_the_client_library_lost_is_told_by_the_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "producer", lambda *_: LosingProducer())
    monkeypatch.setattr(log, "meet_broker", lambda *_: None)
    writer = log.KafkaLogWriter({}, "id")
    for _ in range(2):
        with pytest.raises(Fenced):
            writer.write([NewRecord("t", b"k", b"v")])
