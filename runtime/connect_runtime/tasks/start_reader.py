"""Reads what a task needs before it starts: its assignment and its source's offsets.

Uses its own short-lived consumer with short waits, so that it sees the end of a topic within
milliseconds, which the long-lived consumer in control.py must not do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import END_OF_PARTITION, SILENT, as_failure, error_of
from connect_runtime.kafka.log_ends import ends_now
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.storage.log import LogBlocked
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.control import UNUSED_GROUP, Orders, Wanted
from connect_runtime.tasks.interrupted import kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.diagnostics import Diagnostic

# Longer than the default transaction timeout, plus the time that Kafka takes to notice.
_SILENCE_S: Final = 75.0
_ASK_S: Final = 5.0
_BATCH: Final = 1_000  # ten times as many cost twice the time: they leave the processor's cache
_WAIT_S: Final = 0.005
# librdkafka looks for the coordinator of the unused group, even if that is not permitted
_PASSING: Final = SILENT | {KafkaError.GROUP_AUTHORIZATION_FAILED}
_FAST: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 5,
    "group.id": UNUSED_GROUP,
}


class StartReader:
    """Reads topics of the cluster to their ends, committed records only.

    Raises Interrupted if Kafka is silent or an open transaction hides the end.
    """

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        properties = setup.worker_client("start")
        self._consumer = clients.consumer(properties, _FAST)
        self._admin = clients.admin(properties)
        self._closed = False

    def orders(self, orders: Orders) -> Wanted:
        """Reads the assignments up to the current end."""
        topic = self._setup.topics.assignments
        with kafka_may_interrupt():
            for message in self._to_end([TopicPartition(topic, 0, orders.offset)]):
                orders.take(record_of(message))
        return orders.wanted

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        with kafka_may_interrupt():
            return self._source_offsets()

    def _source_offsets(self) -> OffsetSnapshot:
        topic = self._setup.topics.offsets
        found = self._consumer.list_topics(topic, timeout=_SILENCE_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        mine = f'["{self._setup.id.connector}",'.encode()
        starts = [TopicPartition(topic, number, 0) for number in found.partitions]
        # A record of another connector costs one look at its key. The codec decides keys with
        # spaces or escapes.
        records = [
            record_of(message)
            for message in self._to_end(starts)
            if (key := message.key()) is not None
            and (key.startswith(mine) or b"\\" in key or not key.startswith(b'["'))
        ]
        return reduce_all(OffsetSnapshot(), records)

    def _to_end(self, starts: list[TopicPartition]) -> Iterator[Any]:
        """Yields all messages up to the current ends, as long as there is progress.

        The ends count records of open transactions: one that is still open hides what was committed
        after it. They are asked for, and not taken from the answers to fetches: a new leader sends
        records before it knows how far they were committed (KIP-207).
        """
        ends = ends_now(self._admin, starts, IsolationLevel.READ_UNCOMMITTED)
        self._consumer.assign(starts)
        reached = {(start.topic, start.partition): start.offset for start in starts}
        deadline = time.monotonic() + _SILENCE_S
        while behind := [at for at, end in ends.items() if reached[at] < end.offset]:
            if time.monotonic() > deadline:
                raise self._stuck(*behind[0], reached[behind[0]])
            messages = self._consumer.consume(_BATCH, _WAIT_S)
            if messages:
                deadline = time.monotonic() + _SILENCE_S
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == END_OF_PARTITION:
                    reached[message.topic(), message.partition()] = message.offset()
                elif error.code() not in _PASSING:
                    raise as_failure(error, "The topic cannot be read", message.topic())
        self._consumer.unassign()

    def _stuck(self, topic: str, partition: int, offset: int) -> Exception:
        """Returns why nothing has arrived: Kafka is silent, or a transaction hides the records."""
        where = TopicPartition(topic, partition)
        try:
            self._consumer.get_watermark_offsets(where, timeout=_ASK_S)
        except KafkaException as error:
            return as_failure(error_of(error), "The topic cannot be read", topic)
        return _blocked(topic, partition, offset)

    def close(self) -> None:
        """Closes the consumer; may be called repeatedly."""
        if not self._closed:
            self._closed = True
            self._consumer.close()


def _blocked(topic: str, partition: int, offset: int) -> LogBlocked:
    return LogBlocked(
        Diagnostic(
            code="log.blocked",
            what=f"an open transaction at offset {offset} hides what follows it",
            where=f"{topic}-{partition}",
            hint="its writer was killed or hangs; it times out by itself",
        )
    )
