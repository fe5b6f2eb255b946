"""Writes source offsets to Kafka without transactions, by a producer of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import error_of, reason
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.send_failures import SendFailures

_log = logging.getLogger(__name__)


class KafkaOffsets:
    """Implements OffsetsWriter."""

    def __init__(self, setup: TaskSetup) -> None:
        self._id = setup.id
        self._failures = SendFailures()
        self._producer: Producer = clients.producer(
            setup.offsets_producer(),
            {
                "acks": "all",
                "linger.ms": 0,
                "max.in.flight": 1,
                "message.timeout.ms": max(round(setup.flush_timeout_s * 1000), 1),
                "on_delivery": self._failures.delivered,
            },
        )

    def write(self, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        """Whether all are written; the log says why not."""
        self._failures.clear()
        try:
            for record in offsets:
                self._producer.produce(record.topic, record.value, record.key)
        except KafkaException as raised:
            _log.error("Task %s: offsets cannot be written: %s", self._id, reason(error_of(raised)))
            return False
        left = self._producer.flush(limit_s + 1)
        if left == 0 and not self._failures:
            return True
        _log.error("Task %s: offsets were not written; the next commit tries again", self._id)
        return False

    def close(self) -> None:
        """Ends the producer."""
        del self._producer
