"""Reports failed records of a sink task: its log, its dead letter queue, and its own reports."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import ConnectorError, RawHeaders, SinkRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.dead_letters import DeadLetterQueue, FailureHeaders
from connect_runtime.errors.handler import DeadLetters, ErrorHandler, ErrorReporter, Failure, Stage
from connect_runtime.kafka import clients
from connect_runtime.kafka.topics import NewTopics
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.settings.connector_topics import TopicCreation, TopicSettings
from connect_runtime.tasks.control.assignments import RetryWait
from connect_runtime.tasks.kafka_failures import kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup

_CLOSE_S: Final = 5.0
_QUEUE: Final = {"linger.ms": 5}
_SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
_NO_TIMESTAMP: Final = (0, -1)
_CREATE_TIME: Final = 1


class SinkErrors:
    """The error handler of one task, and the reports that offsets wait for.

    Raises ConnectorError, or Interrupted, if the dead letter queue's topic neither exists nor can
    be created.
    """

    def __init__(self, setup: TaskSetup, wait: RetryWait, metrics: TaskMetrics) -> None:
        policy = setup.error_policy
        reporters: list[ErrorReporter] = []
        self._queue: DeadLetterQueue | None = None
        if policy.dead_letters is not None:
            self._queue = _queue(setup, policy.dead_letters, wait, metrics)
            reporters.append(self._queue)
        reporters += setup.log_reporters(metrics)
        self.handler = ErrorHandler(policy, reporters, wait, metrics)
        self.reporter = TaskReporter(self.handler, setup.converters) if reporters else None

    def check_put(self) -> None:
        """Raises the error of a report that the task made; call after each `put`."""
        if self.reporter is not None:
            self.reporter.check()
        if self._queue is not None:
            self._queue.serve()

    def wait(self, timeout_s: float) -> bool:
        """Waits until all reports are kept, so that offsets may be committed; False if they are
        not in time. Raises ConnectorError if one cannot be."""
        return self._queue is None or self._queue.wait(timeout_s)

    def close(self) -> None:
        """Waits a moment for reports, also for that of the record that failed the task. Raises
        ConnectorError if one is not kept: it is made again when its record is read again."""
        try:
            if not self.wait(_CLOSE_S):
                raise ConnectorError("Kafka has not taken all of them")
        finally:
            if self._queue is not None:
                self._queue.close()


def _queue(
    setup: TaskSetup, letters: DeadLetters, wait: RetryWait, metrics: TaskMetrics
) -> DeadLetterQueue:
    properties = setup.dead_letter_producer()
    settings = TopicSettings(1, letters.replication_factor, {})
    admin = setup.sink_clients.dead_letters_admin()
    try:
        with kafka_may_interrupt():
            NewTopics(admin, TopicCreation((), settings)).ensure(letters.topic)
    except ConnectorError as error:
        raise ConnectorError(
            f"Could not initialize dead letter queue with topic={letters.topic}"
        ) from error
    headers = FailureHeaders(setup.id.connector, setup.id.task, setup.text, setup.trace)
    producer = clients.producer(properties, _QUEUE)
    added = headers if letters.with_context else None
    return DeadLetterQueue(letters.topic, producer, added, wait, metrics)


class TaskReporter:
    """Takes records that the task's target refuses: an `ErrantRecordReporter` (KIP-610)."""

    def __init__(self, errors: ErrorHandler, converters: Converters) -> None:
        self._errors = errors
        self._converters = converters
        self._fatal: ConnectorError | None = None

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Reports the record as failed."""
        message = record.consumed
        if message is None:
            message = RecordMessage.of(record, self._converters)
        failure = Failure(Stage.TASK_PUT, _SINK_TASK, error, message)
        try:
            return self._errors.report(failure)
        except ConnectorError as fatal:
            self._fatal = fatal
            raise

    def check(self) -> None:
        """Raises the error that fails the task, even if the task caught it in `put`."""
        if self._fatal is not None:
            raise self._fatal


@dataclass(frozen=True, slots=True)
class RecordMessage:
    """A record that a sink task made itself, as the `confluent_kafka.Message` of a report.

    Its origin is not known, so the report has the record, converted to bytes as those of sources
    are.
    """

    record: SinkRecord
    key_data: bytes | None
    value_data: bytes | None
    raw_headers: RawHeaders

    @classmethod
    def of(cls, record: SinkRecord, converters: Converters) -> RecordMessage:
        """Converts the record. Raises what the converters raise."""
        topic, convert = record.topic, converters.header.from_connect
        headers: RawHeaders = [
            (h.key, convert(topic, h.key, h.schema, h.value)) for h in record.headers
        ]
        (key,) = converters.key.writer()(topic, [headers], record.key_schema, [record.key])
        (value,) = converters.value.writer()(topic, [headers], record.value_schema, [record.value])
        return cls(record, key, value, headers)

    def topic(self) -> str:
        return self.record.topic

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset

    def timestamp(self) -> tuple[int, int]:
        timestamp = self.record.timestamp
        return _NO_TIMESTAMP if timestamp is None else (_CREATE_TIME, timestamp)

    def key(self) -> bytes | None:
        return self.key_data

    def value(self) -> bytes | None:
        return self.value_data

    def headers(self) -> RawHeaders:
        return self.raw_headers
