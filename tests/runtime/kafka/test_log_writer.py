"""What Kafka will never take is told from what may work the next time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import NewRecord, WriteRefused
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
