"""Writes to a real cluster in transactions, as the newest writer of a transactional id.

Opening a writer fences every earlier one. A write is one transaction: committed as a whole, or
aborted. A writer that was fenced, or whose transaction's result is unknown, never writes again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect_runtime.kafka.clients import check_login, meet_broker, producer
from connect_runtime.kafka.errors import (
    FENCED,
    RECORD_REFUSED,
    SILENT,
    as_failure,
    error_of,
    reason,
)
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.storage.log import (
    Fenced,
    LogRecord,
    NewRecord,
    WriteFailed,
    WriteInDoubt,
    WriteRefused,
)
from connect_specs.diagnostics import Diagnostic

_log = logging.getLogger(__name__)

_TRANSACTION_TIMEOUT_MS = 10_000
_INIT_S = 30.0
_WRITE_S = 30.0
_ABORT_S = 10.0
_METADATA_S = 10.0
_LOGIN_S = 3.0
_SETTINGS = {
    # A killed writer's open transaction hides later records for so long.
    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "reconnect.backoff.ms": 1,
}


class KafkaLogWriter:
    """Implements LogWriter. Belongs to one thread at a time."""

    @logged("start to write as", "transactional_id")
    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        self._id = transactional_id
        self._usable = True
        self._fenced = False
        # Records of the last write that were not delivered, with errors
        self._undelivered: list[tuple[KafkaError, Message]] = []
        self._producer: Producer = producer(
            properties, {**_SETTINGS, "transactional.id": transactional_id}
        )
        try:
            meet_broker(self._producer, _METADATA_S)
            self._producer.init_transactions(_INIT_S)
        except KafkaException as exception:
            self._usable = False
            error = error_of(exception)
            if error.code() in SILENT:
                # a refused login makes calls time out without a reason
                check_login(properties, _LOGIN_S)
            raise as_failure(error, "Earlier writers cannot be fenced", transactional_id) from None

    @property
    def usable(self) -> bool:
        """Returns False once it cannot write any more; a new writer of the same id may be able
        to."""
        return self._usable

    @logged("write to topic", "records")
    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        if self._fenced:
            raise self._fenced_error()
        if not self._usable:
            raise WriteFailed(Diagnostic("write.writer-ended", "This writer has ended", self._id))
        if not records:
            return ()
        deadline = time.monotonic() + _WRITE_S
        delivered: dict[int, Message] = {}
        self._undelivered = []
        try:
            self._producer.begin_transaction()
            for number, record in enumerate(records):
                self._produce(number, record, delivered, deadline)
            self._producer.flush(_remaining_s(deadline))
        except KafkaException as error:
            self._abort(error_of(error))
        except SystemError:
            # The client library lost a fatal error: the commit raises it again
            _log.debug("An error of %s was lost", self._id)
        except BaseException:
            # interrupted: open records must not be committed with the next write
            self._usable = False
            raise
        self._commit(deadline)
        # reports that the flush had no time for
        self._producer.poll(0)
        return [_as_read(record, delivered[number]) for number, record in enumerate(records)]

    def close(self) -> None:
        # An unusable producer is only dropped: closing it would try to abort, and log errors.
        if self._usable:
            self._usable = False
            self._producer.close()
        # At once, even if a traceback still has this writer: tasks/source/transactions.py says why
        self.__dict__.pop("_producer", None)

    def _produce(
        self, number: int, record: NewRecord, delivered: dict[int, Message], deadline: float
    ) -> None:
        undelivered = self._undelivered

        def note(error: KafkaError | None, message: Message) -> None:
            # An error is raised again when the transaction is committed. Its methods must not be
            # called here: a fatal one may be set already
            if error is None:
                delivered[number] = message
            else:
                undelivered.append((error, message))

        while True:
            try:
                self._producer.produce(
                    record.topic, key=record.key, value=record.value, on_delivery=note
                )
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)) from None
                self._producer.poll(0.05)

    def _commit(self, deadline: float) -> None:
        while True:
            try:
                self._producer.commit_transaction(_remaining_s(deadline))
                return
            except SystemError:
                if time.monotonic() > deadline:
                    self._usable = False
                    raise
            except KafkaException as exception:
                error = error_of(exception)
                if error.retriable() and time.monotonic() < deadline:
                    continue
                if error.code() in FENCED or error.txn_requires_abort():
                    self._abort(error)
                self._usable = False
                raise WriteInDoubt(
                    Diagnostic(
                        "write.in-doubt",
                        "Kafka did not report whether the write was committed",
                        self._id,
                        self._why(error),
                    )
                ) from None

    def _abort(self, error: KafkaError) -> NoReturn:
        """Aborts the transaction."""
        if error.code() not in FENCED and not error.fatal():
            try:
                self._producer.abort_transaction(_ABORT_S)
            except KafkaException as exception:
                # the broker aborts it after its timeout
                self._usable = False
                error = error_of(exception) if error_of(exception).code() in FENCED else error
        if error.code() in FENCED:
            self._usable, self._fenced = False, True
            raise self._fenced_error() from None
        refused = error.code() in RECORD_REFUSED
        # a refused record leaves a gap in the producer's sequence, and its next write fails
        left_a_gap = refused and error.txn_requires_abort()
        self._usable = self._usable and not error.fatal() and not left_a_gap
        if refused:
            problem = "Kafka refuses this record"
            raise WriteRefused(
                Diagnostic("write.refused", problem, self._id, reason(error))
            ) from None
        raise WriteFailed(
            Diagnostic("write.failed", "Nothing was written", self._id, self._why(error))
        ) from None

    def _why(self, error: KafkaError) -> str:
        """Returns the reason; the transaction's own is often only that a record failed."""
        if not self._undelivered:
            return reason(error)
        failed, message = self._undelivered[0]
        return f"{message.topic()}-{message.partition()}: {reason(failed)}"

    def _fenced_error(self) -> Fenced:
        return Fenced(Diagnostic("write.fenced", "A newer writer has taken over", self._id))


def _remaining_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _as_read(record: NewRecord, message: Message) -> LogRecord:
    return LogRecord(
        topic=record.topic,
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=record.key,
        value=record.value,
    )
