"""Topics of one partition: made, and read to see what arrived in them, and when."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect_runtime.kafka.topics import ends_now

_PATIENCE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Output:
    """What was written: records or lines, bytes of their values, and a checksum over them."""

    count: int
    size: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a topic has, and seconds between its first and its last append."""

    output: Output
    took_s: float


def admin_client(bootstrap: str) -> AdminClient:
    """An admin client that only logs warnings."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})


def make_topic(bootstrap: str, topic: str) -> None:
    """One partition; records get the time of their append."""
    admin = admin_client(bootstrap)
    settings = {"message.timestamp.type": "LogAppendTime", "segment.bytes": "1073741824"}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic, so that its records leave the disk."""
    admin = admin_client(bootstrap)
    admin.delete_topics([topic])[topic].result(30)


def end_of(admin: AdminClient, topic: str) -> int:
    """Returns the topic's end, after control records and those of open transactions."""
    partition = TopicPartition(topic, 0)
    return ends_now(admin, [partition], IsolationLevel.READ_UNCOMMITTED)[topic, 0].offset


def wait_for_records(bootstrap: str, topic: str, count: int) -> None:
    """Waits until the topic has so many records, or nearly: its end counts control records."""
    admin = admin_client(bootstrap)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        end = end_of(admin, topic)
        if end >= count:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} has {end} of {count} records after {_PATIENCE_S:.0f} s")
        time.sleep(0.1)


def read_topic(bootstrap: str, topic: str, count: int) -> Arrived:
    """Reads `count` committed records, and whatever else there is by then. Raises RuntimeError if
    they do not come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-look",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = size = checksum = 0
    first = last = 0.0
    deadline = time.monotonic() + _PATIENCE_S
    at_end = False
    try:
        while seen < count or not at_end:
            found = consumer.consume(10_000, 1.0)
            messages: list[Any] = [m for m in found if not m.error()]
            at_end = len(messages) < len(found)
            if messages:
                values = b"".join(filter(None, map(Message.value, messages)))
                first = first or messages[0].timestamp()[1] / 1000
                last = messages[-1].timestamp()[1] / 1000
                seen += len(messages)
                size += len(values)
                checksum = zlib.crc32(values, checksum)
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{topic}: {seen} of {count} records in {_PATIENCE_S:.0f} s")
    finally:
        consumer.close()
    return Arrived(Output(seen, size, checksum), max(last - first, 0.001))
