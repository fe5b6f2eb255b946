"""Decides about each error of a record: try again, skip the record, or fail the task.

In Connect this is the `RetryWithToleranceOperator` (KIP-298, KIP-610). Failures are reported before
the task fails, so that a log and a dead letter queue have the record that failed it, too.

Columns are converted in pieces if a record in them fails: the whole column is tried first, then
smaller pieces, and at last single records. With few bad ones, nearly all are converted together.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from connect_runtime.api import ConnectorError, RetriableError, SourceRecord
from connect_runtime.api.records import record_text
from connect_runtime.metrics.task_metrics import TaskMetrics

T = TypeVar("T")
Converted = TypeVar("Converted")
# Waits so many seconds, and returns False at once if the task is to end
Wait: TypeAlias = Callable[[float], bool]

_log = logging.getLogger(__name__)

_FIRST_DELAY_S: Final = 0.3
_PIECES: Final = 16
_DLQ: Final = "errors.deadletterqueue."
_TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A sink's queue for failed records. `with_context`: with headers that describe the error."""

    topic: str
    replication_factor: int = 3
    with_context: bool = False


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The `errors.*` keys of a connector. The defaults are Connect's: the first error fails the
    task."""

    tolerates_all: bool = False
    retry_timeout_s: float = 0.0
    retry_delay_max_s: float = 60.0
    logs: bool = False
    logs_messages: bool = False
    dead_letters: DeadLetters | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> ErrorPolicy:
        """Returns a connector's policy. Raises ValueError for invalid numbers; validation reports
        those before."""
        timeout_ms = int(config.get("errors.retry.timeout") or 0)
        topic = (config.get(f"{_DLQ}topic.name") or "").strip()
        return cls(
            tolerates_all=config.get("errors.tolerance", "").strip().lower() == "all",
            retry_timeout_s=math.inf if timeout_ms < 0 else timeout_ms / 1000,
            retry_delay_max_s=int(config.get("errors.retry.delay.max.ms") or 60_000) / 1000,
            logs=_is_true(config, "errors.log.enable"),
            logs_messages=_is_true(config, "errors.log.include.messages"),
            dead_letters=None
            if not topic
            else DeadLetters(
                topic,
                int(config.get(f"{_DLQ}topic.replication.factor") or 3),
                _is_true(config, f"{_DLQ}context.headers.enable"),
            ),
        )


def _is_true(config: Mapping[str, str], key: str) -> bool:
    return config.get(key, "").strip().lower() == "true"


class Stage(Enum):
    """A step of a record's way at which it can fail, with Connect's name, which logs and the
    headers of a dead letter queue have."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"

    @property
    def tolerates_any_error(self) -> bool:
        """Returns True if `errors.tolerance=all` is about each error here; else only about
        temporary ones."""
        return self not in (Stage.KAFKA_PRODUCE, Stage.TASK_PUT)


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that failed. `class_name` is the class that was executing; `record` is the message
    that a sink read, or the `SourceRecord` that a source returned."""

    stage: Stage
    class_name: str
    error: Exception
    record: Any

    def location(self, *, with_record: bool) -> str:
        """Returns the stage and the class in Connect's words, and the record: of a message, the
        place that it was read from; of a source's record, its key and value."""
        text = f"Executing stage '{self.stage.name}' with class '{self.class_name}'"
        if not with_record or self.record is None:
            return f"{text}."
        if isinstance(self.record, SourceRecord):
            return f"{text}, where source record is = {record_text(self.record)}."
        return f"{text}, where consumed record is {{{_message_text(self.record)}}}."


def _message_text(message: Any) -> str:
    text = f"topic='{message.topic()}', partition={message.partition()}, offset={message.offset()}"
    type_, timestamp = message.timestamp()
    if type_ in _TIMESTAMP_TYPES:
        text += f", timestamp={timestamp}, timestampType={_TIMESTAMP_TYPES[type_]}"
    return text


class RecordSkipped(Exception):
    """The record failed, and that is tolerated: go on with the next one."""


class RetriesEnded(Exception):
    """The task is to end while a record is tried again, or while its report waits: leave the record
    as not processed."""


class ErrorReporter(Protocol):
    """Keeps failures for users."""

    def report(self, failure: Failure) -> Future[None] | None:
        """Reports a failure once, before anything else follows from it. Returns a future that is
        done when the report is kept, if that takes time."""
        ...


class LogReporter:
    """Logs failures of one task (`errors.log.enable`), with the record if `with_records`. `trace`
    renders an error without secrets."""

    def __init__(
        self,
        task: str,
        trace: Callable[[BaseException], str],
        metrics: TaskMetrics,
        *,
        with_records: bool,
    ) -> None:
        self._task = task
        self._trace = trace
        self._metrics = metrics
        self._with_records = with_records

    def report(self, failure: Failure) -> Future[None] | None:
        location = failure.location(with_record=self._with_records)
        trace = self._trace(failure.error)
        self._metrics.count("total_errors_logged")
        _log.error("Error encountered in task %s. %s\n%s", self._task, location, trace)
        return None


class ErrorHandler:
    """Belongs to one task. `wait` is called before a retry. `metrics` counts as Connect's
    `ErrorHandlingMetrics` do."""

    def __init__(
        self,
        policy: ErrorPolicy | None = None,
        reporters: Sequence[ErrorReporter] = (),
        wait: Wait | None = None,
        metrics: TaskMetrics | None = None,
    ) -> None:
        self._policy = policy or ErrorPolicy()
        self._reporters = reporters
        self._wait = wait or _sleep
        self._metrics = metrics or TaskMetrics()

    @property
    def tolerates_all(self) -> bool:
        """Returns True if records that fail are skipped."""
        return self._policy.tolerates_all

    def run(self, stage: Stage, class_name: str, operation: Callable[[], T], record: Any) -> T:
        """Returns the operation's result. Raises what `recover` raises."""
        try:
            return operation()
        except Exception as error:
            return self.recover(Failure(stage, class_name, error, record), operation)

    def recover(self, failure: Failure, retry: Callable[[], T]) -> T:
        """Handles the failure of a first attempt: calls `retry` while the error is temporary and
        there is time. Returns its result.

        Raises RecordSkipped, or RetriesEnded, or ConnectorError, which fails the task; and a
        MemoryError as it is: the next records would be skipped as well.
        """
        error, attempt = failure.error, 1
        begin = time.monotonic()
        self._metrics.count("total_record_failures")
        while isinstance(error, RetriableError):
            left_s = self._policy.retry_timeout_s - (time.monotonic() - begin)
            if left_s <= 0:
                break
            if not self._wait(min(self._delay_s(attempt), left_s)):
                raise RetriesEnded
            attempt += 1
            self._metrics.count("total_retries")
            try:
                return retry()
            except Exception as next_error:
                error = next_error
                self._metrics.count("total_record_failures")
        if isinstance(error, MemoryError):
            raise error
        failure = replace(failure, error=error)
        if not failure.stage.tolerates_any_error and not isinstance(error, RetriableError):
            self._metrics.record_failed(skipped=False)
            raise _fatal("Unhandled exception in error handler", failure) from error
        self._report(failure)
        raise RecordSkipped

    def report(self, failure: Failure) -> Future[None]:
        """Reports a failure that is not tried again. Returns, if it is tolerated, what is done when
        all reporters have kept it; else raises ConnectorError, which fails the task."""
        self._metrics.count("total_record_failures")
        return self._report(failure)

    def _report(self, failure: Failure) -> Future[None]:
        self._metrics.record_failed(skipped=self._policy.tolerates_all)
        reports = [reporter.report(failure) for reporter in self._reporters]
        if not self._policy.tolerates_all:
            raise _fatal("Tolerance exceeded in error handler", failure) from failure.error
        # of Connect's reporters, only the dead letter queue takes time
        return next(filter(None, reports), None) or _done()

    def _delay_s(self, attempt: int) -> float:
        """Returns how long to wait after so many attempts: twice as long each time. Above the limit
        it is random, so that tasks do not come back all at once."""
        most_s = self._policy.retry_delay_max_s
        delay_s = _FIRST_DELAY_S * 2 ** min(attempt - 1, 32)
        return delay_s if delay_s <= most_s else random.uniform(0, most_s)


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _fatal(text: str, failure: Failure) -> ConnectorError:
    error = ConnectorError(text)
    # a source's record has values, which do not belong into a status
    is_message = not isinstance(failure.record, SourceRecord)
    error.add_note(failure.location(with_record=is_message))
    return error


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def pieces_of(
    begin: int, end: int, convert: Callable[[int, int], Converted], *, failed: bool = False
) -> Iterator[tuple[int, Converted | None]]:
    """Yields the results of `convert(begin, end)` for the records in this range, in pieces, with
    the index of the first record of a piece. None instead of a single record that cannot be
    converted. `failed`: all of them together are known to fail."""
    converted: Converted | None = None
    if not failed:
        with suppress(Exception):
            converted = convert(begin, end)
    if converted is not None or end - begin <= 1:
        yield begin, converted
        return
    size = -(-(end - begin) // _PIECES)
    for at in range(begin, end, size):
        yield from pieces_of(at, min(at + size, end), convert)
