"""Writes one status record at a time to Kafka, and says why one was not written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import error_of, reason
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.interrupted import is_interruption
from connect_runtime.tasks.launch import TaskLaunch

_TRY_S: Final = 5.0
_SETTINGS: Final = {
    "acks": "all",
    "linger.ms": 0,
    "max.in.flight": 1,
    "message.timeout.ms": int(_TRY_S * 1000),
}


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Why a record was not written. `passing`: the same write may succeed later."""

    why: str
    passing: bool


class KafkaStatuses:
    """Implements StatusWriter with the worker's login. Raises ConnectError if that is invalid."""

    def __init__(self, launch: TaskLaunch) -> None:
        properties = client_properties.control(launch, "statuses")
        self._producer: Producer = clients.producer(properties, _SETTINGS)

    def write(self, record: NewRecord) -> Unwritten | None:
        """Returns None when Kafka has the record."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        try:
            self._producer.produce(record.topic, record.value, record.key, on_delivery=delivered)
            # longer than a message may take, so it is answered by then
            self._producer.flush(_TRY_S + 1)
        except KafkaException as error:
            failed.append(error_of(error))
        if not failed:
            return None
        return Unwritten(reason(failed[0]), is_interruption(failed[0]))

    def close(self) -> None:
        """Ends the producer, with what it could not deliver."""
        del self._producer
