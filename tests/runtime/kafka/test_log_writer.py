"""What Kafka will never take is told from what may work the next time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka import log_writer
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import Fenced, NewRecord, WriteRefused
from support.broker import BrokerAddress, create_topic


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
    monkeypatch.setattr(log_writer, "producer", lambda *_: LosingProducer())
    monkeypatch.setattr(log_writer, "meet_broker", lambda *_: None)
    writer = log_writer.KafkaLogWriter({}, "id")
    for _ in range(2):
        with pytest.raises(Fenced):
            writer.write([NewRecord("t", b"k", b"v")])
