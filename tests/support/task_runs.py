"""Tasks of a test's own that run on a broker, on the `cluster` of the tests of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from connect_runtime.api import SourceRecord, SourceTask
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd
from support.wait import wait_until

TASK = TaskId("c", 0)


class Scripted(SourceTask):
    """Polls what the test's script says, once, and notes what it is told of."""

    script: list[Any]
    events: list[Any]

    def start(self, props: Mapping[str, str]) -> None:
        self.left = list(self.script)

    def poll(self) -> Any:
        return self.left.pop(0) if self.left else None

    def commit_record(self, record: SourceRecord) -> None:
        self.events.append(record.value)

    def stop(self) -> None:
        pass


def started(
    cluster: Any, install: Callable[[type[Any]], str], task: type[Any], **config: str
) -> Any:
    cluster.assign(TASK, 1)
    config = {"name": "c", "task.class": install(task)} | config
    return cluster.run(cluster.launch(TASK, config))


def stopped(cluster: Any, running: Any) -> AttemptEnd:
    cluster.assign(TASK, None)
    ended: AttemptEnd = running.outcome().ended
    return ended


def committed(cluster: Any, partition: int = 0) -> int:
    """The committed offset; asks again while the group has no coordinator yet."""
    group = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"connect-{cluster.name}"}
    consumer = Consumer(group)

    asks = [KafkaPartition(cluster.data, partition)]

    def asked() -> list[KafkaPartition]:
        try:
            found: list[KafkaPartition] = consumer.committed(asks)
        except KafkaException:
            return []
        return found

    try:
        return int(wait_until(asked, what="the group's offsets")[0].offset)
    finally:
        consumer.close()
