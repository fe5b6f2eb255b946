"""The newest records of topics: how far back to read, and what is read of a real topic."""

from __future__ import annotations

from functools import partial

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from connect_reconciler.backend.observe.kafka_view import first_offsets, last_records
from connect_reconciler.model.live import LogRange
from connect_runtime.kafka.topics import Partition, log_ranges
from connect_specs.diagnostics import ConnectError
from support.broker import BrokerAddress, create_topic, produce
from support.wait import wait_until


@pytest.mark.parametrize(
    ("sizes", "number", "taken"),
    [
        ([], 5, []),
        ([10], 5, [5]),
        ([3], 5, [3]),
        ([10, 10], 5, [3, 2]),
        ([1, 10, 10], 9, [1, 4, 4]),
        ([0, 100], 10, [0, 10]),
    ],
)
def test_how_many_offsets_of_each_partition(
    sizes: list[int], number: int, taken: list[int]
) -> None:
    ranges = {("t", at): LogRange(7, 7 + size) for at, size in enumerate(sizes)}
    starts = first_offsets(ranges, number)
    assert sorted(ranges[at].latest - start for at, start in starts.items()) == sorted(taken)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 100))
def test_as_many_as_there_are(sizes: list[int], number: int) -> None:
    ranges = {("t", at): LogRange(3, 3 + size) for at, size in enumerate(sizes)}
    starts = first_offsets(ranges, number)
    assert sum(ranges[at].latest - start for at, start in starts.items()) == min(sum(sizes), number)
    assert all(start >= 3 for start in starts.values())


def _ranges(properties: dict[str, str], topic: str) -> dict[Partition, tuple[int, int]] | None:
    try:
        found = log_ranges(properties, [(topic, 0), (topic, 1)])
    except ConnectError:
        return None
    return found if len(found) == 2 else None


def read(broker: BrokerAddress, topic: str, number: int, **more: str) -> list[bytes]:
    properties = {"bootstrap.servers": broker.bootstrap_servers, **more}
    ranges = wait_until(partial(_ranges, properties, topic), what="the new topic has leaders")
    logs = {at: LogRange(*each) for at, each in ranges.items()}
    found = last_records(properties, logs, number)
    assert found.complete
    return [message.value() for message in found.messages]


def test_the_newest_of_all_partitions(broker: BrokerAddress, unique: str) -> None:
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    assert read(broker, unique, 5) == []
    produce(broker.bootstrap_servers, unique, [(None, b"a%d" % at) for at in range(20)])
    produce(broker.bootstrap_servers, unique, [(None, b"b0")], partition=1)
    assert read(broker, unique, 4) == [b"a17", b"a18", b"a19", b"b0"]
    assert len(read(broker, unique, 100)) == 21


def test_markers_of_transactions_are_no_records(broker: BrokerAddress, unique: str) -> None:
    """The trap: with a transaction for each record, every second offset is a marker."""
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique})
    producer.init_transactions(30)
    for at in range(12):
        producer.begin_transaction()
        producer.produce(unique, b"%d" % at, partition=0)
        if at == 11:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    committed = {"isolation.level": "read_committed"}
    assert read(broker, unique, 8, **committed) == [b"%d" % at for at in range(3, 11)]
    assert read(broker, unique, 2, **{"isolation.level": "read_uncommitted"}) == [b"10", b"11"]
