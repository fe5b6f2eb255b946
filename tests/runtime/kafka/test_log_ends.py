"""Logs' ends and times on a real broker."""

import pytest
from confluent_kafka import Producer

from connect_runtime.kafka.log_ends import (
    log_ranges,
    newest_times,
    offsets_for_times,
    topic_sizes,
)
from support.broker import BrokerAddress, create_topic, produce


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    create_topic(broker.bootstrap_servers, unique, partitions=2, config={"retention.ms": "-1"})
    return unique


def test_log_ranges(broker: BrokerAddress, kafka: dict[str, str], topic: str) -> None:
    produce(broker.bootstrap_servers, topic, [(b"k", b"v")] * 3, partition=1)
    asked = [(topic, 0), (topic, 1), (topic, 9), (f"no-{topic}", 0)]
    assert log_ranges(kafka, asked) == {(topic, 0): (0, 0), (topic, 1): (0, 3)}
    assert log_ranges(kafka, [(f"no-{topic}", 0)]) == {}
    assert log_ranges(kafka, []) == {}


def test_topic_sizes(kafka: dict[str, str], topic: str) -> None:
    sizes = topic_sizes(kafka)
    assert sizes[topic] == 2
    assert f"no-{topic}" not in sizes


def test_offsets_for_times(kafka: dict[str, str], topic: str) -> None:
    producer = Producer(kafka)
    for at_ms in (1000, 2000, 3000):
        producer.produce(topic, b"v", partition=1, timestamp=at_ms)
    assert producer.flush(30) == 0
    asked = [(topic, 1, at_ms) for at_ms in (0, 2000, 2001, 3001)]
    asked += [(topic, 0, 0), (topic, 9, 0), (f"no-{topic}", 0, 0)]
    assert offsets_for_times(kafka, asked) == {
        (topic, 1, 0): 0,
        (topic, 1, 2000): 1,
        (topic, 1, 2001): 2,
    }
    assert offsets_for_times(kafka, []) == {}
    asked_too = [(topic, 0), (topic, 1), (topic, 9), (f"no-{topic}", 0)]
    assert newest_times(kafka, asked_too) == {(topic, 1): 3000}
    assert newest_times(kafka, []) == {}
