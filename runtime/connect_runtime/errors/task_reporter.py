"""Lets sink tasks report records that their target refuses (KIP-610)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Final

from connect_runtime.api import ConnectorError, SinkRecord
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.errors.stages import Failure, Stage

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"


class TaskReporter:
    """An `ErrantRecordReporter`."""

    def __init__(self, errors: ErrorHandler) -> None:
        self._errors = errors
        self._fatal: ConnectorError | None = None

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Reports the record as failed."""
        failure = Failure(Stage.TASK_PUT, SINK_TASK, error, record.consumed)
        try:
            return self._errors.report(failure)
        except ConnectorError as fatal:
            self._fatal = fatal
            raise

    def check(self) -> None:
        """Raises the error that fails the task, even if the task caught it in `put`."""
        if self._fatal is not None:
            raise self._fatal
