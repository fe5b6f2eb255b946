"""Implements `storage.log.Logs` on a real Kafka cluster over librdkafka.

Opens readers and writers, fences, and creates topics. Thread-safe, but a reader or writer that it
opened belongs to one thread at a time. Closing it closes what it opened.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from connect_runtime.kafka.background_writer import KafkaBackgroundWriter
from connect_runtime.kafka.calls import logged
from connect_runtime.kafka.clients import admin, check_reachable
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, REFUSED, as_failure, error_of, reason
from connect_runtime.kafka.log_reader import KafkaLogReader
from connect_runtime.kafka.log_writer import KafkaLogWriter
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.internal_topics import (
    check_compacted,
    check_partitions,
    replication_key,
)
from connect_runtime.storage.log import LogRecord, unread
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable

# Codes of errors of a Kafka that is starting
TOPIC_NOT_READY: Final = "topic.not-ready"
TOO_FEW_BROKERS: Final = "topic.too-few-brokers"
_FENCED_AT_ONCE = 8
_REQUEST_S = 10.0
_NEW_TOPIC_S = 10.0
_POLL_S = 0.02


def connector_logs(clients: ConnectorClients) -> KafkaLogs:
    """Returns logs on a connector's cluster, through the connector's clients."""
    return KafkaLogs(
        clients.admin(), consumer=clients.offsets_consumer(), producer=clients.offsets_producer()
    )


class ReadTopics(NamedTuple):
    """Records by topic, and by topic why some of its partitions were not read."""

    records: dict[str, list[LogRecord]]
    unread: dict[str, str]


class KafkaLogs:
    """Logs on the cluster of `properties`, under Java's names. Readers and writers may have their
    own properties."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        consumer: Mapping[str, str] | None = None,
        producer: Mapping[str, str] | None = None,
    ) -> None:
        self._properties = dict(properties)
        self._consumer = self._properties if consumer is None else dict(consumer)
        self._producer = self._properties if producer is None else dict(producer)
        self._admin: AdminClient = admin(self._properties)
        self._opened: WeakSet[KafkaLogReader | KafkaLogWriter | KafkaBackgroundWriter] = WeakSet()

    def cluster_id(self) -> str:
        return check_reachable(self._properties)

    @logged("describe topic", "topic")
    def identity(self, topic: str) -> tuple[str, int]:
        """Returns what tells the topic from one that is made anew under its name, and its number of
        partitions. Raises ConnectError if it cannot be read or does not exist."""
        wanted = TopicCollection([topic])
        answers = self._admin.describe_topics(wanted, request_timeout=_REQUEST_S)
        try:
            found = answers[topic].result()
        except KafkaException as error:
            raise as_failure(error_of(error), "The topic cannot be read", topic) from None
        return str(found.topic_id), len(found.partitions)

    def reader(self, topic: str) -> KafkaLogReader:
        """Opens a reader at the topic's beginning. Raises Failed if the topic does not exist."""
        partitions = self._partitions(topic)
        if not partitions:
            raise Failed(Diagnostic("topic.missing", "There is no such topic", topic))
        reader = KafkaLogReader(self._consumer, {topic: partitions}, self._admin)
        self._opened.add(reader)
        return reader

    def read_to_ends(
        self, topics: Sequence[str], timeout_s: float, as_available: Collection[str] = ()
    ) -> ReadTopics:
        """Reads these topics from their beginnings to their ends, with one consumer. Topics that do
        not exist are left out, and so are partitions of those of `as_available` that cannot be
        read. Raises as a reader's read_to_end does for others."""
        partitions = self._partitions_of(topics)
        found = ReadTopics({topic: [] for topic in partitions}, {})
        if not partitions:
            return found
        reader = KafkaLogReader(self._consumer, partitions, self._admin)
        try:
            records = reader.read_available(timeout_s)
            whole = [topic for topic, _ in reader.left_out if topic not in as_available]
            if whole:
                records = [*records, *reader.read_to_end(timeout_s, whole)]
            for record in records:
                found.records[record.topic].append(record)
            for topic in as_available:
                left_out = {at: why for at, why in reader.left_out.items() if at[0] == topic}
                if (why := unread(left_out)) is not None:
                    found.unread[topic] = why
        finally:
            reader.close()
        return found

    def writer(self, transactional_id: str) -> KafkaLogWriter:
        writer = KafkaLogWriter(self._producer, transactional_id)
        self._opened.add(writer)
        return writer

    def background_writer(self) -> KafkaBackgroundWriter:
        writer = KafkaBackgroundWriter(self._producer)
        self._opened.add(writer)
        return writer

    def fence(self, transactional_ids: Sequence[str]) -> None:
        def end_earlier_writers(transactional_id: str) -> None:
            KafkaLogWriter(self._producer, transactional_id).close()

        if len(transactional_ids) == 1:
            end_earlier_writers(transactional_ids[0])
        elif transactional_ids:
            threads = min(_FENCED_AT_ONCE, len(transactional_ids))
            with ThreadPoolExecutor(threads, thread_name_prefix="fence") as pool:
                # the list raises the first error
                list(pool.map(end_earlier_writers, transactional_ids))

    def ensure_compacted(
        self,
        topic: str,
        partitions: int,
        purpose: str,
        *,
        key: str = "config.storage.topic",
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the topic, compacted, or checks that it is. Raises Failed with Connect's text.

        `key` is the setting that names the topic. `config` holds further settings for a new topic;
        -1 leaves partitions or replication to the broker.
        """
        found = self._partitions(topic)
        if not found and self._create(topic, partitions, replication_factor, config or {}, key):
            return
        found = found or self._wait_for_partitions(topic)
        check_partitions(topic, len(found), purpose, key)
        policy = self.cleanup_policy(topic)
        if policy is not None:
            check_compacted(topic, policy, purpose, key)

    def close(self) -> None:
        for each in list(self._opened):
            each.close()
        self._opened.clear()

    def _partitions(self, topic: str) -> tuple[int, ...]:
        """Returns the topic's partitions, none if it does not exist."""
        return self._partitions_of([topic]).get(topic, ())

    @logged("describe topic", "topics")
    def _partitions_of(self, topics: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Returns the partitions of those topics that exist."""
        # Not list_topics, which creates the topic if the broker auto-creates topics.
        wanted = TopicCollection(list(topics))
        found: dict[str, tuple[int, ...]] = {}
        for topic, answer in self._admin.describe_topics(
            wanted, request_timeout=_REQUEST_S
        ).items():
            try:
                described = answer.result()
            except KafkaException as error:
                if error_of(error).code() in NO_SUCH_TOPIC:
                    continue
                what = "The topic's partitions cannot be read"
                raise as_failure(error_of(error), what, topic) from None
            found[topic] = tuple(sorted(partition.id for partition in described.partitions))
        return found

    @logged("create topic", "topic")
    def _create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str],
        key: str,
    ) -> bool:
        """Creates the topic. Returns False if it already exists."""
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config={**config, "cleanup.policy": "compact"},
        )
        try:
            self._admin.create_topics([new], request_timeout=_REQUEST_S)[topic].result()
        except KafkaException as error:
            if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            what = "The topic cannot be created"
            if error_of(error).code() == KafkaError.INVALID_REPLICATION_FACTOR:
                hint = (
                    f"Start the other brokers, or set {replication_key(key)} to a smaller number."
                )
                why = reason(error_of(error))
                raise Failed(Diagnostic(TOO_FEW_BROKERS, what, topic, why, hint)) from None
            raise as_failure(error_of(error), what, topic) from None
        self._wait_for_partitions(topic)
        return True

    def _wait_for_partitions(self, topic: str) -> tuple[int, ...]:
        """Waits for the new topic's partitions: other brokers learn of it a moment later."""
        deadline = time.monotonic() + _NEW_TOPIC_S
        while True:
            found = self._partitions(topic)
            if found:
                return found
            if time.monotonic() > deadline:
                raise Unreachable(
                    Diagnostic(TOPIC_NOT_READY, "The topic's partitions are not available", topic)
                )
            time.sleep(_POLL_S)

    @logged("describe the settings of topic", "topic")
    def cleanup_policy(self, topic: str) -> str | None:
        """Returns the topic's cleanup policy; None if this login may not read it: like Connect, we
        then trust the topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        answers = self._admin.describe_configs([resource], request_timeout=_REQUEST_S)
        try:
            return str(answers[resource].result()["cleanup.policy"].value)
        except KafkaException as error:
            if error_of(error).code() in REFUSED:
                return None
            raise as_failure(
                error_of(error), "The topic's settings cannot be read", topic
            ) from None
