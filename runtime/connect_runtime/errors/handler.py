"""Decides about each error of a record: try again, skip the record, or fail the task.

In Connect this is the `RetryWithToleranceOperator`. Failures are reported before the task fails, so
that a log and a dead letter queue have the record that failed it, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from connect_runtime.api import ConnectorError, RetriableError, SourceRecord
from connect_runtime.errors.policy import ErrorPolicy
from connect_runtime.errors.stages import Failure, Stage
from connect_runtime.errors.texts import where_text
from connect_runtime.metrics.task_metrics import TaskMetrics

T = TypeVar("T")
# Waits so many seconds, and returns False at once if the task is to end
Wait: TypeAlias = Callable[[float], bool]

_FIRST_DELAY_S: Final = 0.3


class RecordSkipped(Exception):
    """The record failed, and that is tolerated: go on with the next one."""


class RetriesEnded(Exception):
    """The task is to end while a record is tried again, or while its report waits: leave the record
    as not processed."""


class Reporter(Protocol):
    """Keeps failures for users."""

    def report(self, failure: Failure) -> Future[None] | None:
        """Called once for each failure, before anything else follows from it. Returns what is done
        when the report is kept, if that takes time."""
        ...


class ErrorHandler:
    """Belongs to one task. `wait` is called before a retry. `metrics` counts as Connect's
    `ErrorHandlingMetrics` do."""

    def __init__(
        self,
        policy: ErrorPolicy | None = None,
        reporters: Sequence[Reporter] = (),
        wait: Wait | None = None,
        metrics: TaskMetrics | None = None,
    ) -> None:
        self._policy = policy or ErrorPolicy()
        self._reporters = reporters
        self._wait = wait or _sleep
        self._metrics = metrics or TaskMetrics()

    @property
    def tolerates_all(self) -> bool:
        """Whether records that fail are skipped."""
        return self._policy.tolerates_all

    def run(self, stage: Stage, class_name: str, operation: Callable[[], T], record: Any) -> T:
        """Returns the operation's result. Raises what `recover` raises."""
        try:
            return operation()
        except Exception as error:
            return self.recover(Failure(stage, class_name, error, record), operation)

    def recover(self, failure: Failure, again: Callable[[], T]) -> T:
        """Handles the failure of a first attempt: calls `again` while the error is temporary and
        there is time. Returns its result.

        Raises RecordSkipped, or RetriesEnded, or ConnectorError, which fails the task; and a
        MemoryError as it is: the next records would be skipped as well.
        """
        error, attempt = failure.error, 1
        begin = time.monotonic()
        self._metrics.attempt_failed()
        while isinstance(error, RetriableError):
            left_s = self._policy.retry_timeout_s - (time.monotonic() - begin)
            if left_s <= 0:
                break
            if not self._wait(min(self._delay_s(attempt), left_s)):
                raise RetriesEnded
            attempt += 1
            self._metrics.retried()
            try:
                return again()
            except Exception as next_error:
                error = next_error
                self._metrics.attempt_failed()
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
        self._metrics.attempt_failed()
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
    error.add_note(where_text(failure, with_record=is_message))
    return error


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
