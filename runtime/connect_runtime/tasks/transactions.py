"""One task's Kafka transactions: records, source offsets and statuses, all or nothing.

Wraps the transactional producer. A transaction is opened by the first write and never left empty.
Whatever Kafka says about a newer producer with the same id becomes `Fenced`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from connect_runtime.api import ConnectorError
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import FENCED, SILENT, WRONG_STATE, error_of, reason
from connect_runtime.storage.log import Fenced, NewRecord
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.launch import TaskLaunch
from connect_specs.diagnostics import Diagnostic

_INIT_TIMEOUT_S: Final = 60.0
_REASON_TIMEOUT_S: Final = 5.0
_SETTINGS: Final = {
    # no limits here: the size of transactions bounds what is queued
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2_147_483_647,
    "delivery.report.only.error": True,
}


class Transactions:
    """The producer with this task's transactional id. Making one fences every earlier one."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._failed: list[KafkaError] = []
        properties = client_properties.source_producer(launch)
        self._producer = clients.producer(properties, {**_SETTINGS, "on_delivery": self._delivered})
        self.open = False
        self.bytes = 0
        self.opened_at = 0.0
        try:
            self._take_over()
        except BaseException:
            self._producer.close()
            raise

    def _take_over(self) -> None:
        # A coordinator asked for before the broker's address is known is asked again after 500 ms.
        self._producer.list_topics(timeout=_INIT_TIMEOUT_S)
        self._producer.list_topics(timeout=_INIT_TIMEOUT_S)
        self._call(self._producer.init_transactions, _INIT_TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None and len(self._failed) < 10:
            self._failed.append(error)

    def send(self, topic: str, messages: list[dict[str, Any]], partition: int | None) -> None:
        """Queues messages, dicts of `value` and if need be `key`."""
        self._begin()
        if partition is None:
            queued = self._producer.produce_batch(topic, messages)
        else:
            queued = self._producer.produce_batch(topic, messages, partition)
        if queued < len(messages):
            error = next(m["_error"] for m in messages if "_error" in m)
            self._raise(error)

    def send_each(
        self, topic: str, messages: Iterable[dict[str, Any]], partition: int | None
    ) -> None:
        """The same for messages with `timestamp` or `headers`, which have no batch call."""
        self._begin()
        place = {} if partition is None else {"partition": partition}
        for message in messages:
            self._call(partial(self._producer.produce, topic, **message, **place))

    def add(self, records: Iterable[NewRecord]) -> None:
        """Queues records of the cluster's own topics."""
        for record in records:
            self._begin()
            self._call(self._producer.produce, record.topic, record.value, record.key)

    def commit(self, timeout_s: float = -1) -> None:
        """Ends the transaction; returns when all of it is in Kafka. Raises if none of it is."""
        if not self.open:
            return
        self._call(self._producer.commit_transaction, timeout_s)
        self.open = False

    def abort(self, timeout_s: float = 10) -> None:
        """Drops what was written since the last commit."""
        if not self.open:
            return
        self.open = False
        self._call(self._producer.abort_transaction, timeout_s)

    def close(self) -> None:
        """Ends the producer. An open transaction is aborted if it can be."""
        try:
            self.abort()
        finally:
            self._producer.close()

    def _begin(self) -> None:
        if self.open:
            return
        self._failed.clear()
        self._call(self._producer.begin_transaction)
        self.open = True
        self.bytes = 0
        self.opened_at = time.monotonic()

    def _call(self, function: Any, *args: Any) -> None:
        while True:
            try:
                function(*args)
                return
            except KafkaException as raised:
                error = error_of(raised)
                if not error.retriable() or error.code() in SILENT:
                    self._raise(error, raised)

    def _raise(self, error: KafkaError, cause: BaseException | None = None) -> None:
        if error.code() in FENCED or any(e.code() in FENCED for e in self._failed):
            what = "a newer attempt of this task has taken over its transactional id"
            raise Fenced(Diagnostic(code="task.fenced", what=what)) from cause
        first = self._failed[0] if self._failed else self._first(error)
        raise ConnectorError(f"Unrecoverable exception trying to send: {reason(first)}") from cause

    def _first(self, error: KafkaError) -> KafkaError:
        """What the transaction failed on. Whatever is called after that only says that it did; a
        commit, which cannot succeed any more, says why."""
        if not self.open or error.code() != WRONG_STATE:
            return error
        try:
            self._producer.commit_transaction(_REASON_TIMEOUT_S)
        except KafkaException as raised:
            return error_of(raised)
        return error
