"""Follows the assignments topic once for all tasks of a node.

A consumer wakes up many times a second, which each of a thousand idle tasks would pay for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.node.asking import Asking
from connect_runtime.node.door import Follow
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.served_messages import records_line

_log = logging.getLogger(__name__)

# librdkafka requires a group; with manual assignment and no commits it is never used
UNUSED_GROUP: Final = "connect-log-reader"
SMALL_CONSUMER: Final = {
    "group.id": UNUSED_GROUP,
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
# The interval at which each task hears from this process
ALIVE_EVERY_S: Final = 10.0
_POLL_S: Final = 1.0
_UNUSED_S: Final = 60.0


class Following:
    """Implements Service. One topic, read from its beginning by one consumer: it is compacted, and
    small."""

    def __init__(self, topic: str, properties: Mapping[str, str]) -> None:
        self._name = topic
        self._properties = properties
        self._lock = threading.Lock()
        self._asking: dict[bytes, dict[Asking, int]] = {}
        self._newest: dict[bytes, LogRecord] = {}
        self._next = 0
        self._used_at = self._told_at = time.monotonic()
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"follow-{self._name}", daemon=True).start()

    def add(self, asking: Asking, request: Follow) -> bool:
        key = request.key.encode()
        with self._lock:
            if self.over:
                return False
            self._asking.setdefault(key, {})[asking] = request.offset
            newest = self._newest.get(key)
            if newest is not None and newest.offset >= request.offset:
                asking.send(_line(newest))
            return True

    def remove(self, asking: Asking) -> None:
        with self._lock:
            for key, followers in self._asking.items():
                if followers.pop(asking, None) is not None:
                    if not followers:
                        del self._asking[key]
                    return

    def tell_alive(self) -> None:
        if time.monotonic() - self._told_at < ALIVE_EVERY_S:
            return
        self._told_at = time.monotonic()
        with self._lock:
            for asking in self._every():
                asking.send(_ALIVE)

    def _every(self) -> list[Asking]:
        return [asking for followers in self._asking.values() for asking in followers]

    def _run(self) -> None:
        try:
            self._follow()
        except Exception:
            _log.exception("Assignments are not followed for all tasks of this node")
        finally:
            with self._lock:
                self.over = True
                for asking in self._every():
                    asking.end()

    def _follow(self) -> None:
        consumer: Consumer = clients.consumer(self._properties, SMALL_CONSUMER)
        try:
            consumer.assign([TopicPartition(self._name, 0, 0)])
            while not self._unused():
                message: Any = consumer.poll(_POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    if not self._take(record_of(message)):
                        return
                elif error.fatal():
                    return
        finally:
            consumer.close()

    def _take(self, record: LogRecord) -> bool:
        """Passes a record on; False if the topic was made anew, where offsets mean other
        records."""
        if record.offset < self._next:
            return False
        self._next = record.offset + 1
        if record.key is None:
            return True
        with self._lock:
            self._newest[record.key] = record
            for asking, offset in self._asking.get(record.key, {}).items():
                if record.offset >= offset:
                    asking.send(_line(record))
        return True

    def _unused(self) -> bool:
        """Returns whether no task has been served for a while; then none is any more."""
        time_s = time.monotonic()
        with self._lock:
            if self._asking:
                self._used_at = time_s
            self.over = time_s - self._used_at > _UNUSED_S
            return self.over


def _line(record: LogRecord) -> bytes:
    return records_line([record]) + b"\n"


_ALIVE: Final = records_line([]) + b"\n"
