"""Writes status records to Kafka, and says why one was not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import REFUSED, SILENT, error_of, passes, reason
from connect_runtime.storage.log import NewRecord

# How long one try may take
TRY_S: Final = 5.0
_SETTINGS: Final = {
    "acks": "all",
    "linger.ms": 0,
    "max.in.flight": 1,
    "message.timeout.ms": int(TRY_S * 1000),
}
# The client gave up
_UNSENT: Final = SILENT | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Why a record was not written. `passing`: the same write may succeed later."""

    why: str
    passing: bool


_UNANSWERED: Final = Unwritten("Kafka has not answered", passing=True)
_FULL: Final = Unwritten("too many records wait for Kafka", passing=True)


def unwritten_line(unwritten: Unwritten | None) -> bytes:
    """Returns what a write returned as JSON."""
    return orjson.dumps(None if unwritten is None else [unwritten.why, unwritten.passing])


def unwritten_of(line: bytes) -> Unwritten | None:
    """Returns what `unwritten_line` was given."""
    found = orjson.loads(line)
    return None if found is None else Unwritten(*found)


class KafkaStatuses:
    """Implements StatusWriter with the worker's login. Raises ConnectError if that is invalid."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._producer: Producer = clients.producer(properties, _SETTINGS)

    def write(self, record: NewRecord) -> Unwritten | None:
        """Returns None when Kafka has the record."""
        found: list[Unwritten | None] = [_UNANSWERED]
        self.begin(record, found.append)
        # longer than a message may take, so it is answered by then, unless this process was frozen
        self._producer.flush(TRY_S + 1)
        return found[-1]

    def begin(self, record: NewRecord, told: Callable[[Unwritten | None], None]) -> None:
        """Calls `told` from within `serve`, or at once, with what `write` would return."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            told(None if error is None else _because_of(error, record.topic, message.partition()))

        try:
            self._producer.produce(record.topic, record.value, record.key, on_delivery=delivered)
        except KafkaException as error:
            told(_because_of(error_of(error), record.topic))
        except BufferError:
            told(_FULL)

    def serve(self, wait_s: float) -> None:
        """Waits so long for Kafka's next answers."""
        self._producer.poll(wait_s)

    def drop(self) -> None:
        """Gives up what Kafka has not got."""
        self._producer.purge(blocking=False)

    def close(self) -> None:
        """Ends the producer, with what it could not deliver."""
        del self._producer


def _because_of(error: KafkaError, topic: str, partition: int | None = None) -> Unwritten:
    where = topic if partition is None or partition < 0 else f"{topic}-{partition}"
    why = reason(error)
    if error.code() in REFUSED:
        why = f"this login may not write to topic {topic} ({why})"
    elif error.code() in _UNSENT:
        why = f"no broker leads the partition, or that one does not answer ({why})"
    return Unwritten(f"{where}: {why}", passes(error))
