"""Logs' ends and times, and topics that a source connector creates, on a real broker."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from connect_runtime.api import ConnectorError
from connect_runtime.kafka import clients
from connect_runtime.kafka.topics import (
    NewTopics,
    ends_now,
    list_offsets,
    log_ranges,
    newest_times,
    offsets_for_times,
    topic_sizes,
)
from connect_runtime.settings.connector_topics import TopicCreation, TopicSettings
from connect_specs.diagnostics import ConnectError
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


def test_a_topic_that_was_just_made_is_waited_for(
    broker: BrokerAddress, kafka: dict[str, str], unique: str
) -> None:
    def asked() -> Any:
        at = TopicPartition(unique, 0)
        return ends_now(clients.admin(kafka), [at], IsolationLevel.READ_COMMITTED)

    with pytest.raises(ConnectError, match="The end of the topic cannot be read"):
        asked()
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(asked)
        create_topic(broker.bootstrap_servers, unique)
        assert ends.result(30)[unique, 0].offset == 0


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


class Client:
    """Knows the leaders of topics once it was asked for them."""

    def __init__(
        self, leaders: dict[str, list[str | None] | KafkaError], *answers: str | KafkaError
    ) -> None:
        self._leaders = leaders
        self._answers = [*answers, "an offset"]
        self._known: set[tuple[str, int]] = set()

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {name: self._described(name) for name in topics.topic_names}

    def _described(self, name: str) -> Future[Any]:
        answer: Future[Any] = Future()
        leaders = self._leaders[name]
        if isinstance(leaders, KafkaError):
            answer.set_exception(KafkaException(leaders))
            return answer
        partitions = [SimpleNamespace(id=n, leader=leader) for n, leader in enumerate(leaders)]
        answer.set_result(SimpleNamespace(partitions=partitions))
        self._known |= {(name, each.id) for each in partitions if each.leader}
        return answer

    def list_offsets(
        self, wanted: dict[TopicPartition, OffsetSpec], **_: Any
    ) -> dict[TopicPartition, Future[Any]]:
        # with librdkafka 2.16 the process may end here
        assert {(at.topic, at.partition) for at in wanted} <= self._known
        found: dict[TopicPartition, Future[Any]] = {at: Future() for at in wanted}
        content = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        for answer in found.values():
            if isinstance(content, KafkaError):
                answer.set_exception(KafkaException(content))
            else:
                answer.set_result(content)
        return found


def test_offsets_are_asked_for_only_where_the_client_knows_the_leader() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    client: Any = Client({"t": ["b", None, "c"], "mine": refused, "u": [None]})
    asks = [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("mine", 0)], [("t", 2), ("u", 0)]
    found = list_offsets(
        client, [{TopicPartition(*at): OffsetSpec.latest() for at in each} for each in asks]
    )
    shown = [
        {at: each.name() if isinstance(each, KafkaError) else each for at, each in answers.items()}
        for answers in found
    ]
    assert shown == [
        {
            ("t", 0): "an offset",
            ("t", 1): "LEADER_NOT_AVAILABLE",
            ("t", 2): "an offset",
            ("t", 3): "_UNKNOWN_PARTITION",
            ("mine", 0): "TOPIC_AUTHORIZATION_FAILED",
        },
        {("t", 2): "an offset", ("u", 0): "LEADER_NOT_AVAILABLE"},
    ]


@pytest.mark.parametrize("name", ["UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"])
def test_a_leader_that_has_just_been_elected_is_asked_again(name: str) -> None:
    at = TopicPartition("t", 0)
    error = KafkaError(getattr(KafkaError, name))
    asks = [{at: OffsetSpec.latest()}]
    client: Any = Client({"t": ["b"]}, error, error)
    assert list_offsets(client, asks) == [{("t", 0): "an offset"}]
    client = Client({"t": ["b"]}, *[error] * 100)
    ((answer,),) = [answers.values() for answers in list_offsets(client, asks, patience_s=0.2)]
    assert isinstance(answer, KafkaError)
    assert answer.code() == error.code()


def made(broker: BrokerAddress, settings: TopicSettings) -> NewTopics:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    return NewTopics(client, TopicCreation((), settings))


def partitions(broker: BrokerAddress, topic: str) -> int:
    admin = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    return len(admin.list_topics(timeout=10).topics[topic].partitions)


def test_a_topic_is_created_with_its_settings(broker: BrokerAddress, unique: str) -> None:
    topics = made(broker, TopicSettings(7, -1, {"cleanup.policy": "compact"}))
    topics.ensure(unique)
    assert partitions(broker, unique) == 7
    admin = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, unique)
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["cleanup.policy"].value == "compact"
    topics.ensure(unique)


def test_a_topic_that_exists_stays_as_it_is(broker: BrokerAddress, unique: str) -> None:
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    made(broker, TopicSettings(7, 1, {})).ensure(unique)
    assert partitions(broker, unique) == 2


def test_settings_that_the_broker_refuses_fail_the_task(broker: BrokerAddress, unique: str) -> None:
    text = f"failed to create new topic {unique}: .*eplication"
    with pytest.raises(ConnectorError, match=text) as raised:
        made(broker, TopicSettings(1, 5, {})).ensure(unique)
    assert "INVALID_REPLICATION_FACTOR" in str(raised.value.__cause__), "for the task's trace"
