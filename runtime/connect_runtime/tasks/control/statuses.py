"""Writes a task's own status to the status topic, with the errors of calls that it repeats.

Always with the runtime's own login, never a connector's, and outside of its transactions. Each
record names the attempt, and readers ignore records of an attempt older than the newest known, so a
zombie cannot hide its successor's status.
"""

from __future__ import annotations

import logging
import mmap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State, Status
from connect_runtime.storage.status_topic import task_record, topic_in_use_record
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.waiting import wait_until

_log = logging.getLogger(__name__)

_CLOSE_S: Final = 10.0
_RETRY_S: Final = 0.1
# From one report of a repeated error to the next: 1 s, 2, 4, ... up to a minute. After so long
# without an error, the pauses start over.
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0
# Some threads and their stacks. Of 64 MB and more, glibc would make a heap for the first thread,
# and leave nothing for its start
_RESERVED_BYTES: Final = 32 << 20


class StatusReporter:
    """Makes and writes the status records of one attempt.

    `write` never waits and never fails: a task continues even if its status cannot be written. A
    thread that lives only for this retries records in order until Kafka has them.
    """

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._topics: set[str] = set()
        self.version: str | None = None
        self.trace: str | None = None
        self._lock = threading.Lock()
        self._unwritten: list[NewRecord] = []
        self._writing: threading.Thread | None = None
        self._closed = threading.Event()

    def record(self, state: State, trace: str | None = None, *, polled: bool = False) -> NewRecord:
        """Returns a record of `state`; `polled`: a poll succeeded since the task runs."""
        setup = self._setup
        status = Status(
            state=state,
            worker_id=setup.worker_id,
            generation=setup.leader_term,
            trace=trace,
            version=self.version,
            attempt=setup.attempt,
            polled=polled,
        )
        return task_record(setup.topics.status, setup.id, status)

    def failure(self, error: BaseException) -> NewRecord:
        """Returns a record of the task's failure; `trace` then holds its text."""
        self.trace = self._setup.trace(error)
        return self.record(State.FAILED, self.trace)

    def new_topics(self, topics: Iterable[str]) -> list[NewRecord]:
        """Returns records for topics that this attempt uses for the first time; none if tracking is
        off."""
        unreported = [topic for topic in topics if topic not in self._topics]
        if not self._setup.tracks_topics or not unreported:
            return []
        self._topics.update(unreported)
        setup = self._setup
        return [
            topic_in_use_record(
                setup.topics.status,
                topic,
                setup.id.connector,
                task=setup.id.task,
                discovered_ms=int(time.time() * 1000),
            )
            for topic in unreported
        ]

    def forget_topics(self) -> None:
        """Makes each topic new again, because the leader has forgotten which are in use."""
        self._topics.clear()

    def write(self, *records: NewRecord) -> None:
        """Queues records, to be written soon in order."""
        if not records:
            return
        with self._lock:
            self._unwritten.extend(records)
        self._begin_writing()

    def close(self) -> None:
        """Returns when everything is written; gives up after ten seconds."""
        wait_until(self._begin_writing, _CLOSE_S, every_s=_RETRY_S)
        with self._lock:
            writing = self._writing
        if writing is not None:
            writing.join(_CLOSE_S)
        self._closed.set()

    def _begin_writing(self) -> bool:
        """Returns whether all is written or a thread writes it; the next call tries again if no
        thread is left."""
        with self._lock:
            if self._unwritten and self._writing is None:
                writing = threading.Thread(target=self._run, name="statuses", daemon=True)
                with suppress(RuntimeError):
                    writing.start()
                    self._writing = writing
            return not self._unwritten or self._writing is not None

    def _run(self) -> None:
        try:
            self._write_all(WorkerTopics(self._setup))
        except Exception:
            _log.exception("Task %s: its status cannot be written", self._setup.id)
            with self._lock:
                self._writing = None  # the next record is tried with another thread

    def _write_all(self, topics: WorkerTopics) -> None:
        silent = False
        while not self._closed.is_set():
            with self._lock:
                if not self._unwritten:
                    self._writing = None
                    return
                record = self._unwritten[0]
            unwritten = topics.write_status(record)
            if unwritten is None or not unwritten.passing:
                with self._lock:
                    self._unwritten.pop(0)
            else:
                self._closed.wait(_RETRY_S)
            if unwritten is not None and not silent:
                self._log_failure(unwritten.why)
            silent = unwritten is not None

    def _log_failure(self, reason: str) -> None:
        _log.warning("Task %s: its status cannot be written: %s", self._setup.id, reason)


class RepeatedErrors:
    """Reports a kind of call of one task that fails and is repeated: in the metrics each time, in
    the log and in the task's status with growing pauses.

    `message` begins its lines in the log. `report` writes the task's status with this trace, or
    with none once a call succeeded.
    """

    def __init__(
        self,
        message: str,
        setup: TaskSetup,
        metrics: TaskMetrics,
        report: Callable[[str | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._message = message
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
        """Reports a call that is to be repeated."""
        now_s = self._clock()
        self._metrics.call_repeated()
        if now_s - self._last >= _PAUSE_MAX_S:
            self._pause_s, self._next = _PAUSE_S, now_s
        self._last = now_s
        self._since = now_s if self._since is None else self._since
        self._count += 1
        if now_s < self._next:
            return
        self._next = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        times = f", {self._count} times in {now_s - self._since:.0f} s" if self._count > 1 else ""
        _log.warning("%s%s: %s", self._message, times, self._setup.text(error))
        trace = self._setup.trace(error)
        # what passes within a second is no reason for a status
        if now_s - self._since >= _PAUSE_S and trace != self._reported:
            self._reported = trace
            self._report(trace)

    def succeeded(self) -> None:
        """Reports, after an error was, that a call succeeded."""
        self._count, self._since = 0, None
        if self._reported is not None:
            self._reported = None
            self._report(None)

    def forget(self) -> None:
        """Reports the next error again: the task's status was written without a trace."""
        self._reported = None


@contextmanager
def memory_reserve() -> Iterator[None]:
    """Keeps address space free for the end of a task that runs out of memory in this context.

    A plugin that takes all memory, if that is limited (`spark.executor.pyspark.memory`), fails with
    MemoryError. To close its clients and to report its failure, the task starts threads, and
    Python waits for ever for a thread whose start finds no memory. The reserve cannot be used, so
    it costs no memory, even if the system lends no more than it has.
    """
    reserved: mmap.mmap | None = None
    with suppress(OSError):  # there is less than that: the task may do without
        reserved = mmap.mmap(
            -1, _RESERVED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0
        )
    try:
        yield
    finally:
        if reserved is not None:
            reserved.close()
