"""Writes records to Kafka in the background, outside of transactions: each key's newest.

What Kafka does not take is tried again after 0.5 s, 1 s, ... up to 10 s, as long as nothing newer
replaces it. One thread for all partitions; librdkafka keeps one that has no leader from holding up
the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from connect_runtime.kafka.status_writer import KafkaStatuses, Unwritten
from connect_runtime.storage.log import NewRecord
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_RETRY_MAX_S: Final = 10.0
# How long a new record waits for the answer to an earlier one at most
_SOON_S: Final = 0.02
# More keys than a cluster has connectors and tasks: tombstones of deleted ones add up
_KEYS_MAX: Final = 200_000
_END_S: Final = 2.0

_Key: TypeAlias = tuple[str, bytes]


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
            self._say(None)
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
                    self._say(str(error) if isinstance(error, ConnectError) else repr(error))
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
                told = self._told(key, records)
                for record in records:
                    kafka.begin(record, told)
            kafka.serve(_SOON_S)

    def _pause_s(self) -> float | None:
        """Returns how long until something is due; None: until something new comes."""
        due = min((each.due for each in self._failing.values()), default=None)
        return None if due is None else max(due - time.monotonic(), _SOON_S)

    def _to_send(self, now: float) -> list[tuple[_Key, tuple[NewRecord, ...]]]:
        due = [key for key, each in self._failing.items() if now >= each.due]
        found = []
        for key in {**self._new, **dict.fromkeys(due)}:
            waiting = self._waiting.get(key)
            # in order: a key's next records wait for the answer to those before
            if waiting is not None and waiting.newest and not waiting.sent:
                waiting.sent, waiting.newest = waiting.newest, ()
                found.append((key, waiting.sent))
        self._in_flight += len(found)
        self._new.clear()
        return found

    def _told(
        self, key: _Key, records: tuple[NewRecord, ...]
    ) -> Callable[[Unwritten | None], None]:
        """Returns what takes Kafka's answers to all of these records."""
        answers: list[Unwritten | None] = []

        def told(unwritten: Unwritten | None) -> None:
            answers.append(unwritten)
            if len(answers) == len(records):
                failed = next((each for each in answers if each is not None), None)
                self._answered(key, records, failed)

        return told

    def _answered(
        self, key: _Key, records: tuple[NewRecord, ...], failed: Unwritten | None
    ) -> None:
        with self._changed:
            self._in_flight -= 1
            waiting = self._waiting.get(key)
            if waiting is None or waiting.sent is not records:
                return  # dropped meanwhile
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
            self._say(None if first is None else first.why)
            self._changed.notify_all()

    @staticmethod
    def _take_back(waiting: _Waiting) -> None:
        newer, waiting.newest, waiting.sent = waiting.newest, waiting.sent, ()
        for record in newer:
            waiting.add(record)

    def _say(self, problem: str | None) -> None:
        before, self._problem = self._problem, problem
        if problem is not None and before is None:
            _log.warning("Statuses cannot be written: %s; they will be retried", problem)
        elif problem is None and before is not None:
            _log.info("Statuses are written again")
