"""Writes the statuses of a node's tasks with one producer.

Each is answered as soon as Kafka has it: a partition without a leader holds up only its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

from connect_runtime.kafka.background_writer import KafkaStatuses, Unwritten, unwritten_line
from connect_runtime.node.asking import Asking, file_of
from connect_runtime.node.door import WriteStatus
from connect_runtime.storage.log import NewRecord
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_LATE: Final = Unwritten("it came too late", passing=True)
_UNUSED_S: Final = 60.0
# The longest that a new one waits for the answer to an earlier one
_SOON_S: Final = 0.02


class Statuses:
    """Implements Service. A task without an answer asks Kafka by itself."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._asked = threading.Condition()
        self._new: dict[Asking, WriteStatus] = {}
        self._in_flight: set[Asking] = set()
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="write-statuses", daemon=True).start()

    def add(self, asking: Asking, request: WriteStatus) -> bool:
        with self._asked:
            if self.over:
                return False
            self._new[asking] = request
            self._asked.notify()
            return True

    def remove(self, asking: Asking) -> None:
        with self._asked:
            self._new.pop(asking, None)
            self._in_flight.discard(asking)

    def tell_alive(self) -> None:
        with self._asked:
            for asking in (*self._new, *self._in_flight):
                asking.send(b".")

    def _run(self) -> None:
        try:
            kafka = KafkaStatuses(self._properties)
            try:
                self._write(kafka)
            finally:
                kafka.close()
        except ConnectError as error:
            _log.info("Tasks write their statuses by themselves: %s", error)
        except Exception:
            _log.exception("Statuses are not written for all tasks of this node")
        finally:
            with self._asked:
                self.over = True
                for asking in (*self._new, *self._in_flight):
                    asking.end()

    def _write(self, kafka: KafkaStatuses) -> None:
        """Returns when nothing was asked for a while."""
        while True:
            with self._asked:
                if not self._in_flight:
                    self._asked.wait_for(lambda: self._new, _UNUSED_S)
                requests, self._new = self._new, {}
                self._in_flight.update(requests)
                if not self._in_flight:
                    self.over = True
                    return
            time_s = time.monotonic()
            for asking, request in requests.items():
                answer = partial(self._answer, asking)
                # the task has given up, and may have written its next status by itself
                if time_s < request.until:
                    kafka.begin(_record(request), answer)
                else:
                    answer(_LATE)
            kafka.serve(_SOON_S)

    def _answer(self, asking: Asking, unwritten: Unwritten | None) -> None:
        with file_of(unwritten_line(unwritten)) as file, self._asked:
            if asking in self._in_flight:
                self._in_flight.discard(asking)
                asking.answer(file)


def _record(request: WriteStatus) -> NewRecord:
    value = None if request.value is None else request.value.encode()
    return NewRecord(request.topic, request.key.encode(), value)
