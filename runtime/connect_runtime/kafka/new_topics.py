"""Creates topics of a source connector before the first record goes to them (KIP-158)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from connect_runtime.api import ConnectorError
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, error_of
from connect_runtime.settings.topic_creation import NewTopicSettings, TopicCreation

_REQUEST_S: Final = 30.0
_READY_S: Final = 10.0
_LOOK_S: Final = 0.02


class NewTopics:
    """Creates topics with the connector's admin client. Existing topics are left unchanged.

    One object per task: a topic that was seen once is not checked again.
    """

    def __init__(self, properties: Mapping[str, str], creation: TopicCreation) -> None:
        self._properties = properties
        self._creation = creation
        self._seen: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Returns when records can be sent to the topic. Raises KafkaException if Kafka is silent,
        ConnectorError if the topic cannot be created."""
        if topic in self._seen:
            return
        # one client for each new topic: they are few, and an idle client costs more
        client = admin(self._properties)
        if not self._exists(client, topic):
            self._create(client, topic, self._creation.settings(topic))
            deadline = time.monotonic() + _READY_S
            # other brokers learn of a new topic a moment later
            while not self._exists(client, topic) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
        self._seen.add(topic)

    def _exists(self, client: AdminClient, topic: str) -> bool:
        asked = client.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_S)
        try:
            return bool(asked[topic].result().partitions)
        except KafkaException as error:
            if error_of(error).code() in NO_SUCH_TOPIC:
                return False
            raise

    def _create(self, client: AdminClient, topic: str, settings: NewTopicSettings) -> None:
        new = NewTopic(
            topic,
            num_partitions=settings.partitions,
            replication_factor=settings.replication_factor,
            config=dict(settings.config),
        )
        try:
            client.create_topics([new], request_timeout=_REQUEST_S)[topic].result()
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if error.retriable():
                raise
            raise ConnectorError(
                f"Task failed to create new topic {topic}: {error.str().rstrip('.')}. "
                "Ensure that the task is authorized to create topics or that the topic exists and "
                "restart the task"
            ) from raised
