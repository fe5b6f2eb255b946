"""Lets sink tasks report records that their target refuses (KIP-610)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from connect_runtime.api import ConnectorError, SinkRecord
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.errors.stages import Failure, Stage

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"


class TaskReporter:
    """An `ErrantRecordReporter`. `made` makes messages of records that the task made itself."""

    def __init__(self, errors: ErrorHandler, made: Callable[[SinkRecord], Any]) -> None:
        self._errors = errors
        self._made = made
        self._fatal: ConnectorError | None = None

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Reports the record as failed."""
        message = self._made(record) if record.consumed is None else record.consumed
        failure = Failure(Stage.TASK_PUT, SINK_TASK, error, message)
        try:
            return self._errors.report(failure)
        except ConnectorError as fatal:
            self._fatal = fatal
            raise

    def check(self) -> None:
        """Raises the error that fails the task, even if the task caught it in `put`."""
        if self._fatal is not None:
            raise self._fatal
