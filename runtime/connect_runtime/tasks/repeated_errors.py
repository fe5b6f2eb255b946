"""Tells of a call to a task that failed and is repeated, again and again: in the metrics each time,
in the log and in the task's status with growing pauses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

# From one report to the next: 1 s, 2, 4, ... up to a minute. After so long without an error, the
# pauses start over.
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0


class RepeatedErrors:
    """Follows one kind of call of one task. `what` says in the log what happens; `report` writes
    the task's status with this trace, or with none once a call succeeded."""

    def __init__(
        self,
        what: str,
        setup: TaskSetup,
        metrics: TaskMetrics,
        report: Callable[[str | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._setup = setup
        self._metrics = metrics
        self._report = report
        self._clock = clock
        self._count = 0
        self._since: float | None = None
        self._last = -_PAUSE_MAX_S
        self._next = 0.0
        self._pause_s = _PAUSE_S
        self._reported: str | None = None

    def failed(self, error: Exception) -> None:
        """A call is to be repeated."""
        now = self._clock()
        self._metrics.call_repeated()
        if now - self._last >= _PAUSE_MAX_S:
            self._pause_s, self._next = _PAUSE_S, now
        self._last = now
        self._since = now if self._since is None else self._since
        self._count += 1
        if now < self._next:
            return
        self._next = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        times = f", {self._count} times in {now - self._since:.0f} s" if self._count > 1 else ""
        _log.warning("%s%s: %s", self._what, times, self._setup.text(error))
        trace = self._setup.trace(error)
        # what passes within a second is no reason for a status
        if now - self._since >= _PAUSE_S and trace != self._reported:
            self._reported = trace
            self._report(trace)

    def succeeded(self) -> None:
        """A call succeeded."""
        self._count, self._since = 0, None
        if self._reported is not None:
            self._reported = None
            self._report(None)

    def forget(self) -> None:
        """The task's status was written without a trace."""
        self._reported = None
