"""Sends records that Kafka refused again, one at a time, and names those that it refuses alone.

Kafka answers for a batch. One record above the topic's `max.message.bytes`, or one without a key in
a compacted topic, has all records of its batch refused. Connect's producer splits a batch that is
too large, which may never end, and skips a whole batch that is refused for another reason.

The good records of a refused batch come after those that were sent meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from connect_runtime.kafka.errors import OTHER_REFUSED, RECORD_REFUSED
from connect_runtime.tasks.send_failures import SendFailures


class RefusedRecords:
    """Those of one producer. `make` returns another one, which sends each record by itself."""

    def __init__(self, failures: SendFailures, make: Callable[[], Producer]) -> None:
        self._failures = failures
        self._make = make
        self._producer: Producer | None = None
        self._waiting: deque[tuple[Message, Mapping[str, Any]]] = deque()
        self._refused: list[tuple[str, Mapping[str, Any], KafkaError]] = []

    def delivered(
        self, error: KafkaError | None, message: Message, given: Mapping[str, Any] | None = None
    ) -> None:
        """Handles a delivery report. `given` is what was sent, if that is more than key and value:
        reports have neither headers nor timestamps."""
        if error is None or error.code() not in RECORD_REFUSED | {OTHER_REFUSED}:
            self._failures.delivered(error, message)
            return
        sent = given or {"key": message.key(), "value": message.value()}
        self._waiting.append((message, sent))

    def send_again(self) -> None:
        """Sends what was refused, and does not wait for Kafka."""
        if self._waiting and self._producer is None:
            self._producer = self._make()
        if self._producer is None:
            return
        while self._waiting:
            message, sent = self._waiting[0]
            self._producer.produce(
                message.topic(),
                partition=message.partition(),
                on_delivery=partial(self._alone, sent),
                **sent,
            )
            # only now: while a record waits here, no offset after it is written
            self._waiting.popleft()
        self._producer.poll(0)

    def flush(self, limit_s: float) -> int:
        """Sends what was refused, and waits. Returns how many records Kafka has not answered."""
        self.send_again()
        return 0 if self._producer is None else self._producer.flush(limit_s)

    def take(self) -> list[tuple[str, Mapping[str, Any], KafkaError]]:
        """Returns records that Kafka has refused alone: topic, what was sent, and why."""
        refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """Ends the producer; nothing may follow."""
        self._producer = None

    def _alone(self, sent: Mapping[str, Any], error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in RECORD_REFUSED:
            self._refused.append((message.topic(), sent, error))
        else:
            self._failures.delivered(error, message)
