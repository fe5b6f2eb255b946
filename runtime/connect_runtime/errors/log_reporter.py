"""Logs failures of records (`errors.log.enable`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

from connect_runtime.errors.stages import Failure
from connect_runtime.errors.texts import where_text
from connect_runtime.metrics.task_metrics import TaskMetrics

_log = logging.getLogger(__name__)


class LogReporter:
    """Logs failures of one task, with where they happened, and with the record if
    `with_records`. `trace` renders an error without secrets."""

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
        where = where_text(failure, with_record=self._with_records)
        trace = self._trace(failure.error)
        self._metrics.logged()
        _log.error("Error encountered in task %s. %s\n%s", self._task, where, trace)
        return None
