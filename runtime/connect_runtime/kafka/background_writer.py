"""Writes records to Kafka in the background, outside of transactions: each key's newest.

A record that Kafka does not take is tried again after 0.5 s, 1 s, ... up to 10 s, as long as
nothing newer replaces it. One thread for all partitions; librdkafka keeps one that has no leader
from holding up the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import REFUSED, SILENT, error_of, passes, reason
from connect_runtime.storage.log import NewRecord, Unwritten
from connect_specs.diagnostics import ConnectError

# The time limit of one try
TRY_S: Final = 5.0
_SETTINGS: Final = {
    "acks": "all",
    "linger.ms": 0,
    "max.in.flight": 1,
    "message.timeout.ms": int(TRY_S * 1000),
}
# The client gave up
_UNSENT: Final = SILENT | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001
_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_RETRY_MAX_S: Final = 10.0
# A new record waits at most so long for the answer to an earlier one
_SOON_S: Final = 0.02
# More keys than a cluster has connectors and tasks: tombstones of deleted ones add up
_KEYS_MAX: Final = 200_000
_END_S: Final = 2.0

_Key: TypeAlias = tuple[str, bytes]


_FULL: Final = Unwritten("too many records wait for Kafka", passing=True)


class KafkaStatuses:
    """A producer for statuses, with the worker's login. Raises ConnectError if that is invalid."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._producer: Producer = clients.producer(properties, _SETTINGS)

    def begin(self, record: NewRecord, answered: Callable[[Unwritten | None], None]) -> None:
        """Calls `answered` from within `serve`, or at once: with None when Kafka has the record."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            answered(
                None if error is None else _because_of(error, record.topic, message.partition())
            )

        try:
            self._producer.produce(record.topic, record.value, record.key, on_delivery=delivered)
        except KafkaException as error:
            answered(_because_of(error_of(error), record.topic))
        except BufferError:
            answered(_FULL)

    def serve(self, wait_s: float) -> None:
        """Waits so long for Kafka's next answers."""
        self._producer.poll(wait_s)

    def drop(self) -> None:
        """Gives up records that Kafka does not have yet."""
        self._producer.purge(blocking=False)

    def close(self) -> None:
        """Ends the producer, with records that it could not deliver."""
        del self._producer


def _because_of(error: KafkaError, topic: str, partition: int | None = None) -> Unwritten:
    place = topic if partition is None or partition < 0 else f"{topic}-{partition}"
    text = reason(error)
    if error.code() in REFUSED:
        text = f"this login may not write to topic {topic} ({text})"
    elif error.code() in _UNSENT:
        text = f"no broker leads the partition, or that one does not answer ({text})"
    return Unwritten(f"{place}: {text}", passes(error))


@dataclass(slots=True)
class _Waiting:
    """The records of one key. `sent` are at Kafka, `failures` counts in a row."""

    newest: tuple[NewRecord, ...] = ()
    sent: tuple[NewRecord, ...] = ()
    failures: int = 0
    due: float = 0.0
    why: str = ""

    def add(self, record: NewRecord) -> None:
        removed = self.newest[:1] if self.newest and self.newest[0].value is None else ()
        self.newest = (record,) if record.value is None else (*removed, record)


class KafkaBackgroundWriter:
    """Implements BackgroundWriter with the login of `properties`. Used from any thread."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._changed = threading.Condition()
        self._waiting: dict[_Key, _Waiting] = {}
        # those of them that Kafka did not take at the last try
        self._failing: dict[_Key, _Waiting] = {}
        self._in_flight = 0
        # to be sent at once, in order
        self._new: dict[_Key, None] = {}
        self._kafka: KafkaStatuses | None = None
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._over = False

    @property
    def problem(self) -> str | None:
        return self._problem

    def write(self, records: Sequence[NewRecord]) -> None:
        if not records:
            return
        with self._changed:
            for record in records:
                key = (record.topic, record.key)
                self._waiting.setdefault(key, _Waiting()).add(record)
                self._new[key] = None
            while len(self._waiting) > _KEYS_MAX:
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                self._new.pop(oldest, None)
                self._failing.pop(oldest, None)
            if self._thread is None and not self._over:
                self._thread = threading.Thread(
                    target=self._run, name="background-writer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or len(self._failing) == len(self._waiting), timeout_s
            )
            return not self._waiting

    def drop(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._new.clear()
            self._failing.clear()
            self._set_problem(None)
            if self._kafka is not None:
                self._kafka.drop()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_END_S)

    # --- the thread ---

    def _run(self) -> None:
        while not self._over:
            try:
                self._kafka = KafkaStatuses(self._properties)
                try:
                    self._write_all(self._kafka)
                finally:
                    kafka, self._kafka = self._kafka, None
                    kafka.close()
            except Exception as error:
                # an invalid setting, or no more threads or descriptors
                with self._changed:
                    self._set_problem(
                        str(error) if isinstance(error, ConnectError) else repr(error)
                    )
                    self._changed.wait_for(lambda: self._over, _RETRY_MAX_S)

    def _write_all(self, kafka: KafkaStatuses) -> None:
        with self._changed:
            # those of a client that failed
            for key, waiting in self._waiting.items():
                self._take_back(waiting)
                self._new[key] = None
            self._in_flight = 0
        while True:
            with self._changed:
                if not self._new and not self._in_flight:
                    self._changed.wait_for(lambda: self._over or self._new, self._pause_s())
                if self._over:
                    return
                sending = self._to_send(time.monotonic())
            for key, records in sending:
                answered = self._on_answer(key, records)
                for record in records:
                    kafka.begin(record, answered)
            kafka.serve(_SOON_S)

    def _pause_s(self) -> float | None:
        """Returns how long until something is due; None: until something new comes."""
        due = min((waiting.due for waiting in self._failing.values()), default=None)
        return None if due is None else max(due - time.monotonic(), _SOON_S)

    def _to_send(self, now_s: float) -> list[tuple[_Key, tuple[NewRecord, ...]]]:
        due = [key for key, record_wait in self._failing.items() if now_s >= record_wait.due]
        batches = []
        for key in {**self._new, **dict.fromkeys(due)}:
            waiting = self._waiting.get(key)
            # in order: a key's next records wait for the answer to those before
            if waiting is not None and waiting.newest and not waiting.sent:
                waiting.sent, waiting.newest = waiting.newest, ()
                batches.append((key, waiting.sent))
        self._in_flight += len(batches)
        self._new.clear()
        return batches

    def _on_answer(
        self, key: _Key, records: tuple[NewRecord, ...]
    ) -> Callable[[Unwritten | None], None]:
        """Returns a callback for Kafka's answers to these records, called once for each."""
        answers: list[Unwritten | None] = []

        def take(unwritten: Unwritten | None) -> None:
            answers.append(unwritten)
            if len(answers) == len(records):
                failed = next((answer for answer in answers if answer is not None), None)
                self._answered(key, records, failed)

        return take

    def _answered(
        self, key: _Key, records: tuple[NewRecord, ...], failed: Unwritten | None
    ) -> None:
        with self._changed:
            self._in_flight -= 1
            waiting = self._waiting.get(key)
            if waiting is None or waiting.sent is not records:
                return  # dropped in the meantime
            if failed is None:
                waiting.sent, waiting.failures = (), 0
                self._failing.pop(key, None)
                if waiting.newest:
                    self._new[key] = None
                else:
                    del self._waiting[key]
            else:
                self._take_back(waiting)
                pause_s = min(_RETRY_S * 2**waiting.failures, _RETRY_MAX_S)
                waiting.failures += 1
                waiting.due, waiting.why = time.monotonic() + pause_s, failed.why
                self._failing[key] = waiting
            first = next(iter(self._failing.values()), None)
            self._set_problem(None if first is None else first.why)
            self._changed.notify_all()

    @staticmethod
    def _take_back(waiting: _Waiting) -> None:
        newer, waiting.newest, waiting.sent = waiting.newest, waiting.sent, ()
        for record in newer:
            waiting.add(record)

    def _set_problem(self, problem: str | None) -> None:
        earlier, self._problem = self._problem, problem
        if problem is not None and earlier is None:
            _log.warning("Statuses cannot be written: %s; they will be retried", problem)
        elif problem is None and earlier is not None:
            _log.info("Statuses are written again")
