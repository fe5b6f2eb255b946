"""Topics that a source connector creates on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from connect_runtime.api import ConnectorError
from connect_runtime.kafka import clients
from connect_runtime.kafka.new_topics import NewTopics
from connect_runtime.settings.topic_creation import NewTopicSettings, TopicCreation
from support.broker import BrokerAddress, create_topic


def made(broker: BrokerAddress, settings: NewTopicSettings) -> NewTopics:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    return NewTopics(client, TopicCreation((), settings))


def partitions(broker: BrokerAddress, topic: str) -> int:
    admin = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    return len(admin.list_topics(timeout=10).topics[topic].partitions)


def test_a_topic_is_created_with_its_settings(broker: BrokerAddress, unique: str) -> None:
    topics = made(broker, NewTopicSettings(7, -1, {"cleanup.policy": "compact"}))
    topics.ensure(unique)
    assert partitions(broker, unique) == 7
    admin = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, unique)
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["cleanup.policy"].value == "compact"
    topics.ensure(unique)


def test_a_topic_that_exists_stays_as_it_is(broker: BrokerAddress, unique: str) -> None:
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    made(broker, NewTopicSettings(7, 1, {})).ensure(unique)
    assert partitions(broker, unique) == 2


def test_settings_that_the_broker_refuses_fail_the_task(broker: BrokerAddress, unique: str) -> None:
    with pytest.raises(ConnectorError, match=f"failed to create new topic {unique}: .*eplication"):
        made(broker, NewTopicSettings(1, 5, {})).ensure(unique)
