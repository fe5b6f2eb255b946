"""Follows the assignments topic once for all tasks of a node.

A consumer wakes up many times a second, which each of a thousand idle tasks would pay for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from connect_runtime.agent.messages import Follow, records_line
from connect_runtime.agent.server import TaskConnection
from connect_runtime.kafka import clients
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.storage.log import LogRecord

_log = logging.getLogger(__name__)

_CONSUMER: Final = {
    # librdkafka requires a group; with manual assignment and no commits it is never used
    "group.id": "connect-log-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # the broker answers at once when it has records: this only bounds idle requests
    "fetch.wait.max.ms": 2_000,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 256,
    "fetch.message.max.bytes": 65_536,
}
POLL_S: Final = 1.0
_UNUSED_S: Final = 60.0


class AssignmentTail:
    """Implements Service. One topic from its beginning, which is compacted and small. `records`
    yields its records in order, and None at least once in `POLL_S`; it ends if the topic was made
    anew."""

    def __init__(self, records: Callable[[], Iterable[LogRecord | None]]) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._followers: dict[bytes, dict[TaskConnection, int]] = {}
        self._newest: dict[bytes, LogRecord] = {}
        self._used_at = time.monotonic()
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="follow-assignments", daemon=True).start()

    def add(self, connection: TaskConnection, request: Follow) -> bool:
        key = request.key.encode()
        with self._lock:
            if self.over:
                return False
            self._followers.setdefault(key, {})[connection] = request.offset
            newest = self._newest.get(key)
            is_new = newest is not None and newest.offset >= request.offset
            # without records, too: the task hears that it is served
            connection.send(_line(newest) if newest is not None and is_new else _NO_RECORDS)
            return True

    def remove(self, connection: TaskConnection) -> None:
        with self._lock:
            for key, followers in self._followers.items():
                if followers.pop(connection, None) is not None:
                    if not followers:
                        del self._followers[key]
                    return

    def _run(self) -> None:
        try:
            for record in self._records():
                if record is not None:
                    self._pass_on(record)
                if self._is_unused():
                    return
        except Exception:
            _log.exception("Assignments are not followed for the tasks of this node")
        finally:
            with self._lock:
                self.over = True
                for followers in self._followers.values():
                    for connection in followers:
                        connection.end()

    def _pass_on(self, record: LogRecord) -> None:
        if record.key is None:
            return
        with self._lock:
            self._newest[record.key] = record
            for connection, offset in self._followers.get(record.key, {}).items():
                if record.offset >= offset:
                    connection.send(_line(record))

    def _is_unused(self) -> bool:
        """Returns whether no task has been served for a while; then none is from here on."""
        time_s = time.monotonic()
        with self._lock:
            if self._followers:
                self._used_at = time_s
            self.over = time_s - self._used_at > _UNUSED_S
            return self.over


def kafka_records(topic: str, properties: Mapping[str, str]) -> Iterator[LogRecord | None]:
    """Yields the records of a topic's only partition; ends at a fatal error, or if the topic was
    made anew, where offsets mean other records."""
    consumer: Consumer = clients.consumer(properties, _CONSUMER)
    next_offset = 0
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message: Any = consumer.poll(POLL_S)
            error = None if message is None else message.error()
            if message is None or (error is not None and not error.fatal()):
                yield None
                continue
            if error is not None or message.offset() < next_offset:
                return
            next_offset = message.offset() + 1
            yield record_of(message)
    finally:
        consumer.close()


def _line(record: LogRecord) -> bytes:
    return records_line([record]) + b"\n"


_NO_RECORDS: Final = records_line([]) + b"\n"
