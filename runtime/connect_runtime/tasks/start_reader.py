"""What must be read before a task may start: its assignment, and where its source stands.

A consumer of its own that lives only until then: it asks for short waits, so that the end of a
topic is seen in milliseconds, which the long-lived follower in control.py must not do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import END_OF_PARTITION, SILENT, as_failure
from connect_runtime.storage.log import LogBlocked, LogRecord
from connect_runtime.storage.offsets_topic import reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.control import UNUSED_GROUP, Orders, Wanted
from connect_runtime.tasks.interrupted import kafka_may_interrupt
from connect_runtime.tasks.launch import TaskLaunch
from connect_specs.diagnostics import Diagnostic

_TIMEOUT_S: Final = 60.0  # longer than an open transaction may last
_BATCH: Final = 10_000
# librdkafka looks for the coordinator of a group that is never used, allowed or not
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

    Raises Interrupted where Kafka is silent or an open transaction hides the end.
    """

    def __init__(self, launch: TaskLaunch) -> None:
        self._launch = launch
        self._consumer = clients.consumer(client_properties.control(launch, "start"), _FAST)
        self._closed = False

    def orders(self, orders: Orders) -> Wanted:
        """Reads the assignments up to the end as it is now."""
        topic = self._launch.topics.assignments
        with kafka_may_interrupt():
            for message in self._to_end([TopicPartition(topic, 0, orders.offset)]):
                orders.take(message)
        return orders.wanted

    def source_offsets(self) -> OffsetSnapshot:
        """The offsets of this task's connector, up to the end as it is now."""
        with kafka_may_interrupt():
            return self._source_offsets()

    def _source_offsets(self) -> OffsetSnapshot:
        topic = self._launch.topics.offsets
        found = self._consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        mine = f'["{self._launch.id.connector}",'.encode()
        starts = [TopicPartition(topic, number, 0) for number in found.partitions]
        records = [
            LogRecord(
                topic=topic,
                partition=message.partition(),
                offset=message.offset(),
                timestamp_ms=message.timestamp()[1],
                key=message.key(),
                value=message.value(),
            )
            for message in self._to_end(starts)
            if _may_be_of(mine, message.key())
        ]
        return reduce_all(OffsetSnapshot(), records)

    def _to_end(self, starts: list[TopicPartition]) -> Iterator[Any]:
        """All messages up to the high watermark as of now, waiting for open transactions to end."""
        self._consumer.assign(starts)
        ends: dict[int, int] = {}
        missing = {start.partition for start in starts}
        stuck_at = {start.partition: start.offset for start in starts}
        deadline = time.monotonic() + _TIMEOUT_S
        while missing:
            if time.monotonic() > deadline:
                raise _blocked(starts[0].topic, min(missing), stuck_at[min(missing)])
            for message in self._consumer.consume(_BATCH, 0.005):
                error, number = message.error(), message.partition()
                if error is None:
                    yield message
                elif error.code() != END_OF_PARTITION:
                    if error.code() not in _PASSING:
                        raise as_failure(error, "The topic cannot be read", starts[0].topic)
                elif number in missing:
                    stuck_at[number] = message.offset()
                    where = TopicPartition(message.topic(), number)
                    # what the broker said with the very answer that held no more records
                    high = self._consumer.get_watermark_offsets(where, cached=True)[1]
                    if message.offset() >= ends.setdefault(number, high):
                        missing.discard(number)
        self._consumer.unassign()

    def close(self) -> None:
        """Closes the consumer; more than once does no harm."""
        if not self._closed:
            self._closed = True
            self._consumer.close()


def _may_be_of(prefix: bytes, key: bytes | None) -> bool:
    # names that JSON escapes, and keys with spaces, are left to the codec to tell
    return key is not None and (key.startswith(prefix) or b"\\" in key or not key.startswith(b'["'))


def _blocked(topic: str, partition: int, offset: int) -> LogBlocked:
    return LogBlocked(
        Diagnostic(
            code="log.blocked",
            what=f"an open transaction at offset {offset} hides what follows it",
            where=f"{topic}-{partition}",
            hint="its writer was killed or hangs; it times out by itself",
        )
    )
