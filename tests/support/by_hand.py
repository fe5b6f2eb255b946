"""Hands that write to a cluster's own topics, past every project."""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import InternalTopic, LogRecord, NewRecord
from connect_specs.names import ClusterTopics


@dataclass(frozen=True, slots=True)
class ByHand:
    """Of the cluster with this group on that Kafka. Topics that are not there yet are made."""

    kafka: str
    group_id: str

    @property
    def topics(self) -> ClusterTopics:
        return ClusterTopics.of(self.group_id)

    def write(self, *records: NewRecord) -> None:
        client = {"bootstrap.servers": self.kafka}
        logs, known = KafkaLogs(client), admin(client).list_topics(timeout=10).topics
        for topic in (self.topics.config, self.topics.offsets, self.topics.status):
            if topic not in known:
                logs.ensure_compacted(InternalTopic(topic, 1, "tests"))
        logs.writer(f"connect-cluster-{self.group_id}").write(records)
        logs.close()

    def config(self, connector: str, **config: str) -> None:
        """Writes the config of a file source; `config` in addition to the least that it needs."""
        least = {"name": connector, "connector.class": "FileStreamSource", "topic": "lines"}
        self.write(config_topic.connector_record(self.topics.config, connector, least | config))

    def records(self, topic: str) -> list[LogRecord]:
        logs = KafkaLogs({"bootstrap.servers": self.kafka})
        found = list(logs.reader(topic).read_to_end(10))
        logs.close()
        return found
